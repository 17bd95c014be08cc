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

// noticeEvery is how often a node asks what is planned for its instance, as AWS advises.
const noticeEvery = 5 * time.Second

// noticeGrace is how long a node that must go waits for its turn: as long as another member that goes may need until a
// standby serves in its place. A Spot instance goes noticeLast before its end in any case.
const (
	noticeGrace = 30 * time.Second
	noticeLast  = time.Minute
)

// notices gives the volume back before its instance goes, so that another node can take the slot at once. EC2 itself
// detaches it only when the instance has terminated, and never where it is stopped.
type notices struct {
	planned   func(context.Context) ebs.Lifecycle // may be old
	confirmed func(context.Context) ebs.Lifecycle // asked for now
	holds     func() bool
	standby   func() bool // another node is here that could take the volume at once
	handBack  func(ctx context.Context, why string, must bool) (id plan.Volume, dropped bool, err error)
	lg        *zap.Logger

	since  time.Time // since when the instance is to go
	heeded time.Time // the rebalance recommendation for which the volume was given back
	said   string    // why it was not
}

// heed runs until ctx ends.
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

// look acts on what is planned now. What fails is tried again at the next look. An old notice gives nothing up: an
// instance that comes back from hibernation knows one, and stays.
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
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime) // half done is worse than done late
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

// reason says why the volume is to be given back, "" if it is not. A recommendation may come to nothing: so it is
// heeded once, and only for a node that waits for the slot.
func (n *notices) reason(plans ebs.Lifecycle) string {
	why := plans.Leaves()
	if why == "" && !plans.Rebalance.IsZero() && !plans.Rebalance.Equal(n.heeded) && n.standby() {
		why = "EC2 says that this Spot instance is at an elevated risk of interruption"
	}
	return why
}

// notices returns what heeds the notices of this node's instance.
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

// hasStandby reports whether another node could take this one's volume at once, which never leaves its zone.
func (n *node) hasStandby() bool {
	return slices.ContainsFunc(n.mesh.Nodes(), func(peer gossip.Node) bool {
		return peer.Node != n.cfg.Node.Name && standsBy(peer, n.ebs.Zone())
	})
}

// standsBy reports whether a node is here that takes a volume of a zone as soon as it is free.
func standsBy(peer gossip.Node, zone string) bool {
	f, err := coordinator.ReadFacts(peer.State)
	return peer.Live && err == nil && zone != "" && f.Standby == zone
}
