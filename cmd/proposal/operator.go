package proposal

import (
	"context"
	"fmt"
	"io"
	"time"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/show"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// overtime is how much longer than the timeout a proposal stays valid. Usually the command aborts the proposal at the
// timeout. If the command was killed, or the store does not answer, the nodes abort it when they see that it is too
// old.
const overtime = time.Minute

// Operator is an operator who ends a generation of a cluster, with everything that the command can use.
type Operator struct {
	Name    string // for the records in the store
	Config  config.Config
	Node    *control.Client // on this machine, or elsewhere; it may not answer
	Backups *backups.Backups
	Signer  generations.Signer // signs orders in the store; nil if TLS is off
	Options
	Terminal
}

// Options are the operator's flags.
type Options struct {
	Yes      bool          // ask nothing
	DryRun   bool          // change nothing
	Foreign  bool          // allow another cluster's backup
	Lost     []string      // slots whose disks are gone for good
	Overrule []string      // disks whose objection or beacon the operator has seen
	Bump     int64         // by how much to raise the revision
	Timeout  time.Duration // abort after this time, if that is still possible
}

// Terminal is where the command prints and asks.
type Terminal struct {
	Out, Err io.Writer
	JSON     bool                                             // the answer is for programs
	Ask      func(ctx context.Context, question string) error // returns an error unless the answer is yes
}

func (t Terminal) say(format string, args ...any) {
	fmt.Fprintf(t.Err, format+"\n", args...)
}

// would prints the result of a dry run: text, or answer for programs.
func (t Terminal) would(answer any, text string) error {
	if t.JSON {
		return show.JSON(t.Out, answer)
	}
	return show.NothingChanged(t.Out, text)
}

func (o Operator) cluster() *cluster {
	return &cluster{o, generations.New(o.Backups.Store, o.Config.Cluster.Name, o.Signer)}
}

// confirm asks the operator, unless --yes was given.
func (o Operator) confirm(ctx context.Context, question string) error {
	if o.Yes {
		return nil
	}
	return o.Ask(ctx, question)
}

// carryOut puts a proposal into the store and follows it to its end. v is the last status.
func (c *cluster) carryOut(ctx context.Context, p plan.Restore, v view) error {
	made := proposal{p, c}
	if err := made.propose(ctx); err != nil {
		return err
	}
	return newFollower(made, v).follow(ctx)
}

// fill sets who proposes, how long the proposal is valid, and which objections are overruled.
func (o Operator) fill(p *plan.Restore) {
	p.By, p.Lasts, p.Overruled = o.Name, o.Timeout+overtime, o.Overrule
}

// mirrorTime limits how long a command waits for what the nodes do in the store: they copy their generation's record
// there after some seconds without a leader, and find there who else uses it.
const mirrorTime = 30 * time.Second

// storeTime limits how long a command waits for the store in each step. A step is a few small requests.
const storeTime = 30 * time.Second

// inTime returns the context for one step in the store.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return snapshot.Within(ctx, storeTime)
}

// cluster gives an operator access to a cluster: through the store, and through the node on this machine.
type cluster struct {
	Operator
	records *generations.Records
}

// known is asked, but returns an error if the store has unsigned outcomes beyond its newest signed record. Anyone who
// can write to the store could have put those there.
func (c *cluster) known(ctx context.Context) (id string, known plan.Store, err error) {
	if id, known, err = c.asked(ctx); err == nil {
		err = doubted(known, known.Record.Generation)
	}
	return id, known, err
}

// doubted returns an error if the store has unsigned objects about later generations than this one.
func doubted(known plan.Store, generation uint64) error {
	if known.Unproven <= generation {
		return nil
	}
	return fmt.Errorf("%w: %s", coordinator.ErrUnread, known.Doubt)
}

// asked returns the store's ID, and what the store has about the cluster. It returns an error if it has no record of
// it.
func (c *cluster) asked(ctx context.Context) (id string, known plan.Store, err error) {
	ctx, cancel := inTime(ctx)
	defer cancel()
	if id, err = c.records.ID(ctx); err == nil {
		known, err = c.records.Known(ctx)
	}
	if err != nil {
		return id, known, fmt.Errorf("ask the store %s: %w", c.Config.Snapshot.Store, err)
	}
	if known.Record == nil {
		return id, known, fmt.Errorf("the store %s knows no cluster %s, so there is nothing to continue: check "+
			"cluster.name and snapshot.store; a cluster must be founded before a backup can be restored into it",
			c.Config.Snapshot.Store, c.Config.Cluster.Name)
	}
	return id, known, nil
}

// mirrored calls known until it succeeds, because the members may not have copied their record into the store yet.
func (c *cluster) mirrored(ctx context.Context) (id string, known plan.Store, err error) {
	bound, cancel := context.WithTimeout(ctx, mirrorTime)
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

// ask returns the status that the node on this machine shows, or an empty view if no node answers.
func (c *cluster) ask(ctx context.Context) view {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var s health.ClusterStatus
	if c.Node.Get(ctx, "GET /status", &s) != nil {
		return view{}
	}
	return view{&s}
}

// poke makes the node on this machine look at the store at once. Without it, all nodes look within seconds.
func (c *cluster) poke(ctx context.Context) {
	_ = c.Node.Do(ctx, "POST /look")
}

// consent asks the node to confirm a proposal.
func (c *cluster) consent(ctx context.Context, id string) error {
	return c.Node.Do(ctx, "POST /consent", control.Args{"proposal": id, "by": c.Name})
}
