package gossip

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// How lost nodes are forgotten: doc.go. What is forgotten by time stays in memory, so that hearing of it again does not
// make it look recent; what is forgotten by command is deleted.

const (
	maxForgotten = 64                 // tombstones
	forgottenFor = 7 * 24 * time.Hour // a tombstone is kept, as long as a partitioned node may bring the old word back
	maxAge       = 10 * 365 * 24 * time.Hour
)

// Bounds of Config.ForgetAfter; 0 means never.
const (
	minForgetAfter = 10 * time.Minute
	maxForgetAfter = 365 * 24 * time.Hour
)

// lastWord says what an operator has had forgotten: everything that a node has said up to this word. A later one
// counts.
type lastWord struct {
	Node string `json:"node"`
	Boot uint64 `json:"boot"`
	Seq  uint64 `json:"seq"`
}

// covers reports whether that word is among what was forgotten.
func (f lastWord) covers(boot, seq uint64) bool {
	return cmp.Or(cmp.Compare(boot, f.Boot), cmp.Compare(seq, f.Seq)) <= 0
}

// tombstone is kept for forgottenFor after the command; local clock.
type tombstone struct {
	lastWord
	at time.Time
}

// tombstones are the newest maxForgotten of them, by Meta.Node.
type tombstones map[string]tombstone

// add takes in a command that was given age ago.
func (s tombstones) add(f lastWord, age time.Duration, now time.Time) {
	t, known := s[f.Node]
	at := now.Add(-age)
	switch {
	case !known || !t.covers(f.Boot, f.Seq):
		t = tombstone{f, at}
	case t.lastWord == f && at.Before(t.at): // an age only grows, no matter who tells it
		t.at = at
	}
	s[f.Node] = t
	if len(s) > maxForgotten {
		oldest := slices.MinFunc(slices.Collect(maps.Values(s)), func(a, b tombstone) int { return a.at.Compare(b.at) })
		delete(s, oldest.Node)
	}
}

// words returns everything known, lost nodes too, as it goes over in a push/pull.
func (v *view) words(now time.Time) (w words) {
	for _, rec := range v.nodes {
		if rec.faded {
			continue
		}
		e := rec.entry
		if !rec.Live {
			e.Lost = max(1, now.Sub(rec.Since))
		}
		w.entries = append(w.entries, e)
	}
	for _, t := range v.forgotten {
		w.forgotten = append(w.forgotten, forgetting{t.lastWord, now.Sub(t.at)})
	}
	return w
}

// merge takes in what another process tells, of which the entries in counts are their speakers' own words. It reports
// whether a node changed.
func (v *view) merge(told words, counts []entry, now time.Time) (changed bool) {
	for _, f := range told.forgotten {
		v.forget(f.lastWord, f.Age, now)
	}
	for _, e := range counts {
		changed = v.learn(e, now) || changed
	}
	for _, e := range told.entries {
		v.age(e, now)
	}
	return changed
}

// fade updates which lost nodes are forgotten by time.
func (v *view) fade(now time.Time) {
	for name, rec := range v.nodes {
		was := rec.faded
		over := v.forgetAfter > 0 && now.Sub(rec.Since) >= v.forgetAfter
		rec.faded = over && !rec.Live && !v.ours(name) && (v.settled || v.evidence != nil && !v.evidence(rec.State))
		if rec.faded && !was {
			v.dropped = append(v.dropped, name)
		}
	}
	maps.DeleteFunc(v.forgotten, func(_ string, t tombstone) bool { return now.Sub(t.at) >= forgottenFor })
}

// mayForget returns what keeps a node from being forgotten, nil if nothing does.
func (v *view) mayForget(f lastWord) error {
	rec := v.nodes[f.Node]
	switch {
	case v.ours(f.Node) || rec != nil && rec.Live:
		return fmt.Errorf("node %s hears %s, which is live: stop %s first", v.self.Node, f.Node, f.Node)
	case rec != nil && !f.covers(rec.Boot, rec.Seq):
		return fmt.Errorf("node %s has heard more of %s than the node that was asked: give the command again in some seconds",
			v.self.Node, f.Node)
	}
	return nil
}

// forget forgets a lost node by a command that was given age ago, and reports whether that removed it.
func (v *view) forget(f lastWord, age time.Duration, now time.Time) bool {
	if age >= forgottenFor || v.mayForget(f) != nil {
		return false
	}
	v.forgotten.add(f, age, now)
	_, here := v.nodes[f.Node]
	if here {
		delete(v.nodes, f.Node)
		v.dropped = append(v.dropped, f.Node)
	}
	return here
}

// dead reports whether a word was forgotten by command. A live process is heard all the same.
func (v *view) dead(e entry) bool {
	return v.forgotten[e.Node].covers(e.Boot, e.Seq) && v.peers[e.process()] == nil
}

// age takes in for how long another process has lost a node. It is ignored if this process lost the node itself;
// otherwise the time only grows, no matter how many processes pass it on.
func (v *view) age(e entry, now time.Time) {
	rec := v.nodes[e.Node]
	if rec == nil || rec.Live || rec.seen || rec.Boot != e.Boot || v.ours(e.Node) {
		return
	}
	if since := now.Add(-e.Lost); since.Before(rec.Since) {
		rec.Since = since
	}
}
