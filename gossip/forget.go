package gossip

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// A lost node is forgotten in two ways. By time: it is hidden here, and told to nobody, once it was lost for
// Config.ForgetAfter. It stays in memory, as bounded as before, so that no re-telling makes it young again, and it
// is shown again should this node need it as a witness. By command: it is deleted, and a tombstone spreads that keeps
// what was known by then from coming back. A node that is heard alive counts at once, whatever was forgotten.

const (
	maxForgotten = 64                 // tombstones
	forgottenFor = 7 * 24 * time.Hour // a tombstone is kept, as long as a parted node may bring the old word back
	maxAge       = 10 * 365 * 24 * time.Hour
)

// Bounds of Config.ForgetAfter; 0 means never.
const (
	minForgetAfter = 10 * time.Minute
	maxForgetAfter = 365 * 24 * time.Hour
)

// Forgotten says what an operator has had forgotten: all that a node has said up to this word. A later one counts.
type Forgotten struct {
	Node string `json:"node"`
	Boot uint64 `json:"boot"`
	Seq  uint64 `json:"seq"`
}

// covers reports whether that word is among what was forgotten.
func (f Forgotten) covers(boot, seq uint64) bool {
	return cmp.Or(cmp.Compare(boot, f.Boot), cmp.Compare(seq, f.Seq)) <= 0
}

// tombstone is kept for forgottenFor after the command; local clock.
type tombstone struct {
	Forgotten
	at time.Time
}

// ForgetAnswer says what a node makes of the order to forget another.
type ForgetAnswer struct {
	Live  bool `json:"live,omitempty"`  // it hears the node, and forgets nothing
	Later bool `json:"later,omitempty"` // it knows a later word of the node, and forgets nothing
}

// Refused reports whether nothing is forgotten there.
func (a ForgetAnswer) Refused() bool { return a.Live || a.Later }

// UseEvidence sets what tells whether a state is evidence of a cluster. Without it each is. Call it before Run.
func (m *Mesh) UseEvidence(evidence func(state []byte) bool) { m.view.evidence = evidence }

// Settle says whether this node has a part in a cluster for good, so that it needs no lost node as a witness of one:
// only then is evidence forgotten by time. What was forgotten before comes back when that is no longer so.
func (m *Mesh) Settle(settled bool) {
	m.mu.Lock()
	m.view.settled = settled
	gone := m.view.fade(time.Now())
	m.mu.Unlock()
	m.tellForgotten(gone)
}

// Lost returns every node that is not live, those that are forgotten by time included, sorted by name.
func (m *Mesh) Lost() []Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view.listed(func(r *record) bool { return !r.Live })
}

// Forget forgets a lost node here, and has the others forget it when they hear of that. With dry it only says whether
// it would.
func (m *Mesh) Forget(f Forgotten, dry bool) ForgetAnswer {
	m.mu.Lock()
	a := m.view.mayForget(f)
	changed := !dry && m.view.forget(f, 0, time.Now())
	m.mu.Unlock()
	if changed {
		m.tellForgotten([]string{f.Node})
	}
	return a
}

// tellForgotten notes that nodes are forgotten.
func (m *Mesh) tellForgotten(names []string) {
	for _, name := range names {
		m.lg.Info("forgot lost node", zap.String("node", name))
	}
	if len(names) > 0 {
		poke(m.changed)
	}
}

// merge takes in all that another node knows, and what it says of those it has lost or forgotten.
func (m *Mesh) merge(entries []entry, from Speaker) {
	said, err := asides(entries)
	if err != nil {
		m.reject(reasonUnreadable, "message/"+reasonUnreadable,
			fmt.Sprintf("%s: what it says of lost nodes is not understood: %v", cmp.Or(from.Node, "some node"), err))
		return
	}
	entries = m.authentic(entries, from)
	m.mu.Lock()
	changed, gone := m.view.merge(entries, said, time.Now())
	m.mu.Unlock()
	if changed {
		poke(m.changed)
	}
	m.tellForgotten(gone)
}

// asides returns what is said beside the words, and puts their proofs to them.
func asides(entries []entry) (said hearsay, err error) {
	proofs := map[Forgotten][]byte{}
	for _, e := range entries {
		if !e.Observer {
			continue
		}
		w, err := decodeHearsay(e.State)
		if err != nil {
			return hearsay{}, err
		}
		said.lost, said.forgotten = append(said.lost, w.lost...), append(said.forgotten, w.forgotten...)
		for _, p := range w.proofs {
			proofs[Forgotten{p.Node, p.Boot, p.Seq}] = p.proof
		}
	}
	for i, e := range entries {
		entries[i].proof = proofs[Forgotten{e.Node, e.Boot, e.Seq}]
	}
	return said, nil
}

// merge reports whether there was news of nodes, and which were forgotten for it.
func (v *view) merge(entries []entry, said hearsay, now time.Time) (changed bool, gone []string) {
	for _, f := range said.forgotten {
		if v.forget(f.Forgotten, f.age, now) {
			gone = append(gone, f.Node)
		}
	}
	for _, e := range entries {
		changed = v.learn(e, now) || changed
	}
	for _, l := range said.lost {
		v.age(l, now)
	}
	return changed, append(gone, v.fade(now)...)
}

// fade brings up to date which lost nodes are forgotten by time, and returns those that are since the last call.
func (v *view) fade(now time.Time) (gone []string) {
	for name, rec := range v.nodes {
		was := rec.faded
		over := v.forgetAfter > 0 && now.Sub(rec.Since) >= v.forgetAfter
		rec.faded = over && !rec.Live && !v.ours(name) && (v.settled || !v.bearsWitness(rec.State))
		if rec.faded && !was {
			gone = append(gone, name)
		}
	}
	for name, t := range v.forgotten {
		if now.Sub(t.at) >= forgottenFor {
			delete(v.forgotten, name)
		}
	}
	return gone
}

// bearsWitness reports whether a state is evidence of a cluster.
func (v *view) bearsWitness(state []byte) bool { return v.evidence == nil || v.evidence(state) }

// mayForget says what keeps a node from being forgotten.
func (v *view) mayForget(f Forgotten) ForgetAnswer {
	rec := v.nodes[f.Node]
	switch {
	case v.ours(f.Node) || rec != nil && rec.Live:
		return ForgetAnswer{Live: true}
	case rec != nil && !f.covers(rec.Boot, rec.Seq):
		return ForgetAnswer{Later: true}
	}
	return ForgetAnswer{}
}

// forget has a lost node forgotten by command, given this long ago, and reports whether a node is gone for it.
func (v *view) forget(f Forgotten, age time.Duration, now time.Time) bool {
	if age >= forgottenFor || v.mayForget(f).Refused() {
		return false
	}
	t, known := v.forgotten[f.Node]
	at := now.Add(-age)
	switch {
	case !known || !t.covers(f.Boot, f.Seq):
		t = tombstone{f, at}
	case t.Forgotten == f && at.Before(t.at): // an age only grows, no matter who tells it
		t.at = at
	}
	v.forgotten[f.Node] = t
	if len(v.forgotten) > maxForgotten {
		oldest := slices.MinFunc(v.tombstones(), func(a, b tombstone) int { return a.at.Compare(b.at) })
		delete(v.forgotten, oldest.Node)
	}
	_, here := v.nodes[f.Node]
	delete(v.nodes, f.Node)
	return here
}

// dead reports whether a word was forgotten by command. A process that is live is heard all the same.
func (v *view) dead(e entry) bool {
	return v.forgotten[e.Node].covers(e.Boot, e.Seq) && v.peers[e.process()] == nil
}

func (v *view) tombstones() []tombstone {
	out := make([]tombstone, 0, len(v.forgotten))
	for _, t := range v.forgotten {
		out = append(out, t)
	}
	return out
}

// age takes in for how long another has lost a node. What we saw ourselves we know better; else the age only grows,
// through however many mouths it goes.
func (v *view) age(l lostFor, now time.Time) {
	rec := v.nodes[l.node]
	if rec == nil || rec.Live || rec.seen || rec.Boot != l.boot || v.ours(l.node) {
		return
	}
	if since := now.Add(-l.age); since.Before(rec.Since) {
		rec.Since = since
	}
}

// hearsay is what a node says beside the entries: for how long it has lost nodes, and what was forgotten by command.
type hearsay struct {
	lost      []lostFor
	forgotten []forgetting
	proofs    []entry // of which only who said it when, and the proof, is told
}

type lostFor struct {
	node string
	boot uint64
	age  time.Duration
}

// forgetting is a command that was given this long ago.
type forgetting struct {
	Forgotten
	age time.Duration
}

// hearsay returns what is told beside the entries.
func (v *view) hearsay(now time.Time) (w hearsay) {
	for _, rec := range v.nodes {
		if !rec.Live && !rec.faded {
			w.lost = append(w.lost, lostFor{rec.Node.Node, rec.Boot, now.Sub(rec.Since)})
		}
	}
	for _, t := range v.forgotten {
		w.forgotten = append(w.forgotten, forgetting{t.Forgotten, now.Sub(t.at)})
	}
	return w
}
