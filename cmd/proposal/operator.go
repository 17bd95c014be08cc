package proposal

import (
	"context"
	"fmt"
	"io"
	"time"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
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

// cluster returns the cluster of the configuration.
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
