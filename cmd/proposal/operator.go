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

// overtime is how much longer than the timeout a proposal stays open. The command aborts it before that, unless it was
// killed or the store is away: then the nodes do, as soon as they see it.
const overtime = time.Minute

// Operator is someone who ends a generation of a cluster: what is in reach, and what was said with flags.
type Operator struct {
	Name    string // for those who read it later
	Config  config.Config
	Node    *control.Client // on this machine, or elsewhere; it may not answer
	Backups *backups.Backups
	Signer  generations.Signer // of what is put into the store; nil where TLS is off
	Options
	Terminal
}

// Options are what the operator says beside the backup's name.
type Options struct {
	Yes     bool     // nothing is asked
	DryRun  bool     // nothing is changed
	Foreign bool     // another cluster's backup will do
	Lost    []string // slots whose disks are gone for good
	// Overrule names the disks whose objection, or whose beacon, the operator has seen.
	Overrule []string
	Bump     int64         // what the revision is raised by
	Timeout  time.Duration // after it, what can be aborted is
}

// Terminal is where the operator reads and answers.
type Terminal struct {
	Out, Err io.Writer
	JSON     bool // the answer is for programs
	// Ask puts a question. It returns an error unless the answer is yes.
	Ask func(ctx context.Context, question string) error
}

func (t Terminal) say(format string, args ...any) {
	fmt.Fprintf(t.Err, format+"\n", args...)
}

// cluster is the operator's cluster.
func (o Operator) cluster() *cluster {
	name := o.Config.Cluster.Name
	return &cluster{name: name, store: o.Config.Snapshot.Store, by: o.Name, node: o.Node,
		records: generations.New(o.Backups.Store, name, o.Signer)}
}

// lookout watches the cluster for the operator.
func (o Operator) lookout(c *cluster) lookout { return lookout{c, o.Terminal, o.Overrule} }

// proposal is the operator's to see through.
func (o Operator) proposal(c *cluster, p plan.Restore) proposal {
	return proposal{Restore: p, cluster: c, Terminal: o.Terminal, timeout: o.Timeout}
}

// confirm asks the operator, unless the yes was said before.
func (o Operator) confirm(ctx context.Context, question string) error {
	if o.Yes {
		return nil
	}
	return o.Ask(ctx, question)
}

// carryOut proposes, in the operator's name, and follows that to its end. v is what the nodes have shown.
func (o Operator) carryOut(ctx context.Context, c *cluster, p plan.Restore, v view) error {
	made := o.proposal(c, p)
	if err := made.propose(ctx); err != nil {
		return err
	}
	return newFollower(made, v).follow(ctx)
}

// sign says who proposes, for how long, and which objections are overruled.
func (o Operator) sign(p *plan.Restore) {
	p.By, p.Lasts, p.Overruled = o.Name, o.Timeout+overtime, o.Overrule
}
