package plan

import (
	"fmt"
	"slices"
	"testing"
)

// gone asks those whose lock this node has, right before its member starts: a machine that was cloned with its memory has
// the lock of the original. One that is down refuses.
func (n *node) gone() {
	o := n.observe()
	for _, m := range n.w.boxes {
		if d := m.disk; m.up && slices.Contains(o.Ousted(), m.name) && (!n.w.reach(n, m) || d != nil && d.uuid == o.Claim.Disk) {
			n.w.tally.event("who had the lock still holds the disk")
			n.abort()
		}
	}
}

// TestCopies copies the disk of a member while it runs, to a node that claims the copy. While the gossip is whole the copy
// never starts, and no node takes the original for gone, also where the copy has its lock, as the clone of a machine with
// its memory has.
func TestCopies(t *testing.T) {
	for seed := range uint64(20) {
		for _, cloned := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%t", seed, cloned), func(t *testing.T) {
				w := newWorld(seed, life{slots: 3, nodes: 4, store: storeShared}, newTally())
				if _, ok := w.recover(); !ok {
					t.Fatalf("no cluster: %s", w.describe())
				}
				for range 5 { // all have heard that all run
					for _, n := range w.boxes {
						n.step()
						for _, m := range w.boxes {
							w.deliver(n, m)
						}
					}
				}
				spare := slices.IndexFunc(w.boxes, func(n *node) bool { return n.disk == nil })
				thief, from := w.boxes[spare], w.boxes[(spare+1+int(seed%3))%4]
				d := from.disk.copy()
				d.uuid, d.slot, d.lock = from.disk.uuid, from.disk.slot, "of the copy"
				if cloned {
					d.lock = from.disk.lock
				}
				d.epoch, d.holder, thief.disk, thief.none, thief.todo = d.epoch+1, thief, d, "", nil
				begun := from.proc
				for range 800 {
					switch w.rng.IntN(3) {
					case 0:
						w.someNode().step()
					case 1:
						w.deliver(w.someNode(), w.someNode())
					default:
						w.clusters[0].tick(w)
					}
				}
				switch {
				case w.broken != "":
					t.Error(w.broken)
				case thief.proc != nil || from.proc != begun:
					t.Errorf("R10: the copy on %s runs, %t, and the original on %s, %t", thief.name, thief.proc != nil, from.name, from.proc == begun)
				case cloned && w.tally.events["who had the lock still holds the disk"] == 0:
					t.Error("the clone never tried to start")
				}
			})
		}
	}
}
