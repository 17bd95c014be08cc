package ebs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// Node is who claims: what is written into the claim's tag.
type Node struct {
	Name    string         // node.name
	Cluster string         // cluster.name
	Address netip.AddrPort // of the gossip; the others find us by it
}

// Provider claims the EBS volumes of one cluster for one process.
type Provider struct {
	cfg   Config
	node  Node
	cloud Cloud
	host  Host
	self  func(context.Context) (Self, error)
	log   *zap.Logger
	step  func(string) // called between the steps of a claim; stories end the process there

	op     turn                // held by what changes a volume or the journal
	random func(n int64) int64 // from 0 to n-1; the simulation has its own
	want   volume.Want         // of the last claim

	mu        sync.Mutex // guards what follows; never held over a call of Cloud or Host
	me        Self       // once it is known
	unlock    func()     // of the host's lock, while it is held
	held      *claim
	view      view
	observing bool                 // seeds are wanted, and no volume
	sights    map[string]sight     // by volume
	avoid     map[string]time.Time // by volume: not before
	failed    map[string]string    // by volume: what the last attempt, which an operator may have to mend, came to
	names     map[string]bool      // device names that did not work
	devices   map[string]bool      // volumes whose device was seen here
	tagless   bool                 // CreateTags is denied
	progress  Progress
	problems  map[string]string
}

// New returns the provider of a node. It does no I/O. self tells the instance this process runs on; step, if
// not nil, is called with the name of each step before it is taken.
func New(cfg Config, node Node, cloud Cloud, host Host, self func(context.Context) (Self, error), step func(string), lg *zap.Logger) *Provider {
	if step == nil {
		step = func(string) {}
	}
	return &Provider{
		cfg: cfg.For(node.Cluster), node: node, cloud: cloud, host: host, self: self, log: lg, step: step,
		op: make(turn, 1), random: rand.Int64N,
		sights: map[string]sight{}, avoid: map[string]time.Time{}, failed: map[string]string{}, names: map[string]bool{}, devices: map[string]bool{}, problems: map[string]string{},
		progress: Progress{State: StateIdle, Since: time.Now()},
	}
}

// Progress returns how far the claim is.
func (p *Provider) Progress() Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress
}

func (p *Provider) at(state, volume, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress.State != state || p.progress.Volume != volume {
		p.progress.Since = time.Now()
	}
	p.progress.State, p.progress.Volume, p.progress.Why = state, volume, why
}

// Problems returns what an operator should know beside the progress.
func (p *Provider) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, key := range sortedKeys(p.problems) {
		all = append(all, p.problems[key])
	}
	if h, ok := p.host.(staller); ok && p.held != nil {
		if since, stalled := h.Stalled(); stalled {
			all = append(all, fmt.Sprintf("the device of %s has not answered for %s; it is not lost, the member waits with it", p.held.vol, time.Since(since).Round(time.Second)))
		}
	}
	return all
}

// staller are [Disks] that know since when the device of the held volume has not answered.
type staller interface {
	Stalled() (since time.Time, ok bool)
}

// problem shows what is wrong under a key; "" settles it. It is logged when it is news.
func (p *Provider) problem(key, text string) {
	p.mu.Lock()
	before := p.problems[key]
	if text == "" {
		delete(p.problems, key)
	} else {
		p.problems[key] = text
	}
	p.mu.Unlock()
	if text != "" && text != before {
		p.log.Warn(text)
	}
}

// Claim implements [volume.Provider]. It takes seconds, and up to some minutes when EC2 is slow; it ends with
// ctx. Where no volume can be taken it answers at once, from what was seen last, until it is time to look
// again.
func (p *Provider) Claim(ctx context.Context, want volume.Want) (volume.Claim, error) {
	if err := p.op.take(ctx); err != nil {
		return nil, fmt.Errorf("claim a volume: %w", err)
	}
	defer p.op.give()
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		return nil, fmt.Errorf("claim a volume: this process holds %s already", held.vol)
	}
	c, err := p.claim(ctx, want)
	if err != nil {
		p.leave()
		return nil, fmt.Errorf("claim a volume: %w", err)
	}
	p.mu.Lock()
	p.held = c
	p.mu.Unlock()
	return c, nil
}

// claim is the protocol: what is here, else what is free.
func (p *Provider) claim(ctx context.Context, want volume.Want) (*claim, error) {
	if err := errors.Join(ctx.Err(), want.Validate()); err != nil {
		return nil, err
	}
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	p.want = want
	devices, err := p.host.Devices()
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	left, asking := p.left(want, devices), ctx
	if left != nil {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, blindAfter)
		defer cancel()
	}
	volumes, err := p.scan(asking, devices)
	switch {
	case err != nil && left != nil && ctx.Err() == nil:
		return p.adoptBlind(ctx, want, *left, devices[left.Volume], err)
	case err != nil:
		return nil, err
	}
	open, err := p.settle(ctx, devices)
	if err != nil {
		return nil, err
	}
	if volumes, err = p.recall(ctx, volumes, devices); err != nil {
		return nil, err
	}
	if err := p.strays(ctx, volumes, devices); err != nil {
		return nil, err
	}
	v, here, err := p.present(ctx, want, volumes, devices)
	switch {
	case err != nil:
		return nil, err
	case here:
		return p.adopt(ctx, want, v, devices[v.ID])
	case open != "":
		return p.finish(ctx, want, open, volumes)
	}
	v, err = p.choose(ctx, want, volumes)
	if err != nil {
		return nil, err
	}
	return p.take(ctx, want, v)
}

// holding is the claim of this process, nil for none.
func (p *Provider) holding() *claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *Provider) hold(c *claim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = c
}

// enter finds out who we are and takes this machine's lock for the cluster.
func (p *Provider) enter(ctx context.Context) error {
	p.mu.Lock()
	known, locked := p.me.Instance != "", p.unlock != nil
	p.mu.Unlock()
	if !known {
		me, err := p.self(ctx)
		if err != nil {
			return fmt.Errorf("find out which instance this is: %w", err)
		}
		p.mu.Lock()
		p.me = me
		p.mu.Unlock()
	}
	if locked {
		return nil
	}
	unlock, err := p.host.Lock()
	if err != nil {
		return fmt.Errorf("lock the volumes of cluster %s on this machine: %w", p.node.Cluster, err)
	}
	p.mu.Lock()
	p.unlock = unlock
	p.mu.Unlock()
	return nil
}

// leave gives the lock back.
func (p *Provider) leave() {
	p.mu.Lock()
	unlock := p.unlock
	p.unlock = nil
	p.mu.Unlock()
	if unlock != nil {
		unlock()
	}
}

// turn is a lock that is waited for no longer than a context lasts: who has it may be waiting for EC2.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// dir is where the volume of a slot is mounted.
func (p *Provider) dir(slot string) string { return filepath.Join(p.cfg.MountRoot, slot) }

// journal is what this machine remembers. What another instance wrote, of which this one is a copy, is not
// about this machine.
func (p *Provider) journal() (Journal, error) {
	j, err := p.host.Journal()
	if err != nil {
		return Journal{}, err
	}
	if j.Instance != p.me.Instance {
		j = Journal{}
	}
	j.Version, j.Instance = 1, p.me.Instance
	j.Attaching, j.Detaching = maps.Clone(j.Attaching), maps.Clone(j.Detaching)
	if j.Attaching == nil {
		j.Attaching = map[string]time.Time{}
	}
	if j.Detaching == nil {
		j.Detaching = map[string]time.Time{}
	}
	return j, nil
}

// remember changes the journal, durably.
func (p *Provider) remember(change func(*Journal)) error {
	j, err := p.journal()
	if err != nil {
		return err
	}
	change(&j)
	if err := p.host.Remember(j); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}
