package cmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

const (
	followNode  = 250 * time.Millisecond // how often the node on this machine is asked
	followStore = 2 * time.Second        // how often the store is
	followEnd   = 10 * time.Second       // for the last words to the store
	// settled is how long a restored cluster may be less than healthy, without anything changing, before that is said.
	settled = time.Minute
)

// errNotFollowed is why the end of a restore was not seen.
var errNotFollowed = errors.New("no node answers here")

// follower follows one restore.
type follower struct {
	*restoration
	p      plan.Restore
	theirs bool              // somebody else has proposed it: to abort it is not for this command
	record *plan.Record      // once it is concluded
	told   map[string]string // what was said last of each node
	failed map[string]string // why a node could not prepare, until it has: it tries again all the time
	leader *plan.Stand       // of the new generation, as the store tells
	last   string            // why it is not healthy
	since  time.Time         // of that
}

// follow waits for the end of a restore and says what happens. Until the point of no return the end of ctx, and the
// timeout, abort it.
func (r *restoration) follow(ctx context.Context, p plan.Restore) error {
	return r.follower(p).follow(ctx)
}

func (r *restoration) follower(p plan.Restore) *follower {
	return &follower{restoration: r, p: p, told: map[string]string{}, failed: map[string]string{}, since: time.Now()}
}

func (f *follower) follow(ctx context.Context) error {
	r := f.restoration
	r.poke(ctx)
	bound, cancel := context.WithTimeout(ctx, r.flags.timeout)
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
			case f.cluster == nil:
				done, err = f.shines(bound)
			}
		case <-node.C:
			done, err = f.watch(bound)
		}
		if done || err != nil {
			return err
		}
	}
}

// look asks the store what became of the proposal. A store that does not answer is asked again.
func (f *follower) look(ctx context.Context) (done bool, err error) {
	known, err := f.records.Known(ctx)
	switch {
	case err != nil || known.Restore != nil && known.Restore.ID == f.p.ID:
		return false, nil
	case known.Record != nil && (known.Record.ID == f.p.ID || known.Record.Generation > f.p.Generation):
		f.concluded(known.Record)
		return false, nil
	}
	if i := slices.IndexFunc(known.Aborted, func(a plan.Abort) bool { return a.ID == f.p.ID }); i >= 0 {
		return true, f.objected(known.Aborted[i])
	}
	return true, fmt.Errorf("the %s was aborted; the cluster continues as it was", f.p.Title())
}

// shines is done, where no node answers here, when the leader of the new generation says in the store that it lives. Where it does
// not for a while, the end is not seen.
func (f *follower) shines(ctx context.Context) (done bool, err error) {
	if b, err := f.records.LastBeacon(ctx); err != nil {
		return false, nil // it is asked again
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
	f.say("the point of no return is passed: generation %d is the cluster", record.Generation)
}

// watch asks the node on this machine, and is done when that says that the new generation is healthy.
func (f *follower) watch(ctx context.Context) (done bool, err error) {
	s := f.ask(ctx)
	if s == nil {
		return false, nil
	}
	f.cluster = s
	for _, n := range s.Nodes {
		text := n.State
		if n.Restore != nil {
			text = followText(*n.Restore)
			f.note(n.Node, *n.Restore)
		}
		if f.told[n.Node] != text {
			f.told[n.Node] = text
			f.say("  %s: %s", n.Node, text)
		}
	}
	if s.Record != nil && s.Record.ID == f.p.ID && f.record == nil {
		f.concluded(s.Record)
	}
	if f.record != nil && s.Record != nil && s.Record.Generation > f.record.Generation {
		return true, fmt.Errorf("the %s was concluded as %s, and another one after it: the cluster goes on as %s", f.p.Title(), f.record.Token(), s.Record.Token())
	}
	if f.record == nil || s.Record == nil || s.Record.ID != f.record.ID {
		return false, nil
	}
	if s.Health == health.Healthy || f.p.Survivor != "" && f.serves() {
		return true, f.finish(s.Health, nil)
	}
	if reasons := strings.Join(s.Reasons(), "; "); reasons != f.last {
		f.last, f.since = reasons, time.Now()
		f.say("  not healthy yet: %s", reasons)
	}
	if s.Health == health.Degraded && time.Since(f.since) > settled {
		return true, fmt.Errorf("the cluster is restored and serves as %s, but it is not healthy: %s", f.record.Token(), f.last)
	}
	return false, nil
}

// followText is how far a node is, without what changes all the time.
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

// restored is what `holdfast restore -o json` says in the end.
type restored struct {
	Restore plan.Restore   `json:"restore"`
	Record  *plan.Record   `json:"record"`
	Health  health.Verdict `json:"health,omitempty"` // empty: it was not seen
}

// finish says how it ended.
func (f *follower) finish(verdict health.Verdict, unseen error) error {
	if f.b.json() {
		return writeIndented(f.c.OutOrStdout(), restored{f.p, f.record, verdict})
	}
	if unseen != nil {
		_, err := fmt.Fprintf(f.c.OutOrStdout(), "the %s is concluded, and the members go on as %s; %v, so the end was not seen: run `holdfast status` on one of them\n",
			f.p.Title(), f.record.Token(), unseen)
		return err
	}
	if f.leader != nil {
		_, err := fmt.Fprintf(f.c.OutOrStdout(), "the %s is done: the cluster serves as %s, and %s leads it; no node answers here, so run `holdfast status` on one of them to see whether it is whole\n",
			f.p.Title(), f.record.Token(), f.leader)
		return err
	}
	if f.p.Survivor != "" {
		return f.recovered(verdict)
	}
	_, err := fmt.Fprintf(f.c.OutOrStdout(), "restored %s: the cluster is healthy as %s, at revision %d or later\n", f.p.Backup, f.record.Token(), f.p.Revision+f.p.Bump)
	return err
}

// end is for an operator who wants no more, and for the timeout: what can be aborted is.
func (f *follower) end(ctx context.Context) error {
	why := fmt.Sprintf("not done within %s", f.flags.timeout)
	if ctx.Err() != nil {
		why = "interrupted"
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), followEnd)
	defer cancel()
	if f.record == nil && f.theirs {
		return fmt.Errorf("%s: the %s by %s goes on without this command; until the point of no return `holdfast restore --abort` ends it", why, f.p.Title(), f.p.By)
	}
	if f.record == nil {
		record, err := f.records.Abort(last, f.p, plan.Abort{ID: f.p.ID, Why: why + " by " + f.p.By})
		switch {
		case err != nil:
			return fmt.Errorf("%s, and the "+f.p.Title()+" could not be aborted: %w; it may go on: see `holdfast status`, and `holdfast restore --abort`", why, err)
		case record == nil:
			f.poke(last)
			return errors.New(why + ": the " + f.p.Title() + " was aborted before the point of no return; the cluster goes on as it was" + f.unable())
		}
		f.concluded(record)
	}
	if f.last != "" {
		why += " (" + f.last + ")"
	}
	return fmt.Errorf("%s: the %s is past the point of no return and goes on without this command, as %s; see `holdfast status`", why, f.p.Title(), f.record.Token())
}

// note keeps why a node cannot prepare.
func (f *follower) note(node string, r health.RestoreStatus) {
	switch {
	case r.Error != "":
		f.failed[node] = r.Error
	case r.State == health.RestorePrepared:
		delete(f.failed, node)
	}
}

// unable says which nodes could not prepare, or else what one that has prepared was waiting for.
func (f *follower) unable() string {
	if f.cluster == nil {
		return "; no node answers here, so what hindered it was not seen"
	}
	var unable, waits []string
	for _, n := range f.cluster.Nodes {
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
