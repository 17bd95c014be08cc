package proposal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
)

const (
	// beaconFresh is the age, by the store's clock, beyond which a beacon counts as a dead leader's. A younger beacon is
	// watched for a change during beaconWatch.
	beaconFresh = 5 * coordinator.BeaconEvery / 2
	beaconWatch = coordinator.BeaconEvery + 2*time.Second
	// electionWatch is how long a running majority may take to elect a leader: enough for several elections.
	electionWatch = 5 * time.Second
)

// living is the leader of a live cluster.
type living struct {
	plan.Stand
	from   string // how it is known
	beacon bool   // only its beacon is seen; the nodes here do not see it
}

// lives returns the cluster's leader, or nil if none is seen. It asks the node here and, if that shows no leader,
// watches the beacon that a leader writes into the store. So it works even on a machine that only shares the store.
func (c *cluster) lives(ctx context.Context, v *view) (*living, error) {
	at := v.leads(c.Overrule)
	if at == nil && v.couldElect() {
		c.say("a majority runs and shows no leader: waiting %s at most for an election", electionWatch)
		var err error
		if at, err = c.sees(ctx, v, electionWatch); err != nil {
			return nil, err
		}
	}
	if at != nil {
		return &living{Stand: *at, from: "its nodes"}, nil
	}
	b, age, err := c.beacon(ctx)
	if err != nil || b == nil || age > beaconFresh || slices.Contains(c.Overrule, b.Disk) {
		return nil, err
	}
	c.say("%s ago a leader wrote into the store that it lives: %s. Waiting %s at most to see it, or whether it "+
		"does so again", age.Round(time.Second), b.Stand, beaconWatch)
	if at, err = c.sees(ctx, v, beaconWatch); err != nil {
		return nil, err
	} else if at != nil {
		return &living{Stand: *at, from: "its nodes"}, nil
	}
	again, _, err := c.beacon(ctx)
	if err != nil || again == nil || again.At.Equal(b.At) {
		return nil, err
	}
	return &living{again.Stand, "the beacon in the store, which changes", true}, nil
}

// beacon reads the leader's beacon, nil without one, and its age by the store's clock.
func (c *cluster) beacon(ctx context.Context) (*generations.StoredBeacon, time.Duration, error) {
	ctx, cancel := inTime(ctx)
	defer cancel()
	return c.records.Beacon(ctx, "a command of "+c.Name)
}

// MayGiveUp returns an error if the cluster in the store has a leader. Such a cluster must not be given up only because
// this node does not hear it.
func (o Operator) MayGiveUp(ctx context.Context) error {
	alive, err := o.cluster().lives(ctx, new(view))
	switch {
	case err != nil:
		return fmt.Errorf("look whether the cluster lives: %w; nothing was changed", err)
	case alive != nil:
		return fmt.Errorf("the cluster lives: %s leads it (according to %s), and nothing was changed; if this node does not "+
			"hear it, check gossip.seeds, gossip.listen and tls.mode here; if that is not this cluster, set another "+
			"snapshot.store or cluster.name, or say --overrule %s", alive.Stand, alive.from, alive.Disk)
	}
	return nil
}

// sees waits until the node here shows a leader: after an election, or when the nodes have found each other.
func (c *cluster) sees(ctx context.Context, v *view, atMost time.Duration) (*plan.Stand, error) {
	const again = 500 * time.Millisecond
	for end := time.Now().Add(atMost); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return nil, errors.New("interrupted")
		case <-time.After(again):
		}
		if s := c.ask(ctx); !s.silent() {
			*v = s
		}
		if at := v.leads(c.Overrule); at != nil {
			return at, nil
		}
	}
	return nil, nil
}
