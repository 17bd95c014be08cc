package gossip

import (
	"cmp"
	"slices"
	"time"
)

// What goes over in a push/pull: the words of all nodes, their proofs, and what is said of the lost ones.

// entries returns everything known as messages, lost nodes too, then their proofs, and last what there is to say of the
// lost ones. The latter two are in the states of entries about an observer, which a version that knows no better drops.
func (v *view) entries(now time.Time) []entry {
	var out []entry
	for _, rec := range v.nodes {
		if !rec.faded {
			out = append(out, entry{rec.Meta, rec.Seq, rec.State, rec.proof})
		}
	}
	w := v.hearsay(now)
	limit := maxNodes // more entries are refused
	if !w.empty() {
		limit--
	}
	if v.strict {
		limit -= maxProofs
	}
	if len(out) > limit { // without those that were started first of the lost ones
		lost := func(e entry) int {
			if v.nodes[e.Node].Live {
				return 0
			}
			return 1
		}
		slices.SortFunc(out, func(a, b entry) int {
			return cmp.Or(cmp.Compare(lost(a), lost(b)), cmp.Compare(b.Boot, a.Boot), cmp.Compare(a.Node, b.Node))
		})
		out = out[:limit]
	}
	proven := slices.DeleteFunc(slices.Clone(out), func(e entry) bool { return e.proof == nil })
	for some := range slices.Chunk(proven, perEntry) {
		out = append(out, v.self.aside(hearsay{proofs: some}))
	}
	if !w.empty() {
		out = append(out, v.self.aside(w))
	}
	return out
}

// aside says something that is no word of a node.
func (m Meta) aside(w hearsay) entry {
	m.Observer = true
	return entry{Meta: m, State: encodeHearsay(w)}
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
	lastWord
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
		w.forgotten = append(w.forgotten, forgetting{t.lastWord, now.Sub(t.at)})
	}
	return w
}

// asides returns what is said beside the words, and puts their proofs to them.
func asides(entries []entry) (said hearsay, err error) {
	proofs := map[lastWord][]byte{}
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
			proofs[lastWord{p.Node, p.Boot, p.Seq}] = p.proof
		}
	}
	for i, e := range entries {
		entries[i].proof = proofs[lastWord{e.Node, e.Boot, e.Seq}]
	}
	return said, nil
}
