package ebs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

const (
	remoteEvery = time.Minute      // mean time between questions to EC2
	suspect     = 20 * time.Second // the same while EC2 says that another instance has the volume
	convinced   = time.Minute      // how long EC2 must have said so, in at least three answers
	releaseWait = time.Minute      // for a detach to be done
	releaseLook = time.Second
)

// claim is a volume held by this process, or about to be.
type claim struct {
	*volume.Hold
	p      *Provider
	rules  rules // of the attempt that made this claim
	vol    string
	device string
	dir    string // where it is mounted, or would be

	formatted string // from the format tag
	mounted   bool
	blind     bool // adopted while EC2 could not be asked

	remount sync.RWMutex  // held while the filesystem is remounted, when a look would not find it
	news    chan struct{} // the tags need an update

	mu     sync.Mutex // guards what follows, never held over I/O
	tag    claimTag
	unsaid bool   // the tags could not be written
	record record // for the record tag
}

// record is the token that a claim writes, "" for none, and one that it has written, of a cluster that was given up.
type record struct{ token, undone string }

func newClaim(p *Provider, vol string, want volume.Identity) *claim {
	return &claim{Hold: volume.NewHold(want), p: p, vol: vol, news: make(chan struct{}, 1)}
}

// newClaim returns a claim on a volume as EC2 shows it, with an epoch above that of the claim in its tag.
func (a *claimAttempt) newClaim(v Volume) *claim {
	slot, _ := a.cfg.slot(v)
	c := newClaim(a.Provider, v.ID, volume.Identity{Cluster: a.want.Cluster, Slot: slot, Volume: v.ID})
	c.rules = a.rules(a.want)
	c.formatted = v.Tags[TagFormat]
	epoch := uint64(1)
	// Anyone who may write the tag can forge it: it must not use up the epochs of the disk, which decides.
	if t, err := a.cfg.claim(v); err == nil && t.Epoch < volume.MaxEpoch/2 {
		epoch = t.Epoch + 1
	}
	c.tag = a.newTag(epoch)
	return c
}

func (p *Provider) newTag(epoch uint64) claimTag {
	return claimTag{
		Epoch: epoch, Instance: p.me.Instance, Node: p.node.Name, Nonce: rand.Text(), Phase: volume.PhaseClaiming,
		Address: p.node.Address}
}

// write writes the current claim to the tag. It does not matter whether an uncertain write was executed: it is
// repeated.
func (c *claim) write(ctx context.Context) error {
	c.mu.Lock()
	c.tag.Since = time.Now().UTC().Truncate(time.Second)
	text := c.tag.String()
	c.mu.Unlock()
	return c.p.claims.Write(ctx, c.vol, text)
}

func (c *claim) Path() string { return c.dir }

// Watch implements [volume.Claim]. A slow or failing EC2 does not delay the look at the device.
func (c *claim) Watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var remote sync.WaitGroup
	defer remote.Wait()
	defer cancel()
	taken := make(chan error, 1)
	remote.Go(func() { taken <- c.watchCloud(ctx) })
	evidence := c.Evidence(ctx, c.look, taken)
	if evidence == nil {
		return nil
	}
	return c.lose(evidence)
}

// look returns evidence from this machine that the volume is lost.
func (c *claim) look() error {
	if c.mounted && c.remount.TryRLock() {
		defer c.remount.RUnlock()
		return c.p.host.Disks.Check(c.vol, c.device, c.dir)
	}
	devices, err := c.p.host.Devices()
	if err == nil && devices[c.vol] == "" {
		return fmt.Errorf("the device of %s is gone", c.vol)
	}
	return nil
}

// lose makes sure that nothing more is written to the volume, and records the loss.
func (c *claim) lose(evidence error) error {
	err := c.Lose(evidence)
	if err == nil {
		return nil // it was released, so another claim of the volume is expected
	}
	c.p.status.at(stateLost, c.vol, evidence.Error())
	if c.mounted {
		if e := c.p.host.Disks.Fence(c.dir); e != nil {
			c.p.log.Error("could not shut down the filesystem of the lost volume", zap.String("path", c.dir), zap.Error(e))
		}
	}
	return err
}

// watchCloud asks EC2 until ctx ends, and updates the tags of the volume. It returns an error if EC2 has said for long
// enough that another instance has the volume, and the device has not answered meanwhile. While it answers, the volume
// is attached here: only one instance can read it, and what EC2 says may be old (kubernetes#77949).
func (c *claim) watchCloud(ctx context.Context) error {
	var since time.Time // of the first consecutive answer that showed another instance
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
		if _, stalled := c.p.host.Disks.Stalled(); who == "" || !stalled {
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

// review compares EC2's answer with the facts. It returns the other instance that, according to EC2, the volume is
// attached to, or "".
func (c *claim) review(ctx context.Context) (other string) {
	if c.p.op.Acquire(ctx, 1) != nil {
		return ""
	}
	defer c.p.op.Release(1)
	if c.Released() || ctx.Err() != nil {
		return ""
	}
	volumes, err := c.p.seen.look(ctx)
	if err != nil {
		return "" // a failing EC2 is no evidence
	}
	devices, err := c.p.host.Devices()
	if err != nil {
		return ""
	}
	for _, v := range volumes {
		switch {
		case v.ID == c.vol:
			other = c.reviewOwn(ctx, v)
		case devices[v.ID] == "":
			c.p.status.left(v.ID)
		case c.rules.unfit(c.rules.here(v)) == "":
			c.p.requests.shed(ctx, v.ID, devices[v.ID], c.vol)
		}
	}
	if err := c.p.requests.strays(ctx, c.rules, volumes, devices); err != nil {
		c.p.log.Warn("could not read the journal", zap.Error(err))
	}
	return other
}

// reviewOwn updates the tags of the held volume, and reports problems of the attachment.
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
	said := v.Tags[TagClaim] == c.tag.String()
	c.mu.Unlock()
	err := error(nil)
	if !said {
		err = c.write(ctx)
	}
	tags := map[string]string{}
	if c.formatted != "" && c.Mismatch() == "" && v.Tags[TagFormat] == "" {
		tags[TagFormat] = c.formatted
	}
	c.mu.Lock()
	if c.record.token != "" && v.Tags[TagRecord] != c.record.token {
		tags[TagRecord] = c.record.token
	}
	undone := c.record.undone != "" && v.Tags[TagRecord] == c.record.undone
	c.mu.Unlock()
	if len(tags) > 0 && !c.p.claims.isDenied() {
		err = errors.Join(err, c.p.cloud.Tag(ctx, c.vol, tags))
	}
	if undone {
		err = errors.Join(err, c.p.cloud.Untag(ctx, c.vol, TagRecord, v.Tags[TagRecord]))
	}
	c.mu.Lock()
	c.unsaid = err != nil || undone // a founding waits for the look that shows it
	c.mu.Unlock()
	if err != nil {
		c.p.log.Debug("could not update the tags of the held volume", zap.String("volume", c.vol),
			zap.Error(err))
	}
	return ""
}

// SetRecord implements [volume.Claim] with the record tag. Watch writes the tag, and writes it again whenever it
// is missing. Only the tag that this claim has written is ever removed: any other is evidence of a cluster.
func (c *claim) SetRecord(token string) {
	c.mu.Lock()
	before := c.record.token
	news := before != token
	switch {
	case !news:
	case token == "":
		c.record = record{undone: before}
	default:
		c.record = record{token: token}
	}
	c.mu.Unlock()
	if news {
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
}

func (c *claim) SetAside(ctx context.Context) error {
	if err := c.setAside(ctx); err != nil {
		return fmt.Errorf("set the content of %s aside: %w", c.vol, err)
	}
	return nil
}

func (c *claim) setAside(ctx context.Context) error {
	p := c.p
	if err := p.op.Acquire(ctx, 1); err != nil {
		return err
	}
	defer p.op.Release(1)
	why := c.Mismatch()
	switch {
	case c.Released():
		return errors.New("it was released")
	case c.Lost() != nil:
		return c.Lost()
	case !c.mounted:
		return fmt.Errorf("it is not mounted: %s", why)
	}
	c.remount.Lock() // it was mounted read-only: it is now unmounted for a moment, which is no loss
	err := c.mount(ctx, false)
	c.remount.Unlock()
	if err == nil {
		err = c.SetAsideWith(c.tag.Epoch,
			func() error { return p.host.Files.SetAside(c.dir) },
			func(id volume.Identity) error { return p.host.Files.Identify(c.dir, id) })
	}
	if err != nil {
		return err
	}
	p.status.at(stateHeld, c.vol, "")
	p.log.Warn("set the content of the volume aside", zap.String("volume", c.vol), zap.String("slot", c.Want.Slot),
		zap.String("disk", c.Volume().Disk), zap.String("mismatch", why))
	return nil
}
