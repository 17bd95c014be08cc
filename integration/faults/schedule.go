package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Kind is what goes wrong.
type Kind string

// The kinds of faults. Unless one says otherwise it befalls one node.
const (
	Kill     Kind = "kill"     // kill -9, started again at the end
	KillTwo  Kind = "kill-two" // the majority, at once
	KillAll  Kind = "kill-all" // everybody, at once
	Step     Kind = "step"     // kill -9, then the process kills itself at a step of its start
	Stop     Kind = "stop"     // SIGTERM, started again at the end
	HandOver Kind = "hand-over"
	Pause    Kind = "pause"    // SIGSTOP
	Stutter  Kind = "stutter"  // SIGSTOP and SIGCONT in turn: all that it says and does is late
	Isolate  Kind = "isolate"  // off the network, clients and EC2 included
	Split    Kind = "split"    // from the other nodes; clients reach it
	Deaf     Kind = "deaf"     // nothing from the other nodes arrives
	Mute     Kind = "mute"     // nothing arrives at the other nodes
	Gossip   Kind = "gossip"   // only port 7946 is cut
	Peers    Kind = "peers"    // only port 2380 is cut
	Loss     Kind = "loss"     // a share of its packets
	Move     Kind = "move"     // another address, and back at the end
	Yank     Kind = "yank"     // the block device is gone; AWS repairs it at the end
	Stall    Kind = "stall"    // the file system takes no writes
	Full     Kind = "full"     // the file system has no room
	Lose     Kind = "lose"     // the volume is lost for good: a blank one takes its place
	NoEC2    Kind = "no-ec2"   // EC2 does not answer while the node restarts
	NoStore  Kind = "no-store" // the backup store is away while the node restarts
)

// Kinds are all kinds of faults.
var Kinds = []Kind{Kill, KillTwo, KillAll, Step, Stop, HandOver, Pause, Stutter, Isolate, Split, Deaf, Mute, Gossip,
	Peers, Loss,
	Move, Yank, Stall, Full, Lose, NoEC2, NoStore}

// Steps are where a starting process kills itself. Names of embedded/coordinator and volume/ebs.
var Steps = []string{"before-mount", "after-mount", "before-identity", "before-held-tag", "held", "before-etcd",
	"after-etcd"}

// nodes is how many there are, each with a slot.
const nodes = 3

// Fault is something that goes wrong for a while.
type Fault struct {
	Kind   Kind
	Node   int           // which one, counted from 0
	Leader bool          // the one that leads when it begins, instead
	Wait   time.Duration // from the end of the fault before
	For    time.Duration
	Step   string // of Step
	Amount int    // of Loss: percent
}

// String says what goes wrong, when and on whom, for people.
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

// Schedule is all that goes wrong in a run, one after the other. A seed decides it.
type Schedule struct {
	Seed    uint64
	Traffic string // "etcd" or "kubernetes"
	Faults  []Fault
}

// Draw makes the schedule of a seed, of faults that take about length in all, out of kinds. A volume is lost at most
// once: the logs of the two other members then hold the whole history.
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

// between is a time of from to to milliseconds.
func between(random *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+random.IntN(to-from)) * time.Millisecond
}
