package ebs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

const (
	watchEvery  = 500 * time.Millisecond // between looks at the device
	remoteEvery = time.Minute            // mean time between looks at what EC2 says
	suspect     = 20 * time.Second       // the same while EC2 says that another instance has the volume
	convinced   = time.Minute            // that it must have said so, in three looks at least
	releaseWait = time.Minute            // for a detach to be done
	releaseLook = time.Second
)

// claim is a volume held by this process.
type claim struct {
	p      *Provider
	vol    string
	want   volume.Identity // what the volume should be, without disk and epoch
	device string
	dir    string // where it is, or would be, mounted

	formatted string // as the tag says
	mounted   bool
	blind     bool // adopted while EC2 could not be asked

	remount sync.RWMutex // held while the filesystem is mounted anew: a look meanwhile would not find it

	end  func() // closes done, once
	done chan struct{}
	news chan struct{} // there is something new to be said in the tags

	mu       sync.Mutex // guards what follows, never held over I/O
	tag      Tag
	unsaid   bool   // the tag could not be written
	record   string // that the volume is to bear
	identity volume.Identity
	mismatch string
	lost     error
}

func newClaim(p *Provider, vol string, want volume.Identity) *claim {
	c := &claim{p: p, vol: vol, want: want, identity: want, done: make(chan struct{}), news: make(chan struct{}, 1)}
	c.end = sync.OnceFunc(func() { close(c.done) })
	return c
}

// Volume implements [volume.Claim].
func (c *claim) Volume() volume.Identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.identity
}

func (p *Provider) newTag(epoch uint64) Tag {
	return Tag{Epoch: epoch, Instance: p.me.Instance, Node: p.node.Name, Nonce: newNonce(), Phase: volume.PhaseClaiming,
		Address: p.node.Address}
}

// Path implements [volume.Claim].
func (c *claim) Path() string { return c.dir }

// Mismatch implements [volume.Claim].
func (c *claim) Mismatch() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mismatch
}

// Watch implements [volume.Claim]. Nothing that EC2 does or fails to do delays the look at the device.
func (c *claim) Watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var remote sync.WaitGroup
	defer remote.Wait()
	defer cancel()
	taken := make(chan error, 1)
	remote.Go(func() { taken <- c.watchCloud(ctx) })
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.done:
			return nil
		case err := <-taken:
			if err != nil {
				return c.lose(err)
			}
			taken = nil
		case <-ticker.C:
			if err := c.look(); err != nil {
				return c.lose(err)
			}
		}
	}
}

// look looks for evidence on this machine.
func (c *claim) look() error {
	if c.mounted && c.remount.TryRLock() {
		defer c.remount.RUnlock()
		return c.p.host.Check(c.vol, c.device, c.dir)
	}
	devices, err := c.p.host.Devices()
	if err == nil && devices[c.vol] == "" {
		err = fmt.Errorf("the device of %s is gone", c.vol)
	}
	return err
}

// lose makes sure that nothing is written to the volume any more, and remembers it.
func (c *claim) lose(evidence error) error {
	if c.released() {
		return nil // what we saw is what came after us
	}
	err := fmt.Errorf("%w: slot %s: %w", volume.ErrLost, c.want.Slot, evidence)
	c.mu.Lock()
	c.lost = err
	c.mu.Unlock()
	c.p.at(StateLost, c.vol, evidence.Error())
	if c.mounted {
		if e := c.p.host.Fence(c.dir); e != nil {
			c.p.log.Error("the filesystem of the lost volume could not be shut down", zap.String("path", c.dir), zap.Error(e))
		}
	}
	return err
}

// watchCloud looks at what EC2 says until ctx ends, and repairs what it says of us. It returns an error when
// EC2 has said long enough that another instance has the volume.
func (c *claim) watchCloud(ctx context.Context) error {
	var since time.Time // of the first look in a row that showed another instance
	looks := 0
	for {
		every := c.p.jitter(remoteEvery)
		if looks > 0 || c.isUnsaid() {
			every = c.p.jitter(suspect)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.news:
		case <-time.After(every):
		}
		who := c.review(ctx)
		if who == "" {
			looks = 0
			continue
		}
		if looks++; looks == 1 {
			since = time.Now()
		}
		if looks >= patience && time.Since(since) >= convinced {
			return fmt.Errorf("%s is attached to %s, as EC2 has said %d times in %s", c.vol, who, looks,
				time.Since(since).Round(time.Second))
		}
	}
}

func (c *claim) isUnsaid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsaid
}

// review compares what EC2 says with what is. It returns the other instance that the volume is said to be
// attached to; "" when nothing is said of one.
func (c *claim) review(ctx context.Context) (other string) {
	if c.p.op.take(ctx) != nil {
		return ""
	}
	defer c.p.op.give()
	if c.released() || ctx.Err() != nil {
		return ""
	}
	volumes, err := c.p.look(ctx)
	if err != nil {
		return "" // that EC2 cannot be asked is no evidence of anything
	}
	devices, err := c.p.host.Devices()
	if err != nil {
		return ""
	}
	for _, v := range volumes {
		switch {
		case v.ID == c.vol:
			other = c.reviewOwn(ctx, v)
		case devices[v.ID] != "" && c.p.unfit(c.p.want, c.p.here(v)) == "":
			c.p.shed(ctx, v.ID, devices[v.ID], c.vol)
		}
	}
	if err := c.p.strays(ctx, volumes, devices); err != nil {
		c.p.log.Warn("the journal could not be read", zap.Error(err))
	}
	return other
}

// reviewOwn makes the tags of the held volume say what is, and warns of what is wrong with the attachment.
func (c *claim) reviewOwn(ctx context.Context, v Volume) (other string) {
	for _, a := range v.Attachments {
		switch {
		case a.Instance == c.p.me.Instance:
			c.p.checkAttachment(v)
		case a.Instance != "" && a.State == Attached:
			other = a.Instance
		}
	}
	if other != "" {
		return other
	}
	c.mu.Lock()
	said := v.Tags[c.p.cfg.ClaimTag] == c.tag.String()
	c.mu.Unlock()
	err := error(nil)
	if !said {
		err = c.p.write(ctx, c)
	}
	tags := map[string]string{}
	c.mu.Lock()
	if c.formatted != "" && c.mismatch == "" && v.Tags[TagFormat] == "" {
		tags[TagFormat] = c.formatted
	}
	if c.record != "" && v.Tags[TagRecord] != c.record {
		tags[TagRecord] = c.record
	}
	c.mu.Unlock()
	if len(tags) > 0 && !c.p.isTagless() {
		err = errors.Join(err, c.p.cloud.Tag(ctx, c.vol, tags))
	}
	c.mu.Lock()
	c.unsaid = err != nil
	c.mu.Unlock()
	if err != nil {
		c.p.log.Debug("the tags of the held volume could not be brought up to date", zap.String("volume", c.vol), zap.Error(err))
	}
	return ""
}

func (c *claim) released() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Release implements [volume.Claim]. Without drop the volume stays attached to this machine, which adopts it at
// its next start; with drop it is detached, and its claim removed.
func (c *claim) Release(ctx context.Context, drop bool) error {
	c.end()
	p := c.p
	_ = p.op.take(context.WithoutCancel(ctx)) // whoever has it ends with Watch, which the end has ended
	defer p.op.give()
	p.mu.Lock()
	mine := p.held == c
	p.mu.Unlock()
	if !mine {
		return nil
	}
	defer func() {
		p.leave()
		p.mu.Lock()
		p.held = nil
		p.view.next = time.Time{}
		p.mu.Unlock()
	}()
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	if lost != nil {
		return lost
	}
	p.at(StateReleasing, c.vol, "unmounts it")
	p.step("before-unmount")
	err := p.host.Unmount(ctx, c.dir)
	if err == nil && drop {
		err = c.drop(ctx)
	}
	if err != nil {
		return fmt.Errorf("release %s (slot %s): %w", c.vol, c.want.Slot, err)
	}
	p.at(StateIdle, "", "")
	return nil
}

// drop detaches the volume and removes the claim, if it still is this one.
func (c *claim) drop(ctx context.Context) error {
	p := c.p
	p.at(StateReleasing, c.vol, "detaches it")
	if err := p.detach(ctx, c.vol); err != nil {
		return err
	}
	var devices map[string]string
	for last := time.Now().Add(releaseWait); ; {
		var err error
		if devices, err = p.host.Devices(); err != nil {
			return err
		}
		if devices[c.vol] == "" {
			v, ok, err := p.one(ctx, c.vol)
			if err == nil && ok && holder(v) != p.me.Instance {
				break
			}
		}
		if time.Now().After(last) {
			return fmt.Errorf("it was asked to be detached, and is not yet after %s", releaseWait)
		}
		if err := pause(ctx, releaseLook); err != nil {
			return err
		}
	}
	if _, err := p.settle(ctx, devices); err != nil {
		return err
	}
	p.step("before-untag")
	if err := p.cloud.Untag(ctx, c.vol, p.cfg.ClaimTag, c.tag.String()); err != nil && MeaningOf(err) != Denied {
		return fmt.Errorf("it is detached, but its claim could not be removed: %w; others take it after %s", err, p.cfg.TakeoverAfter)
	}
	p.postpone(c.vol, p.cfg.TakeoverAfter) // who gave it up is not the first to take it again
	p.log.Info("released a volume", zap.String("volume", c.vol), zap.String("slot", c.want.Slot))
	return nil
}

// SetRecord has the volume's tag say which cluster its disk belongs to. It is written by Watch, and again whenever it is
// not there.
func (c *claim) SetRecord(token string) {
	c.mu.Lock()
	news := c.record != token
	c.record = token
	c.mu.Unlock()
	if news {
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
}
