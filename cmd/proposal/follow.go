package proposal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

const (
	followNode  = 250 * time.Millisecond // how often the node on this machine is asked
	followStore = 2 * time.Second        // how often the store is read
	followLook  = 10 * time.Second       // for one read: meanwhile nothing is printed
	followEnd   = 10 * time.Second       // for the abort when the command ends
	// settled is how long a restored cluster may stay degraded, for the same reasons, before the command gives up.
	settled = time.Minute
)

// errNotFollowed means that the end of a restore was not seen.
var errNotFollowed = errors.New("no node answers here")

// follower follows one proposal.
type follower struct {
	proposal
	view   view              // the last status
	heard  time.Time         // when the node here gave it
	theirs bool              // another operator made it, so the end of this command must not abort it
	record *plan.Record      // of the new generation; nil until the proposal is concluded
	told   map[string]string // the last text printed for each node
	failed map[string]string // why a node could not prepare, until it has; nodes keep trying
	leader *plan.Stand       // of the new generation, from its beacon
	doubt  string            // the last error printed about unsigned objects in the store
	last   string            // the reasons why the cluster is not healthy
	causes []string          // what they are about
	since  time.Time         // when causes changed
}

func newFollower(p proposal, v view) *follower {
	return &follower{proposal: p, view: v, heard: time.Now(), told: map[string]string{}, failed: map[string]string{},
		since: time.Now()}
}

// follow waits for the end of the proposal, and prints what happens. Until the point of no return, the end of ctx or
// the timeout aborts a proposal of this command.
func (f *follower) follow(ctx context.Context) error {
	f.cluster.poke(ctx)
	bound, cancel := context.WithTimeout(ctx, f.cluster.Timeout)
	defer cancel()
	node, store := time.NewTicker(followNode), time.NewTicker(followStore)
	defer node.Stop()
	defer store.Stop()
	for {
		var done bool
		var err error
		select {
		case <-bound.Done():
			return f.end(ctx)
		case <-store.C:
			switch {
			case f.record == nil:
				done, err = f.look(bound)
			case f.view.silent() || time.Since(f.heard) > settled: // the node here may have ended meanwhile
				done, err = f.lookForBeacon(bound)
			}
		case <-node.C:
			done, err = f.watch(bound)
		}
		if done || err != nil {
			return err
		}
	}
}

// look reads the outcome of the proposal from the store. If the store does not answer, the next look tries again.
func (f *follower) look(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, followLook)
	defer cancel()
	known, err := f.cluster.records.Known(ctx)
	doubt := doubted(known, f.Generation-1)
	switch {
	case err != nil || known.Restore != nil && known.Restore.ID == f.ID:
		return false, nil
	case doubt != nil: // the nodes ignore unsigned objects
		if f.doubt != doubt.Error() {
			f.doubt = doubt.Error()
			f.cluster.say("  %v", doubt)
		}
		return false, nil
	case known.Record != nil && (known.Record.ID == f.ID || known.Record.Generation > f.Generation):
		f.concluded(known.Record)
		return false, nil
	}
	if i := slices.IndexFunc(known.Aborted, func(a plan.Abort) bool { return a.ID == f.ID }); i >= 0 {
		return true, f.objected(known.Aborted[i])
	}
	return true, fmt.Errorf("the %s was aborted; the cluster continues as it was", f.Title())
}

// lookForBeacon is for a machine where no node answers, or none any more. It is done when the leader of the new
// generation has written its beacon into the store. Without a beacon for the time settled, it is done too, and the end
// was not seen.
func (f *follower) lookForBeacon(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, followLook)
	defer cancel()
	if b, err := f.cluster.records.LastBeacon(ctx); err != nil {
		return false, nil // the next look tries again
	} else if b != nil && b.Record == f.record.ID {
		f.leader = &b.Stand
		return true, f.finish("", nil)
	}
	if time.Since(f.since) > settled {
		return true, f.finish("", errNotFollowed)
	}
	return false, nil
}

func (f *follower) concluded(record *plan.Record) {
	f.record, f.since = record, time.Now()
	f.cluster.say("the point of no return is passed: generation %d is the cluster", record.Generation)
}

// watch asks the node on this machine, prints what has changed, and is done when the new generation is healthy.
func (f *follower) watch(ctx context.Context) (done bool, err error) {
	s := f.cluster.ask(ctx)
	if s.silent() {
		return false, nil
	}
	f.view, f.heard = s, time.Now()
	for _, n := range s.Nodes {
		text := n.State
		if n.Restore != nil && n.Restore.ID == f.ID {
			text = followText(*n.Restore)
			f.note(n.Node, *n.Restore)
		}
		if f.told[n.Node] != text {
			f.told[n.Node] = text
			f.cluster.say("  %s: %s", n.Node, text)
		}
	}
	if s.Record != nil && s.Record.ID == f.ID && f.record == nil {
		f.concluded(s.Record)
	}
	if f.record != nil && s.Record != nil && s.Record.Generation > f.record.Generation {
		return true, fmt.Errorf("the %s was concluded as %s, and another one after it: the cluster continues as %s",
			f.Title(), f.record.Token(), s.Record.Token())
	}
	if f.record == nil || s.Record == nil || s.Record.ID != f.record.ID {
		return false, nil
	}
	if s.Health == health.Healthy || f.Survivor != "" && f.serves() {
		return true, f.finish(s.Health, nil)
	}
	if f.changed(s.Causes()) {
		f.since = time.Now()
		f.cluster.say("  not healthy yet: %s", unhealthy(s.Reasons()))
	}
	f.last = strings.Join(s.Reasons(), "; ")
	if s.Health == health.Degraded && time.Since(f.since) > settled {
		return true, fmt.Errorf("the cluster is restored and serves as %s, but it is not healthy: %s", f.record.Token(),
			f.last)
	}
	return false, nil
}

// changed reports whether other findings keep the cluster from being healthy than the last time. Their texts do not
// count: some have an age or a measurement, and are never the same.
func (f *follower) changed(all []health.Finding) bool {
	causes := []string{} // before the first time it is nil
	for _, a := range all {
		causes = append(causes, string(a.Code)+" "+a.Subject)
	}
	before := f.causes
	f.causes = causes
	return before == nil || !slices.Equal(causes, before)
}

// unhealthy returns the first reason, which is the worst. The reasons of single nodes were printed already.
func unhealthy(reasons []string) string {
	switch len(reasons) {
	case 0:
		return "the nodes have just begun"
	case 1:
		return reasons[0]
	}
	return fmt.Sprintf("%s (`holdfast status` has %d more)", reasons[0], len(reasons)-1)
}

// followText returns the state of a node, rounded so that it does not change all the time.
func followText(r health.RestoreStatus) string {
	text := r.State
	if r.Error != "" {
		text += ": " + r.Error
	}
	const step = 5 // seconds
	switch {
	case r.Left:
		text += ", has left"
	case r.Leaves:
		text += fmt.Sprintf(", leaves in %d s or less", step*int(math.Ceil(r.Objecting/step)))
	case r.Objecting > 0:
		text += fmt.Sprintf(", waits %d s or less for a leader that objects", step*int(math.Ceil(r.Objecting/step)))
	}
	return text
}

// restored is the answer of `holdfast restore -o json`.
type restored struct {
	Restore plan.Restore   `json:"restore"`
	Record  *plan.Record   `json:"record"`
	Health  health.Verdict `json:"health,omitempty"` // empty: it was not seen
	DryRun  bool           `json:"dry_run,omitempty"`
}

// finish prints the result. unseen is why the end was not seen, if it was not.
func (f *follower) finish(verdict health.Verdict, unseen error) error {
	if f.cluster.JSON {
		return show.JSON(f.cluster.Out, restored{Restore: f.Restore, Record: f.record, Health: verdict})
	}
	if unseen != nil {
		_, err := fmt.Fprintf(f.cluster.Out, "the %s is concluded, and the members continue as %s; %v, so the end "+
			"was not seen: run `holdfast status` on one of them\n",
			f.Title(), f.record.Token(), unseen)
		return err
	}
	if f.leader != nil {
		_, err := fmt.Fprintf(f.cluster.Out, "the %s is done: the cluster serves as %s, and %s leads it; no node answers "+
			"here, so run `holdfast status` on one of them to see whether it is whole\n",
			f.Title(), f.record.Token(), f.leader)
		return err
	}
	if f.Survivor != "" {
		return f.recovered(verdict)
	}
	_, err := fmt.Fprintf(f.cluster.Out, "restored %s: the cluster is healthy as %s, at revision %d or later\n", f.Backup,
		f.record.Token(), f.Revision+f.Bump)
	return err
}

// end handles an interrupt and the timeout. It aborts the proposal if that is still possible.
func (f *follower) end(ctx context.Context) error {
	why := fmt.Sprintf("not done within %s", f.cluster.Timeout)
	if ctx.Err() != nil {
		why = "interrupted"
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), followEnd)
	defer cancel()
	if f.record == nil && f.theirs {
		return fmt.Errorf("%s: the %s by %s continues without this command; until the point of no return `holdfast restore "+
			"--abort` ends it", why, f.Title(), f.By)
	}
	if f.record == nil {
		record, err := f.cluster.records.Abort(last, f.Restore, plan.Abort{ID: f.ID, Why: why + " by " + f.By})
		switch {
		case err != nil:
			return fmt.Errorf("%s, and the "+f.Title()+" could not be aborted: %w; it may continue: see `holdfast status`, "+
				"and `holdfast restore --abort`", why, err)
		case record == nil:
			f.cluster.poke(last)
			return errors.New(why + ": the " + f.Title() + " was aborted before the point of no return; the cluster continues " +
				"as it was" + f.unable())
		}
		f.concluded(record)
	}
	if f.last != "" {
		why += " (" + f.last + ")"
	}
	return fmt.Errorf("%s: the %s is past the point of no return and continues without this command, as %s; see "+
		"`holdfast status`", why, f.Title(), f.record.Token())
}

// note remembers why a node cannot prepare.
func (f *follower) note(node string, r health.RestoreStatus) {
	switch {
	case r.Error != "":
		f.failed[node] = r.Error
	case r.State == health.RestorePrepared:
		delete(f.failed, node)
	}
}

// unable returns which nodes could not prepare and why. If all could, it returns what one of them was waiting for.
func (f *follower) unable() string {
	if f.view.silent() {
		return "; no node answers here, so what hindered it was not seen"
	}
	var unable, waits []string
	for _, n := range f.view.Nodes {
		switch why := f.failed[n.Node]; {
		case n.Restore == nil:
		case why != "":
			unable = append(unable, n.Node+" could not prepare: "+why)
		case n.Why != "":
			waits = []string{n.Node + " said: " + n.Why}
		}
	}
	if len(unable) == 0 {
		unable = waits
	}
	return strings.Join(append([]string{""}, unable...), "; ")
}

// serves reports whether the new generation has a leader. A recovery is done then, even if members must still join.
func (f *follower) serves() bool {
	return slices.ContainsFunc(f.view.Nodes, func(n health.NodeStatus) bool {
		return n.Reached && n.State == "leader" && n.Record != nil && n.Record.ID == f.record.ID
	})
}

// recovered prints the result of a recovery.
func (f *follower) recovered(verdict health.Verdict) error {
	w := f.cluster.Out
	fmt.Fprintf(w, "recovered from slot %s: the cluster serves as %s, at revision %d or later\n", f.Survivor,
		f.record.Token(), f.Revision+f.Bump)
	if verdict != health.Healthy {
		fmt.Fprintf(w, "it is not whole yet: %s; bring nodes for these slots, whose disks may be blank\n",
			strings.Join(f.view.Reasons(), "; "))
	}
	return nil
}

// under reports whether the node on this machine still works on the proposal, by its last status. It also reports true
// if the node did not answer.
func (f *follower) under() bool {
	if f.view.silent() {
		return true
	}
	return slices.ContainsFunc(f.view.Nodes, func(n health.NodeStatus) bool {
		return n.Node == f.view.Asked && n.Restore != nil && n.Restore.ID == f.ID
	})
}

// objected returns the error of a proposal that was aborted: who objected, and what to do.
func (f *follower) objected(a plan.Abort) error {
	if a.By == nil {
		return fmt.Errorf("the %s was aborted: %s; the cluster continues as it was", f.Title(), a.Why)
	}
	way := "if it is to be restored all the same, run the command again without --lost, and confirm it on that node"
	if f.Survivor != "" {
		way = "a recovery is not needed: see `holdfast status` there"
	}
	if !a.By.Leader {
		all := append(slices.Clone(f.Overruled), a.By.Disk)
		way = fmt.Sprintf("bring the other members back, or leave slot %s out of --lost; to continue without it all the "+
			"same, stop that node, or say --overrule %s", a.By.Slot, strings.Join(all, ","))
	}
	return fmt.Errorf("%s objected: %s; the %s was aborted, and nothing was changed; %s", a.By, a.Why, f.Title(), way)
}
