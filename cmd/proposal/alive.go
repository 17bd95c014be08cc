package proposal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

const (
	// beaconFresh is how old, by the store's own time, the beacon of a dead leader is at least; beaconWatch is how long
	// a younger one is watched for a change.
	beaconFresh = 5 * coordinator.BeaconEvery / 2
	beaconWatch = coordinator.BeaconEvery + 2*time.Second
	// electionWatch is how long a majority that runs is given to elect a leader before it is said to have none: some
	// elections.
	electionWatch = 5 * time.Second
)

// living is the leader of the cluster as a command sees it.
type living struct {
	plan.Stand
	from   string // how it is known
	beacon bool   // the nodes here do not see it
}

// lookout finds out whether a cluster lives, also from a machine that only shares its store.
type lookout struct {
	*cluster
	Terminal
	overrule []string // disks whose beacon the operator has seen
}

// lives tells a living cluster from a dead one: by its nodes, if one answers here, else by the beacon that its leader
// writes into the store. nil: it has no leader, as far as can be seen.
func (l lookout) lives(ctx context.Context, v *view) (*living, error) {
	at := v.leads()
	if at == nil && v.couldElect() {
		l.say("a majority runs and shows no leader: waiting %s at most for an election", electionWatch)
		var err error
		if at, err = l.sees(ctx, v, electionWatch); err != nil {
			return nil, err
		}
	}
	if at != nil {
		return &living{Stand: *at, from: "its nodes"}, nil
	}
	b, age, err := l.records.Beacon(ctx, "a command of "+l.by)
	if err != nil || b == nil || age > beaconFresh || slices.Contains(l.overrule, b.Disk) {
		return nil, err
	}
	l.say("%s ago a leader wrote into the store that it lives: %s. Waiting %s at most to see it, or whether it "+
		"does so again", age.Round(time.Second), b.Stand, beaconWatch)
	if at, err = l.sees(ctx, v, beaconWatch); err != nil {
		return nil, err
	} else if at != nil {
		return &living{Stand: *at, from: "its nodes"}, nil
	}
	again, _, err := l.records.Beacon(ctx, "a command of "+l.by)
	if err != nil || again == nil || again.At.Equal(b.At) {
		return nil, err
	}
	return &living{again.Stand, "the beacon in the store, which changes", true}, nil
}

// MayGiveUp returns an error if the cluster that the store knows has a leader: it must not be forgotten because a node
// does not hear it.
func (o Operator) MayGiveUp(ctx context.Context) error {
	alive, err := o.lookout(o.cluster()).lives(ctx, new(view))
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

// sees waits for the nodes here to show a leader: after an election, or when they have found each other.
func (l lookout) sees(ctx context.Context, v *view, atMost time.Duration) (*plan.Stand, error) {
	const again = 500 * time.Millisecond
	for end := time.Now().Add(atMost); time.Now().Before(end); {
		if err := rest(ctx, again); err != nil {
			return nil, err
		}
		if s := l.ask(ctx); !s.silent() {
			*v = s
		}
		if at := v.leads(); at != nil {
			return at, nil
		}
	}
	return nil, nil
}

// rest lets time pass.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errors.New("interrupted; nothing was changed")
	case <-time.After(d):
		return nil
	}
}
