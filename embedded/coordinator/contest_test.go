package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// twoCopies makes two nodes that each hold a copy of one disk, which was founded in r. Each has heard that the other is
// live, and nothing about its disk. takes is how long each question to the other takes.
func twoCopies(t *testing.T, r plan.Record, takes [2]time.Duration) (worlds [2]*world, nodes [2]*Coordinator) {
	for i := range nodes {
		w := newWorld(t)
		l := ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: "disk-a"}}
		if err := l.write(w.dir); err != nil {
			t.Fatal(err)
		}
		w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77}
		w.nodes = []Node{{Name: fmt.Sprintf("n%d", 2-i), Live: true}}
		w.rival = func(_ string, question []byte) ([]byte, error) {
			time.Sleep(takes[i])
			answer, _, err := nodes[1-i].Answer(context.Background(), question)
			time.Sleep(takes[i])
			return answer, err
		}
		worlds[i], nodes[i] = w, w.coordinator("a")
		nodes[i].cfg.Node = fmt.Sprintf("n%d", 1+i)
	}
	return worlds, nodes
}

// Two copies of one disk start at almost the same time. Neither is heard to hold the disk: nothing is known, or its
// previous disk. One of them runs, and the other says why it does not.
func TestCopiesStartOnce(t *testing.T) {
	r := record("a")
	before := []byte(`{"version":1,"slot":"b","disk":"disk-b"}`)
	for _, late := range []time.Duration{0, time.Millisecond, 9 * time.Millisecond, 50 * time.Millisecond, time.Second} {
		for _, takes := range [][2]time.Duration{{0, 0}, {1e6, 20e6}, {20e6, 1e6}} {
			for kind := range 4 {
				slow, stale := kind&1 != 0, kind&2 != 0 // to start, and the gossip
				t.Run(fmt.Sprint(late, takes, slow, stale), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						worlds, nodes := twoCopies(t, r, takes)
						for _, w := range worlds {
							if stale {
								w.nodes[0].State, w.nodes[0].Stamp = before, [2]uint64{1, 1}
							}
							if slow {
								w.hang = make(chan struct{})
								time.AfterFunc(10*time.Second, func() { close(w.hang) })
							}
						}
						var stops [2]func() error
						for i, node := range nodes { // the first may ask the second before that one begins
							stops[i] = live(t, node)
							time.Sleep(late)
						}
						time.Sleep(20 * time.Second)
						if one, other := len(worlds[0].starts), len(worlds[1].starts); one+other != 1 {
							t.Errorf("one started %d times, the other %d", one, other)
						}
						loser := nodes[len(worlds[0].starts)&1]
						if why := loser.Now().Action.Text(); !strings.Contains(why, "does not start; stop one of the two") {
							t.Errorf("the other says: %s", why)
						}
						for _, stop := range stops {
							if err := stop(); err != nil {
								t.Error(err)
							}
						}
					})
				})
			}
		}
	}
}

// The asker learns what the node holds, and whether the node could ask in turn.
func TestAnswerToWhoIsAboutToStart(t *testing.T) {
	_, nodes := twoCopies(t, record("a"), [2]time.Duration{})
	c := nodes[0]
	c.holding.hold(c.world.Volumes.(*world))
	for node, deaf := range map[string]bool{"n2": false, "n3": true} {
		answer, ok, err := c.Answer(t.Context(), fmt.Appendf(nil, askToStart+`{"node":%q,"disk":"disk-a"}`, node))
		if !ok || err != nil {
			t.Fatalf("no answer: %t, %v", ok, err)
		}
		var s said
		if err := json.Unmarshal(answer, &s); err != nil {
			t.Fatal(err)
		}
		if f, err := ReadFacts(s.Facts); err != nil || f.Disk != "disk-a" || f.Running || s.Deaf != deaf {
			t.Errorf("to %s: got %s, %v", node, answer, err)
		}
	}
}

// A node whose own observation takes longer than the others' answers may take asks anyway.
func TestSlowLookAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		worlds, nodes := twoCopies(t, record("a"), [2]time.Duration{})
		slow := worlds[0]
		slow.looking = func() { time.Sleep(goneTimeout + time.Second/2) }
		asks, ask := 0, slow.rival
		slow.rival = func(node string, question []byte) ([]byte, error) { asks++; return ask(node, question) }
		stop := live(t, nodes[0])
		time.Sleep(20 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if asks == 0 || len(slow.starts) != 1 {
			t.Errorf("asked %d times, started %d times", asks, len(slow.starts))
		}
	})
}

// A node that was suspended after it got its answers does not start because of them: the other has lost it since, and
// runs.
func TestSuspendedCopyAsksAgain(t *testing.T) {
	for _, late := range []time.Duration{0, 5 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			worlds, nodes := twoCopies(t, record("a"), [2]time.Duration{})
			first, other := worlds[0], worlds[1]
			ask, answer := first.rival, other.rival
			var suspended atomic.Bool
			asks := 0
			first.rival = func(node string, question []byte) ([]byte, error) {
				said, err := ask(node, question)
				if asks++; asks == 1 {
					suspended.Store(true)
					time.AfterFunc(5*time.Second, func() {
						other.mu.Lock()
						defer other.mu.Unlock()
						other.nodes = []Node{{Name: "n1"}}
					})
					time.Sleep(10 * time.Second)
					suspended.Store(false)
				}
				return said, err
			}
			other.rival = func(node string, question []byte) ([]byte, error) {
				if suspended.Load() {
					time.Sleep(goneTimeout)
					return nil, context.DeadlineExceeded
				}
				return answer(node, question)
			}
			stop := live(t, nodes[0])
			time.Sleep(late)
			stopOther := live(t, nodes[1])
			time.Sleep(30 * time.Second)
			for _, stop := range []func() error{stop, stopOther} {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
			if one, two := len(first.starts), len(other.starts); one != 0 || two != 1 {
				t.Errorf("the suspended one started %d times, the other %d", one, two)
			}
		})
	}
}
