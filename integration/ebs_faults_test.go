package integration_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/integration/tier"
	"holdfast/volume/volumetest/ec2test"
)

// The stories of this file break what the claim of an EBS volume relies on, at the worst moment: EC2's answers, the
// order of events, the disk, and the machine.

func inject(t *testing.T, s *integration.Site, faults ...ec2test.Fault) {
	t.Helper()
	for _, f := range faults {
		must(t, s.EC2.Inject(f))
	}
}

// oneEach checks that no instance ever had two volumes at the same time.
func (r region) oneEach(t *testing.T) {
	t.Helper()
	for _, m := range r.Machines {
		var own []ec2test.Interval
		for _, i := range r.EC2.Intervals() {
			if i.Instance == m.ID {
				i.Volume = "any" // so that any two volumes overlap
				own = append(own, i)
			}
		}
		if pairs := ec2test.Overlaps(own); len(pairs) > 0 {
			t.Errorf("%s had two volumes at a time: %v", m.Name, pairs)
		}
	}
}

// claims returns the state of a node's claim.
func claims(n *integration.Node) (health.ClaimStatus, error) {
	s, err := n.Self()
	if err == nil && s.Claim == nil {
		err = errors.New("it says nothing of a claim")
	}
	if err != nil {
		return health.ClaimStatus{}, err
	}
	return *s.Claim, nil
}

// claiming waits until a node's claim is in one of the states.
func claiming(c *integration.Cluster, n *integration.Node, states ...string) {
	c.Until(patience, fmt.Sprintf("the claim of %s is %v", n.Name, states), func() error {
		now, err := claims(n)
		if err == nil && !slices.Contains(states, now.State) {
			err = fmt.Errorf("it is %s: %s", now.State, now.Why)
		}
		return err
	})
}

// attachments waits until the volumes have n attachments in total.
func (r region) attachments(t *testing.T, n int) {
	t.Helper()
	r.cluster.Until(patience, fmt.Sprintf("%d attachments", n), func() error {
		if got := len(r.EC2.Intervals()); got < n {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

// The answers to AttachVolume are lost on all nodes, whether the request was executed, not executed, or is executed
// later, even so late that the node no longer waits for the device.
func TestEBSAttachAnswersLost(t *testing.T) {
	t.Parallel() // its parts are stories
	type lost struct {
		name   string
		faults [3]ec2test.Fault
	}
	for _, story := range tier.Share(t, 3, []lost{
		{"executed", [3]ec2test.Fault{{Kind: ec2test.LoseResponse}, {Kind: ec2test.LoseResponse}, {Kind: ec2test.LoseResponse}}},
		{"not executed", [3]ec2test.Fault{{Kind: ec2test.LoseRequest}, {Kind: ec2test.LoseRequest}, {Kind: ec2test.LoseRequest}}},
		{"executed late", [3]ec2test.Fault{
			{Kind: ec2test.Late, Delay: 3 * time.Second}, {Kind: ec2test.Late, Delay: 8 * time.Second}, {Kind: ec2test.Late, Delay: 18 * time.Second},
		}},
	}) {
		t.Run(story.name, func(t *testing.T) {
			r := masters(t)
			for i, f := range story.faults {
				f.Action, f.Caller, f.Times = "AttachVolume", r.Machines[i].ID, 1
				inject(t, r.Site, f)
			}
			r.cluster.Start()
			w := r.written(20)
			r.attached(t, 3)
			r.intact(t, w)
		})
	}
}

// A node whose AttachVolume is executed late takes no other volume meanwhile, although there is one.
func TestEBSLateAttachmentIsWaitedFor(t *testing.T) {
	r := masters(t, zones[0], zones[0], zones[1])
	first := r.cluster.Nodes[0]
	inject(t, r.Site, ec2test.Fault{Action: "AttachVolume", Caller: first.Machine.ID, Kind: ec2test.Late,
		Delay: 6 * time.Second, Times: 1})
	first.Start()
	claiming(r.cluster, first, "held")
	if calls := r.EC2.Calls("AttachVolume", first.Machine.ID); calls != 1 {
		t.Errorf("AttachVolume was called %d times, want 1", calls)
	}
	time.Sleep(6 * time.Second) // a second attachment would have come by now
	r.cluster.Nodes[1].Start()
	r.cluster.Nodes[2].Start()
	r.intact(t, r.written(20))
}

// Two nodes see old or mixed-up lists of volumes while the cluster is founded, and again when the volume of a
// terminated instance is taken over.
func TestEBSOldAndRandomReads(t *testing.T) {
	r := masters(t)
	old := func(n *integration.Node) ec2test.Fault {
		return ec2test.Fault{Action: "DescribeVolumes", Caller: n.Machine.ID, Kind: ec2test.Stale, Age: 3 * time.Second}
	}
	mixed := func(n *integration.Node) ec2test.Fault {
		return ec2test.Fault{Action: "DescribeVolumes", Caller: n.Machine.ID, Kind: ec2test.Random, Changes: 8}
	}
	inject(t, r.Site, old(r.cluster.Nodes[0]), mixed(r.cluster.Nodes[1]))
	r.cluster.Start()
	w := r.written(20)
	gone := r.cluster.Holder("b")
	first, second := r.cluster.Place(r.Launch(gone.Machine.Zone)), r.cluster.Place(r.Launch(gone.Machine.Zone))
	inject(t, r.Site, old(first), mixed(second))
	first.Start()
	second.Start()
	waitsOnStandby(r.cluster, first)
	waitsOnStandby(r.cluster, second)
	gone.Machine.Terminate()
	r.cluster.Until(time.Minute, "one of the standbys serves the slot", func() error {
		a, b := serves(first), serves(second)
		if a == nil || b == nil {
			return nil
		}
		return errors.Join(a, b)
	})
	r.cluster.Serving()
	w.More(20)
	r.intact(t, w)
}

// EC2 accepts the attachment and takes it back, as it does when it may not use the key. The node says so, does not try
// again and again, and starts when the key can be used.
func TestEBSKeyDenied(t *testing.T) {
	r := masters(t)
	n := r.cluster.Nodes[0]
	inject(t, r.Site, ec2test.Fault{Action: "AttachVolume", Caller: n.Machine.ID, Kind: ec2test.KMSFailure})
	r.cluster.Start()
	r.cluster.Until(patience, n.Name+" names the key", func() error {
		s, err := n.Self()
		if err == nil && !strings.Contains(s.Error+s.Why, "KMS key") {
			err = fmt.Errorf("it says %s (%s)", s.Why, s.Error)
		}
		return err
	})
	time.Sleep(5 * time.Second) // nothing must happen, so there is nothing to wait for
	if calls := r.EC2.Calls("AttachVolume", n.Machine.ID); calls != 1 {
		t.Errorf("AttachVolume was called %d times, want 1", calls)
	}
	if s, err := n.Self(); err != nil || !strings.Contains(s.Why, "KMS key") || !strings.Contains(s.Why, "next attempt at") {
		t.Errorf("5 s later it says %q (%v), want the reason and when it tries again", s.Why, err)
	}
	if got := len(n.Decisions()); got > 5 {
		t.Errorf("%d decisions in the log: the same one is logged again and again", got)
	}
	r.EC2.Clear()
	n.Stop() // by itself, it would try again within some 75 s
	n.Start()
	r.intact(t, r.written(20))
}

// EC2 throttles all requests for a while.
func TestEBSThrottled(t *testing.T) {
	r := masters(t)
	inject(t, r.Site, ec2test.Fault{Kind: ec2test.Throttle})
	r.cluster.Start()
	n := r.cluster.Nodes[0]
	r.cluster.Until(patience, "the node names the reason", func() error {
		s, err := n.Self()
		if err == nil && !strings.Contains(s.Error+s.Why, "RequestLimitExceeded") {
			err = fmt.Errorf("it says %s (%s)", s.Why, s.Error)
		}
		return err
	})
	before := r.EC2.Calls("", n.Machine.ID)
	time.Sleep(4 * time.Second) // the rate is measured
	if calls := r.EC2.Calls("", n.Machine.ID) - before; calls > 8 {
		t.Errorf("%d requests in 4 s while EC2 throttles", calls)
	}
	r.EC2.Clear()
	r.intact(t, r.written(20))
}
