package node

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/volume/ebs"
)

// noticeEvery is how often a node asks what is planned for its instance. AWS advises 5 s.
const noticeEvery = 5 * time.Second

// noticeGrace is how long a node that must leave waits for the disruption lock: as long as a standby may need to serve
// in place of another member that leaves. A node on a Spot instance leaves noticeLast before the instance ends in any
// case.
const (
	noticeGrace = 30 * time.Second
	noticeLast  = time.Minute
)

// notices releases the volume before the instance ends, so that another node can take the slot at once. EC2 itself
// detaches the volume only after the instance has terminated, and never if the instance is stopped.
type notices struct {
	planned   func(context.Context) ebs.Lifecycle // may be cached
	confirmed func(context.Context) ebs.Lifecycle // is asked now
	holds     func() bool
	standby   func() bool // another node could take the volume at once
	handBack  func(ctx context.Context, why string, must bool) (id plan.Volume, dropped bool, err error)
	lg        *zap.Logger

	since  time.Time // when the node first saw that the instance will end
	heeded time.Time // the rebalance recommendation for which the volume was released
	said   string    // the last error that was logged
}

// heed looks for notices until ctx ends.
func (n *notices) heed(ctx context.Context) error {
	ticker := time.NewTicker(noticeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			n.look(ctx)
		}
	}
}

// look acts on what is planned now. If that fails, the next look tries again. It confirms a cached notice first: after
// hibernation, an instance still has the old notice, but it stays.
func (n *notices) look(ctx context.Context) {
	plans := n.planned(ctx)
	if plans.Leaves() == "" {
		n.since = time.Time{}
	}
	if n.reason(plans) == "" || !n.holds() {
		return
	}
	plans = n.confirmed(ctx)
	why := n.reason(plans)
	if why == "" {
		return
	}
	leaves, must := plans.Leaves() != "", false
	if leaves {
		if n.since.IsZero() {
			n.since = time.Now()
		}
		must = time.Since(n.since) >= noticeGrace || !plans.At.IsZero() && time.Until(plans.At) < noticeLast
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime) // a release must not stop half-way
	defer cancel()
	id, dropped, err := n.handBack(limited, why, must)
	if dropped && !leaves {
		n.heeded = plans.Rebalance
	}
	switch {
	case err == nil:
		n.said = ""
		n.lg.Warn("gave the volume back",
			zap.String("slot", id.Slot), zap.String("volume", id.ID), zap.String("why", why))
	case err.Error() != n.said && ctx.Err() == nil:
		n.said = err.Error()
		n.lg.Warn("the volume could not be given back; trying again", zap.String("why", why), zap.Error(err))
	}
}

// reason returns why the volume must be released, or "". A rebalance recommendation may come to nothing, so it counts
// only once, and only while a standby waits for the slot.
func (n *notices) reason(plans ebs.Lifecycle) string {
	why := plans.Leaves()
	if why == "" && !plans.Rebalance.IsZero() && !plans.Rebalance.Equal(n.heeded) && n.standby() {
		why = "EC2 says that this Spot instance is at an elevated risk of interruption"
	}
	return why
}

// notices returns the notices of this node's instance.
func (n *node) notices() *notices {
	return &notices{
		planned:   n.ebs.Planned,
		confirmed: n.ebs.Confirmed,
		holds:     func() bool { return n.coord.Now().Observation.Claim.Held },
		standby:   n.hasStandby,
		handBack:  n.coord.HandBack,
		lg:        n.lg.Named("volume"),
	}
}

// hasStandby reports whether another node in the volume's zone could take the volume at once.
func (n *node) hasStandby() bool {
	return slices.ContainsFunc(n.mesh.Nodes(), func(peer gossip.Node) bool {
		return peer.Node != n.cfg.Node.Name && standsBy(peer, n.ebs.Zone())
	})
}

// standsBy reports whether a live node waits for a free volume in this zone.
func standsBy(peer gossip.Node, zone string) bool {
	f, err := coordinator.ReadFacts(peer.State)
	return peer.Live && err == nil && zone != "" && f.Standby == zone
}
