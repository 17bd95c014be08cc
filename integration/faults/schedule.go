package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. Each is about one node, unless noted otherwise.
const (
	Kill     Kind = "kill"     // kill -9, started again at the end
	KillTwo  Kind = "kill-two" // kill -9 of two nodes at once
	KillAll  Kind = "kill-all" // kill -9 of all nodes at once
	Step     Kind = "step"     // kill -9, then the process kills itself at a step of its start
	Stop     Kind = "stop"     // SIGTERM, started again at the end
	HandOver Kind = "hand-over"
	Pause    Kind = "pause"    // SIGSTOP
	Stutter  Kind = "stutter"  // SIGSTOP and SIGCONT in turn: everything is late
	Isolate  Kind = "isolate"  // cut off from everything, including clients and EC2
	Split    Kind = "split"    // cut off from the other nodes; clients reach it
	Deaf     Kind = "deaf"     // nothing from the other nodes arrives
	Mute     Kind = "mute"     // nothing arrives at the other nodes
	Gossip   Kind = "gossip"   // only port 7946 is cut
	Peers    Kind = "peers"    // only port 2380 is cut
	Loss     Kind = "loss"     // a share of its packets is lost
	Move     Kind = "move"     // another address; the old one again at the end
	Yank     Kind = "yank"     // the block device is gone; AWS repairs it at the end
	Stall    Kind = "stall"    // writes to the file system hang
	Full     Kind = "full"     // the file system is full
	Lose     Kind = "lose"     // the volume is lost for good: a blank one takes its place
	NoEC2    Kind = "no-ec2"   // EC2 does not answer while the node restarts
	NoStore  Kind = "no-store" // the backup store is away while the node restarts
)

// Kinds are all kinds of faults.
var Kinds = []Kind{Kill, KillTwo, KillAll, Step, Stop, HandOver, Pause, Stutter, Isolate, Split, Deaf, Mute, Gossip,
	Peers, Loss, Move, Yank, Stall, Full, Lose, NoEC2, NoStore}

// Steps are the steps of embedded/coordinator and volume/ebs at which a starting process may kill itself.
var Steps = []string{"before-mount", "after-mount", "before-identity", "before-held-tag", "held", "before-etcd",
	"after-etcd"}

// nodes is the number of nodes, each with a slot.
const nodes = 3

// Fault is a fault with its times.
type Fault struct {
	Kind   Kind
	Node   int           // its index, from 0
	Leader bool          // instead of Node: the node that leads when the fault begins
	Wait   time.Duration // after the end of the last fault
	For    time.Duration
	Step   string // of Step
	Amount int    // of Loss: percent
}

// String describes the fault for people.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s after %s for %s: ", f.Kind, f.Wait, f.For)
	switch {
	case f.Leader:
		b.WriteString("the leader")
	default:
		fmt.Fprintf(&b, "n%d", f.Node+1)
	}
	if f.Step != "" {
		b.WriteString(" at " + f.Step)
	}
	if f.Amount > 0 {
		fmt.Fprintf(&b, " %d %%", f.Amount)
	}
	return b.String()
}

// Schedule lists the faults of a run, one after the other. The seed decides it.
type Schedule struct {
	Seed    uint64
	Traffic string // "etcd" or "kubernetes"
	Faults  []Fault
}

// Draw returns the schedule of a seed, with faults of the given kinds that take about length in total. A volume is
// lost at most once, because the logs of the two other members must contain the whole history.
func Draw(seed uint64, length time.Duration, kinds []Kind) Schedule {
	random := rand.New(rand.NewPCG(seed, 0))
	s := Schedule{Seed: seed, Traffic: []string{"etcd", "kubernetes"}[random.IntN(2)]}
	lost := false
	var bag []Kind // each kind comes once before any comes again
	for took := time.Duration(0); took < length; {
		if len(bag) == 0 {
			for _, i := range random.Perm(len(kinds)) {
				bag = append(bag, kinds[i])
			}
		}
		f := Fault{Kind: bag[0], Node: random.IntN(nodes), Leader: random.IntN(3) == 0, Wait: between(random, 0, 1500),
			For: between(random, 500, 3500)}
		step, amount := Steps[random.IntN(len(Steps))], 5+random.IntN(30)
		bag = bag[1:]
		switch f.Kind {
		case Step:
			f.Step = step
		case Loss:
			f.Amount = amount
		case HandOver, KillTwo, KillAll:
			f.Leader = false
		case Lose:
			if lost {
				continue
			}
			lost, f.Leader = true, false
		}
		took += f.Wait + f.For
		s.Faults = append(s.Faults, f)
	}
	return s
}

// between returns a random time between two numbers of milliseconds.
func between(random *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+random.IntN(to-from)) * time.Millisecond
}
