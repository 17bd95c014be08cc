package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stalledAfter is how long a look at the volume may take before the operator is told.
const stalledAfter = 3 * WatchEvery

// localClaim is a directory held by this process.
type localClaim struct {
	*Hold
	local *Local
	root  string
	at    place
	file  *lock // at.lock
	dir   *lock // the volume
	adopt bool  // adopt etcd data that another program made

	asked atomic.Pointer[time.Time] // when the look in progress began

	op sync.Mutex // held by operations that change the volume or give it up

	mu    sync.Mutex // guards what follows, never held over I/O
	tag   claimTag
	gone  *gone  // the disk that this node held last, if it is missing
	borne marker // the marker as this claim has written it
}

func newLocalClaim(l *Local, root string, want Identity) *localClaim {
	return &localClaim{Hold: NewHold(want), local: l, root: root, at: l.place(root, want.Slot)}
}

func (c *localClaim) Path() string { return c.at.dir }

func (c *localClaim) Lock() string { return c.file.name() }

// Watch implements Claim. A disk that does not answer is no evidence of a loss: this process still has the lock, the
// member waits for the disk, and the others elect a leader. Ending the process would help nobody. If all disks stalled
// for a moment, as on a shared storage system, it would even end every node at once. Problems reports the stall.
//
// A look that hangs in the kernel cannot be stopped: its goroutine outlives Watch until the disk answers.
func (c *localClaim) Watch(ctx context.Context) error {
	c.local.watched.Store(c)
	defer c.local.watched.CompareAndSwap(c, nil)
	found := make(chan error, 1)
	look := func() error {
		if now := time.Now(); c.asked.CompareAndSwap(nil, &now) {
			go func() {
				err := c.evidence()
				c.asked.Store(nil)
				if err != nil {
					found <- err
				}
			}()
		}
		return nil
	}
	look()
	evidence := c.Evidence(ctx, look, found)
	if evidence == nil {
		return nil
	}
	return c.Lose(evidence)
}

// stall says since when the disk has not answered, or returns "" while it does.
func (c *localClaim) stall() string {
	since := c.asked.Load()
	if since == nil || time.Since(*since) < stalledAfter {
		return ""
	}
	return Stall("the disk of "+c.Path(), *since)
}

// evidence checks that the volume is still ours. The error is the evidence that it is not. That this process lacks
// memory or file descriptors is no evidence.
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
	nonce := c.tag.Nonce
	c.mu.Unlock()
	id, mismatch := c.Volume(), c.Mismatch()
	if err := errors.Join(c.dir.moved(), c.file.moved()); err != nil {
		return err
	}
	path := c.at.tag
	tag, torn, err := readTag(path)
	switch {
	case errors.Is(err, ErrNewer):
		return err
	case err != nil, torn != nil:
		// A tag that is torn or cannot be read proves nothing. The locks, which were just checked, do.
	case tag == nil:
		return fmt.Errorf("%s is gone", path)
	case tag.Nonce != nonce:
		return fmt.Errorf("%s names node %s, epoch %d", path, tag.Owner, tag.Epoch)
	}
	if mismatch != "" {
		return nil // there is no identity to compare
	}
	// A difference does not count if SetAside has changed the identity meanwhile.
	if err := c.identified(id); err != nil && c.Mismatch() == "" && c.Volume() == id {
		return err
	}
	return nil
}

// identified returns nil if the volume has the identity id.
func (c *localClaim) identified(id Identity) error {
	path := filepath.Join(c.Path(), IdentityName)
	data, err := ReadSmall(path)
	if err != nil {
		return cure(err)
	}
	found, err := parseIdentity(data)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if found.String() != id.String() {
		return fmt.Errorf("%s names slot %s of cluster %s, disk %s, epoch %d", path, found.Slot, found.Cluster, found.Disk,
			found.Epoch)
	}
	return nil
}

func (c *localClaim) Release(ctx context.Context, drop bool) error {
	c.op.Lock()
	defer c.op.Unlock()
	if c.Released() {
		return nil
	}
	var err error
	if drop {
		if err = c.writable(ctx); err == nil {
			err = errors.Join(c.local.forget(c.Want.Slot), c.writeTag(PhaseReleased))
		}
		if err != nil {
			err = fmt.Errorf("drop the claim of slot %s: %w", c.Want.Slot, err)
		}
	}
	c.unlock()
	return err
}

// writable returns nil while the volume and its tag may be written. The caller holds op.
func (c *localClaim) writable(ctx context.Context) error {
	if c.Released() {
		return errors.New("it was released")
	}
	if err := errors.Join(ctx.Err(), c.Lost()); err != nil {
		return err
	}
	if err := c.evidence(); err != nil {
		return c.Lose(err)
	}
	return nil
}

// unlock ends Watch first, so that it does not see the next claim, and then gives up the locks.
func (c *localClaim) unlock() {
	c.End()
	c.dir.release()
	c.file.release()
	c.local.mu.Lock()
	c.local.held = nil
	c.local.mu.Unlock()
}

// missing turns the error of a file that does not exist into nil.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
