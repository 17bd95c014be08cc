package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A lost volume is noticed within watchEvery by its names and files, and within
// (1 + watchMissed) * watchEvery = 2 s when looking at them does not return.
const (
	watchEvery  = 500 * time.Millisecond
	watchMissed = 3
)

// localClaim is a directory held by this process.
type localClaim struct {
	local *Local
	root  string
	want  Identity // what the volume should be, without disk and epoch
	file  *lock    // <slot>.lock
	dir   *lock    // the volume

	end  func() // closes done, once
	done chan struct{}
	op   sync.Mutex // held by what changes the volume or gives it up

	mu       sync.Mutex // guards what follows, never held over I/O
	tag      Tag
	identity Identity
	mismatch string
	lost     error
	gone     *gone  // what this node held last and does not find
	borne    marker // as written by this claim
}

func newLocalClaim(l *Local, root string, want Identity) *localClaim {
	c := &localClaim{local: l, root: root, want: want, done: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.done) })
	return c
}

// Volume implements Claim.
func (c *localClaim) Volume() Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

// Path implements Claim.
func (c *localClaim) Path() string { return filepath.Join(c.root, c.want.Slot) }

// Mismatch implements Claim.
func (c *localClaim) Mismatch() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mismatch
}

// Watch implements Claim. A look that hangs in the kernel cannot be stopped and cannot be waited
// for: its goroutine outlives Watch until the disk answers.
func (c *localClaim) Watch(ctx context.Context) error {
	answer := make(chan error, 1)
	look := func() { answer <- c.evidence() }
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	go look()
	looking, missed := true, 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.done:
			return nil
		case err := <-answer:
			if err != nil {
				return c.lose(err)
			}
			looking, missed = false, 0
		case <-ticker.C:
			switch {
			case !looking:
				looking = true
				go look()
			case len(answer) > 0:
				// The answer came together with the tick.
			case missed+1 == watchMissed:
				return c.lose(fmt.Errorf("%s has not answered for %s", c.Path(), watchMissed*watchEvery))
			default:
				// Counting ticks, not time: a process that was stopped for an hour sees one.
				missed++
			}
		}
	}
}

// lose remembers that nothing may be written any more.
func (c *localClaim) lose(evidence error) error {
	if c.released() {
		return nil // what we saw is what came after us
	}
	err := fmt.Errorf("%w: slot %s: %w", ErrLost, c.want.Slot, evidence)
	c.mu.Lock()
	c.lost = err
	c.mu.Unlock()
	return err
}

// evidence looks whether the volume still is ours; the error says what shows that it is not. What
// only shows that this process is short of something is no evidence.
func (c *localClaim) evidence() error {
	err := c.look()
	for _, own := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN} {
		if errors.Is(err, own) {
			return nil
		}
	}
	return err
}

func (c *localClaim) look() error {
	c.mu.Lock()
	nonce, id, mismatch := c.tag.Nonce, c.identity, c.mismatch
	c.mu.Unlock()
	if err := errors.Join(c.dir.moved(), c.file.moved()); err != nil {
		return err
	}
	path := tagPath(c.root, c.want.Slot)
	tag, torn, err := readTag(path)
	switch {
	case err != nil:
		return err
	case torn != nil:
		// Not evidence of anything; the locks, just seen, are.
	case tag == nil:
		return fmt.Errorf("%s is gone", path)
	case tag.Nonce != nonce:
		return fmt.Errorf("%s names node %s, epoch %d", path, tag.Owner, tag.Epoch)
	}
	if mismatch != "" {
		return nil // there is no identity of ours to look at
	}
	if err := c.identified(id); err != nil && c.Mismatch() == "" && c.Volume() == id { // else it was adopted while we looked
		return err
	}
	return nil
}

// identified is nil when the volume has the identity id.
func (c *localClaim) identified(id Identity) error {
	path := filepath.Join(c.Path(), IdentityName)
	data, err := ReadSmall(path)
	if err != nil {
		return cure(err)
	}
	found, err := ParseIdentity(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if found.String() != id.String() {
		return fmt.Errorf("%s names slot %s of cluster %s, disk %s, epoch %d", path, found.Slot, found.Cluster, found.Disk,
			found.Epoch)
	}
	return nil
}

// Release implements Claim.
func (c *localClaim) Release(ctx context.Context, drop bool) error {
	c.op.Lock()
	defer c.op.Unlock()
	if c.released() {
		return nil
	}
	var err error
	if drop {
		if err = c.writable(ctx); err == nil {
			err = errors.Join(c.local.forget(c.root, c.want.Slot), c.writeTag(PhaseReleased))
		}
		if err != nil {
			err = fmt.Errorf("drop the claim of slot %s: %w", c.want.Slot, err)
		}
	}
	c.unlock()
	return err
}

// writable is nil while the volume and its tag may be written. The caller holds op.
func (c *localClaim) writable(ctx context.Context) error {
	if c.released() {
		return errors.New("it was released")
	}
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	if err := errors.Join(ctx.Err(), lost); err != nil {
		return err
	}
	if err := c.evidence(); err != nil {
		return c.lose(err)
	}
	return nil
}

func (c *localClaim) released() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// unlock lets others have the volume, after those who watch it were told to look away.
func (c *localClaim) unlock() {
	c.end()
	c.dir.release()
	c.file.release()
	c.local.mu.Lock()
	c.local.held = nil
	c.local.mu.Unlock()
}

// missing is nil for the error of a file that is not there.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
