package ebs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"holdfast/volume"
)

// Node is the claiming node, as the claim's tag names it.
type Node struct {
	Name    string         // node.name
	Cluster string         // cluster.name
	Address netip.AddrPort // of the gossip; other nodes find this one by it
}

// Provider claims the EBS volumes of one cluster for one process. It keeps what outlives a claim: what was seen, what
// was requested, and what has failed. One run of the protocol is a claimAttempt.
type Provider struct {
	*site
	status   *status
	seen     *scanner
	setbacks *setbacks
	requests *requests
	claims   *tags
	outlook  *outlook

	held atomic.Pointer[claim] // the claim of this process, or nil

	// op is held by operations that change a volume or the journal, and may wait for EC2; it guards unlock.
	op     *semaphore.Weighted
	unlock func() // of the host's lock, while it is held
}

// New returns the provider of a node. It does no I/O. step, if not nil, is called with the name of each step before the
// step.
func New(cfg Config, node Node, cloud Cloud, host Host, metadata Metadata, step func(string),
	lg *zap.Logger) *Provider {
	if step == nil {
		step = func(string) {}
	}
	s := &site{cfg: cfg.For(node.Cluster), node: node, cloud: cloud, host: host, metadata: metadata, log: lg, step: step,
		random: rand.Int64N}
	st := newStatus(lg)
	seen, setbacks := newScanner(s, st), newSetbacks(s)
	return &Provider{
		site: s, status: st, seen: seen, setbacks: setbacks,
		requests: &requests{site: s, status: st, seen: seen, setbacks: setbacks,
			known: map[unanswered]time.Time{}},
		claims:  &tags{site: s, status: st},
		outlook: newOutlook(metadata, lg),
		op:      semaphore.NewWeighted(1),
	}
}

// Progress returns how far the current claim is.
func (p *Provider) Progress() Progress { return p.status.now() }

// Problems returns what an operator should know in addition to the progress.
func (p *Provider) Problems() []string {
	all := p.status.wrong()
	if text := p.outlook.now().problem(); text != "" {
		all = append(all, text)
	}
	if held := p.held.Load(); held != nil {
		if since, stalled := p.host.Disks.Stalled(); stalled {
			all = append(all, volume.Stall(fmt.Sprintf("the device of %s", held.vol), since))
		}
	}
	return all
}

// Observe makes Seeds work in a process that never claims a volume, on any machine that may call EC2.
func (p *Provider) Observe() { p.seen.observe() }

// Seeds returns the gossip addresses, as host:port, of the nodes whose claims are in the tags of the cluster's volumes
// in the whole region, from the last scan. For a node that is alone the scan is repeated, less and less often.
func (p *Provider) Seeds(ctx context.Context, alone bool) []string { return p.seen.seeds(ctx, alone) }

// Records implements [volume.RecordLister] with the tags of the cluster's volumes in the whole region.
func (p *Provider) Records() map[string]string { return p.seen.records() }

// Claim implements [volume.Provider]. It takes seconds, and up to some minutes if EC2 is slow; it stops when ctx ends.
// If no volume can be taken, it answers at once from the last scan, until the next scan is due.
func (p *Provider) Claim(ctx context.Context, want volume.Want) (volume.Claim, error) {
	if err := p.op.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("claim a volume: %w", err)
	}
	defer p.op.Release(1)
	if held := p.held.Load(); held != nil {
		return nil, fmt.Errorf("claim a volume: this process holds %s already", held.vol)
	}
	c, err := (&claimAttempt{Provider: p, want: want}).run(ctx)
	if err != nil {
		p.leave()
		return nil, fmt.Errorf("claim a volume: %w", err)
	}
	p.held.Store(c)
	return c, nil
}

// enter determines the instance and takes this machine's lock for the cluster. The caller has the provider's turn.
func (p *Provider) enter(ctx context.Context) error {
	if err := p.identify(ctx); err != nil {
		return fmt.Errorf("find out which instance this is: %w", err)
	}
	if p.unlock != nil {
		return nil
	}
	unlock, err := p.host.Memory.Lock()
	if err != nil {
		return fmt.Errorf("lock the volumes of cluster %s on this machine: %w", p.node.Cluster, err)
	}
	p.unlock = unlock
	return nil
}

// leave gives up the lock. The caller has the provider's turn.
func (p *Provider) leave() {
	if p.unlock != nil {
		p.unlock()
	}
	p.unlock = nil
}

// checkAttachment reports an attachment that would delete the disk with the instance.
func (p *Provider) checkAttachment(v Volume) {
	text := ""
	for _, a := range v.Attachments {
		if a.Instance == p.me.Instance && a.DeleteOnTermination {
			text = fmt.Sprintf("%s would be deleted with this instance: set DeleteOnTermination of %s to false (ec2 "+
				"modify-instance-attribute)", v.ID, a.Device)
		}
	}
	p.status.problem("delete "+v.ID, text)
}
