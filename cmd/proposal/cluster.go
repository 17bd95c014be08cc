package proposal

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// mirrored is how long a command waits until the members have told the store of their generation, which they do when
// they have been without a leader for some seconds.
const mirrored = 30 * time.Second

// cluster is a cluster as a command reaches it: through the store, and through the node on this machine.
type cluster struct {
	name, store string // as the configuration has them
	by          string // who asks
	node        *control.Client
	records     *generations.Records
}

// known is what the store says, if what it says of the present generation's end was signed by the cluster: anyone who
// can write there could say what became of a proposal.
func (c *cluster) known(ctx context.Context) (id string, known plan.Store, err error) {
	if id, known, err = c.asked(ctx); err == nil {
		err = doubted(known, known.Record.Generation)
	}
	return id, known, err
}

// doubted refuses to go by what the store says of later generations than this one, where the cluster has not signed it.
func doubted(known plan.Store, generation uint64) error {
	if known.Unproven <= generation {
		return nil
	}
	return fmt.Errorf("%w: %s", coordinator.ErrUnread, known.Doubt)
}

// asked returns the store's identity and what it knows of the cluster, whose generations it must be able to arbitrate.
func (c *cluster) asked(ctx context.Context) (id string, known plan.Store, err error) {
	if id, err = c.records.ID(ctx); err == nil {
		known, err = c.records.Known(ctx)
	}
	if err != nil {
		return id, known, fmt.Errorf("ask the store %s: %w", c.store, err)
	}
	if known.Record == nil {
		return id, known, fmt.Errorf("the store %s knows no cluster %s, so there is nothing to continue: check "+
			"cluster.name and snapshot.store; a cluster must be founded before a backup can be restored into it",
			c.store, c.name)
	}
	return id, known, nil
}

// mirrored is known, once the members have told the store.
func (c *cluster) mirrored(ctx context.Context) (id string, known plan.Store, err error) {
	bound, cancel := context.WithTimeout(ctx, mirrored)
	defer cancel()
	for {
		if id, known, err = c.known(bound); err == nil {
			return id, known, nil
		}
		select {
		case <-bound.Done():
			return id, known, err
		case <-time.After(followStore):
		}
	}
}

// ask returns what the node on this machine shows, nothing if none answers.
func (c *cluster) ask(ctx context.Context) view {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s health.ClusterStatus
	if c.node.Get(ctx, http.MethodGet, "/status", &s) != nil {
		return view{}
	}
	return view{&s}
}

// poke has the node on this machine look at the store at once. If none does, all look within seconds anyway.
func (c *cluster) poke(ctx context.Context) {
	_ = c.node.Do(ctx, http.MethodPost, "/look")
}

// consent has the node that the command talks to confirm a proposal.
func (c *cluster) consent(ctx context.Context, id string) error {
	path := "/consent?" + url.Values{"proposal": {id}, "by": {c.by}}.Encode()
	return c.node.Get(ctx, http.MethodPost, path, &plan.Restore{})
}
