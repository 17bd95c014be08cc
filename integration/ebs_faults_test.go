package integration_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/integration"
	"holdfast/integration/hosts"
	"holdfast/volume/volumetest/ec2test"
)

// The stories of this file break what the claim of an EBS volume relies on: the answers of EC2, the order of
// events, the disk, and the machine, at the worst moment.

func inject(t *testing.T, s *integration.Site, faults ...ec2test.Fault) {
	t.Helper()
	for _, f := range faults {
		must(t, s.EC2.Inject(f))
	}
}

// oneEach checks that no instance ever had two volumes at a time.
func (r region) oneEach(t *testing.T) {
	t.Helper()
	for _, m := range r.Machines {
		var own []ec2test.Interval
		for _, i := range r.EC2.Intervals() {
			if i.Instance == m.ID {
				i.Volume = "any" // so that any two of them are an overlap
				own = append(own, i)
			}
		}
		if pairs := ec2test.Overlaps(own); len(pairs) > 0 {
			t.Errorf("%s had two volumes at a time: %v", m.Name, pairs)
		}
	}
}

// claims returns how far the claim of a node is.
func claims(n *integration.Node) (coordinator.ClaimStatus, error) {
	s, err := n.Self()
	if err == nil && s.Claim == nil {
		err = errors.New("it says nothing of a claim")
	}
	if err != nil {
		return coordinator.ClaimStatus{}, err
	}
	return *s.Claim, nil
}

// claiming waits until the claim of a node is in one of states.
func claiming(c *integration.Cluster, n *integration.Node, states ...string) {
	c.Until(patience, fmt.Sprintf("the claim of %s is %v", n.Name, states), func() error {
		now, err := claims(n)
		if err == nil && !slices.Contains(states, now.State) {
			err = fmt.Errorf("it is %s: %s", now.State, now.Why)
		}
		return err
	})
}

// attachments waits until the volumes are attached to n instances in all.
func (r region) attachments(t *testing.T, n int) {
	t.Helper()
	r.cluster.Until(patience, fmt.Sprintf("%d attachments", n), func() error {
		if got := len(r.EC2.Intervals()); got < n {
			return fmt.Errorf("%d so far", got)
		}
		return nil
	})
}

// The answers to AttachVolume are lost on all nodes, whether it was executed, not executed, or is executed later,
// even so late that the node has stopped to wait for the device.
func TestEBSAttachAnswersLost(t *testing.T) {
	for _, story := range []struct {
		name   string
		faults [3]ec2test.Fault
	}{
		{"executed", [3]ec2test.Fault{{Kind: ec2test.LoseResponse}, {Kind: ec2test.LoseResponse}, {Kind: ec2test.LoseResponse}}},
		{"not executed", [3]ec2test.Fault{{Kind: ec2test.LoseRequest}, {Kind: ec2test.LoseRequest}, {Kind: ec2test.LoseRequest}}},
		{"executed late", [3]ec2test.Fault{
			{Kind: ec2test.Late, Delay: 3 * time.Second}, {Kind: ec2test.Late, Delay: 8 * time.Second}, {Kind: ec2test.Late, Delay: 18 * time.Second},
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			r := masters(t)
			for i, f := range story.faults {
				f.Action, f.Caller, f.Times = "AttachVolume", r.Machines[i].ID, 1
				inject(t, r.Site, f)
			}
			r.cluster.Start()
			r.cluster.Serving()
			w := r.cluster.Write()
			w.More(20)
			r.oneEach(t)
			r.onTheirVolumes(t)
			if got := len(r.EC2.Intervals()); got != 3 {
				t.Errorf("got %d attachments, want 3", got)
			}
			w.Verify()
		})
	}
}

// A node whose AttachVolume is executed late takes no other volume meanwhile, although there is one.
func TestEBSLateAttachmentIsWaitedFor(t *testing.T) {
	s := site(t)
	in := []string{zones[0], zones[0], zones[1]}
	r := region{s, s.Cluster("main", abc, 0, s.Launch(in[0]), s.Launch(in[1]), s.Launch(in[2])), s.Volumes("main", abc, in...)}
	first := r.cluster.Nodes[0]
	inject(t, s, ec2test.Fault{Action: "AttachVolume", Caller: first.Machine.ID, Kind: ec2test.Late, Delay: 6 * time.Second, Times: 1})
	first.Start()
	claiming(r.cluster, first, "held")
	if calls := s.EC2.Calls("AttachVolume", first.Machine.ID); calls != 1 {
		t.Errorf("AttachVolume was called %d times, want 1", calls)
	}
	time.Sleep(6 * time.Second) // a second attachment would have come by now
	r.cluster.Nodes[1].Start()
	r.cluster.Nodes[2].Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	r.oneEach(t)
	r.onTheirVolumes(t)
	w.Verify()
}

// Two nodes see old or mixed-up volumes while the cluster is founded, and again when the volume of an instance that
// was terminated is taken over.
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
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
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
	r.oneEach(t)
	r.onTheirVolumes(t)
	w.Verify()
}

// EC2 accepts the attachment and takes it back, as it does when it may not use the key: the node says so, does not
// try again and again, and starts when the key can be used.
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
	time.Sleep(5 * time.Second) // it must not happen, so there is nothing to wait for
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
	n.Stop() // it would try again by itself within some 75 s
	n.Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// EC2 throttles everything for a while.
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
	time.Sleep(4 * time.Second) // the rate is the point
	if calls := r.EC2.Calls("", n.Machine.ID) - before; calls > 8 {
		t.Errorf("%d requests in 4 s while EC2 throttles", calls)
	}
	r.EC2.Clear()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// An operator has attached all volumes of a zone to one instance before its node ever ran: it uses one and gives the
// others up, mounting none of them, and the other nodes of the zone take them.
func TestEBSSeveralVolumesOnOneInstance(t *testing.T) {
	for _, count := range []int{2, 3} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			s := site(t)
			in := []string{zones[0], zones[0], zones[0]}
			if count == 2 {
				in[2] = zones[2]
			}
			r := region{s, s.Cluster("main", abc, 0, s.Launch(in[0]), s.Launch(in[1]), s.Launch(in[2])), s.Volumes("main", abc, in...)}
			for i, slot := range abc[:count] {
				s.Attach(r.volumes[slot], s.Machines[0], "/dev/sd"+string(rune('f'+i)))
			}
			r.cluster.Start()
			r.cluster.Serving()
			w := r.cluster.Write()
			w.More(20)
			if got, want := len(s.EC2.Intervals()), 3+count-1; got != want {
				t.Errorf("got %d attachments, want %d", got, want)
			}
			r.onTheirVolumes(t)
			w.Verify()
		})
	}
}

// Volumes that are reserved go to the instance that they are reserved for, also when it starts last.
func TestEBSReservedForAnInstance(t *testing.T) {
	s := site(t)
	ids := s.Volumes("main", abc, zones[0], zones[0], zones[0])
	r := region{s, s.Cluster("main", abc, 0, s.Launch(zones[0]), s.Launch(zones[0]), s.Launch(zones[0])), ids}
	must(t, s.EC2.SetTag(ids["a"], "holdfast:instance", s.Machines[2].ID))
	must(t, s.EC2.SetTag(ids["b"], "holdfast:instance", s.Machines[1].ID))
	r.cluster.Nodes[0].Start()
	r.cluster.Nodes[1].Start()
	for i, slot := range []string{"c", "b"} {
		if n := r.cluster.Holder(slot); n != r.cluster.Nodes[i] {
			t.Errorf("slot %s: %s has it, want %s", slot, n.Name, r.cluster.Nodes[i].Name)
		}
	}
	if v, _ := s.EC2.Volume(ids["a"]); v.State != "available" || v.Tags["holdfast:claim"] != "" {
		t.Errorf("somebody touched the volume of an instance that has not started: %+v", v)
	}
	r.cluster.Nodes[2].Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// A node in a zone whose volumes are all not for it: it touches none, and says of each why.
func TestEBSVolumesThatAreNotForTheNode(t *testing.T) {
	s := site(t)
	slots := []string{"a", "b", "c", "d", "e", "f"}
	c := s.Cluster("main", slots, 0, s.Launch(zones[0]))
	n, me := c.Nodes[0], s.Machines[0]
	add := func(slot string, v ec2test.Volume) string {
		v.Tags = map[string]string{"holdfast:cluster": "main", "holdfast:member": slot, "holdfast:instance": v.Tags["for"]}
		if v.Zone == "" {
			v.Zone = zones[0]
		}
		id, err := s.EC2.AddVolume(v)
		must(t, err)
		return id
	}
	reasons := map[string]string{
		add("a", ec2test.Volume{Zone: zones[1]}):                                    "it is in zone eu-test-1b",
		add("b", ec2test.Volume{MultiAttach: true}):                                 "Multi-Attach",
		add("d/a,b,d", ec2test.Volume{}):                                            "names the slots a,b,d, but cluster.slots is a,b,c,d,e,f",
		add("e", ec2test.Volume{Tags: map[string]string{"for": "i-0123456789abc"}}): "reserves it for i-0123456789abc",
		add("z", ec2test.Volume{}):                                                  "slot z is not in cluster.slots",
	}
	managed := add("c", ec2test.Volume{})
	must(t, s.EC2.AttachManaged(managed))
	reasons[managed] = "AWS manages"
	other := s.Volumes("other", []string{"f"}, zones[0])["f"]
	s.Attach(other, me, "/dev/sdf")
	before := s.EC2.State().Volumes
	n.Start()
	waitsOnStandby(c, n, slices.Collect(func(yield func(string) bool) {
		for id, why := range reasons {
			if !yield(id) || !yield(why) {
				return
			}
		}
	})...)
	time.Sleep(3 * time.Second) // longer than takeover-after; nothing must happen
	for _, action := range []string{"AttachVolume", "DetachVolume", "CreateTags"} {
		if calls := s.EC2.Calls(action, me.ID); calls > 0 {
			t.Errorf("%s was called %d times", action, calls)
		}
	}
	out := n.Command("volume", "list")
	for id, why := range reasons {
		if !slices.ContainsFunc(strings.Split(out.Out, "\n"), func(l string) bool { return strings.Contains(l, id) && strings.Contains(l, why) }) {
			t.Errorf("volume list does not say of %s %q", id, why)
		}
	}
	doctor := n.Command("volume", "doctor")
	for _, why := range reasons {
		if doctor.Code != 1 || !strings.Contains(doctor.Out, why) {
			t.Errorf("volume doctor does not say %q: %s", why, doctor.Out)
		}
	}
	if strings.Contains(out.Out, other) {
		t.Errorf("volume list shows %s, which is another cluster's", other)
	}
	for id, v := range s.EC2.State().Volumes {
		if fmt.Sprint(*v) != fmt.Sprint(*before[id]) {
			t.Errorf("a volume was touched: %+v, before: %+v", *v, *before[id])
		}
	}
}

// The volumes of kops, found by its tags.
func TestEBSVolumesOfKops(t *testing.T) {
	s := site(t)
	r := region{s, s.Cluster("main", abc, 0, s.Launch(zones[0]), s.Launch(zones[1]), s.Launch(zones[2])), map[string]string{}}
	for i, slot := range abc {
		for _, etcd := range []string{"main", "events"} {
			id, err := s.EC2.AddVolume(ec2test.Volume{Zone: zones[i], Size: 20, Encrypted: true, Tags: map[string]string{
				"Name":              slot + ".etcd-" + etcd + ".k8s.example.com",
				"KubernetesCluster": "k8s.example.com", "kubernetes.io/cluster/k8s.example.com": "owned",
				"k8s.io/etcd/" + etcd: slot + "/a,b,c", "k8s.io/role/control-plane": "1", "k8s.io/role/master": "1",
			}})
			must(t, err)
			if etcd == "main" {
				r.volumes[slot] = id
			}
		}
	}
	r.cluster.Set("volume.ebs.kubernetes-cluster", "k8s.example.com")
	r.cluster.Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// A node is stopped in the middle of its claim, for longer than takeover-after, while another one of its zone looks
// for a volume: before it has asked for the attachment it loses the volume and stands by, after it keeps it.
func TestEBSPausedInTheMiddleOfTheClaim(t *testing.T) {
	t.Run("claiming", func(t *testing.T) {
		r := masters(t)
		r.cluster.Set("volume.ebs.settle", "2s")
		n := r.cluster.Nodes[0]
		n.Start()
		claiming(r.cluster, n, "claiming")
		n.Pause()
		other := r.cluster.Place(r.Launch(n.Machine.Zone))
		other.Keys["volume.ebs.settle"] = "300ms"
		other.Start()
		claiming(r.cluster, other, "held")
		n.Continue()
		waitsOnStandby(r.cluster, n)
		r.cluster.Nodes[1].Start()
		r.cluster.Nodes[2].Start()
		r.cluster.Serving()
		w := r.cluster.Write()
		w.More(20)
		r.oneEach(t)
		r.onTheirVolumes(t)
		w.Verify()
	})
	t.Run("attaching", func(t *testing.T) {
		r := masters(t)
		n := r.cluster.Nodes[0]
		inject(t, r.Site, ec2test.Fault{Action: "AttachVolume", Caller: n.Machine.ID, Kind: ec2test.Slow, Delay: 3 * time.Second})
		r.cluster.Start()
		claiming(r.cluster, n, "attaching")
		r.attachments(t, 3)
		n.Pause()
		other := r.cluster.Place(r.Launch(n.Machine.Zone))
		other.Start()
		waitsOnStandby(r.cluster, other, "attached to "+n.Machine.ID)
		time.Sleep(4 * time.Second) // twice takeover-after; nothing must happen
		waitsOnStandby(r.cluster, other)
		n.Continue()
		r.cluster.Serving()
		w := r.cluster.Write()
		w.More(20)
		if got := len(r.EC2.Intervals()); got != 3 {
			t.Errorf("got %d attachments, want 3", got)
		}
		r.onTheirVolumes(t)
		w.Verify()
	})
}

// A holder is stopped for longer than takeover-after: nothing is taken from it, and it continues.
func TestEBSPausedHolder(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(20)
	n := r.cluster.Leader()
	standby := r.cluster.Place(r.Launch(n.Machine.Zone))
	standby.Start()
	waitsOnStandby(r.cluster, standby)
	n.Pause()
	w.More(10)
	time.Sleep(5 * time.Second) // more than twice takeover-after; nothing must happen
	waitsOnStandby(r.cluster, standby)
	n.Continue()
	r.cluster.Serving()
	if got := len(r.EC2.Intervals()); got != 3 {
		t.Errorf("got %d attachments, want 3", got)
	}
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// Every instance is terminated at another step of its first claim, and replaced: the new ones are in no dead end.
func TestEBSTerminatedInTheMiddleOfTheClaim(t *testing.T) {
	for _, steps := range [][3]string{
		{"after-claim-tag", "after-attach", "device"},
		{"before-format", "after-format", "after-mount"},
		{"before-identity", "after-identity", "before-held-tag"},
	} {
		t.Run(strings.Join(steps[:], ","), func(t *testing.T) {
			r := masters(t)
			first := slices.Clone(r.cluster.Nodes)
			for i, n := range first {
				n.Start("HOLDFAST_TEST_KILL_AT=" + steps[i])
			}
			for i, n := range first {
				if code := n.Exit(time.Minute); code != -1 {
					t.Fatalf("exit code %d, want it killed", code)
				}
				n.Machine.Terminate()
				r.cluster.Place(r.Launch(zones[i])).Start()
			}
			r.cluster.Serving()
			w := r.cluster.Write()
			w.More(20)
			r.oneEach(t)
			r.onTheirVolumes(t)
			w.Verify()
		})
	}
}

// A machine is restarted: it adopts the volume that it has. Then all are, at once.
func TestEBSReboot(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(20)
	before := r.cluster.Members()
	restart := func(nodes ...*integration.Node) {
		for _, n := range nodes {
			must(t, n.Machine.Host.Reboot())
		}
		for _, n := range nodes {
			n.Exit(patience)
			n.Start()
		}
		r.cluster.Serving()
		w.More(20)
	}
	restart(r.cluster.Leader())
	restart(r.cluster.Nodes...)
	if got := len(r.EC2.Intervals()); got != 3 {
		t.Errorf("got %d attachments, want 3", got)
	}
	if after := r.cluster.Members(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("members: got %v, want %v", after, before)
	}
	r.onTheirVolumes(t)
	w.Verify()
}

// The machines do not reach each other, but EC2: no volume moves, also not to a standby that hears of nobody.
func TestEBSPartition(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(20)
	standby := r.cluster.Place(r.Launch(zones[0]))
	standby.Start()
	waitsOnStandby(r.cluster, standby)
	var alone [][]*hosts.Host
	for _, m := range r.Machines {
		alone = append(alone, []*hosts.Host{m.Host})
	}
	must(t, r.Net.Partition(alone...))
	time.Sleep(8 * time.Second) // four times takeover-after; nothing must happen
	waitsOnStandby(r.cluster, standby)
	must(t, r.Net.Heal())
	r.cluster.Serving()
	w.More(20)
	if got := len(r.EC2.Intervals()); got != 3 {
		t.Errorf("got %d attachments, want 3", got)
	}
	r.onTheirVolumes(t)
	w.Verify()
}

// An operator takes the leader's volume away by force, and a standby claims it at once: the leader is gone within
// 2 s, and nothing that was acknowledged is lost.
func TestEBSForcedAwayAndTaken(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(50)
	n := r.cluster.Leader()
	standby := r.cluster.Place(r.Launch(n.Machine.Zone))
	standby.Start()
	waitsOnStandby(r.cluster, standby)
	s, err := n.Self()
	must(t, err)
	begin := time.Now()
	must(t, r.EC2.ForceDetach(s.Volume.ID))
	if code := n.Exit(5 * time.Second); code == 0 {
		t.Error("exit code 0, want a failure that a supervisor sees")
	}
	if took := time.Since(begin); took > 2500*time.Millisecond {
		t.Errorf("the process ended after %s, want 2 s", took)
	}
	n.Start() // a supervisor does
	r.cluster.Until(patience, "one of them serves the slot, and the other one stands by", func() error {
		a, b := serves(n), serves(standby)
		if (a == nil) != (b == nil) {
			return nil
		}
		return errors.Join(a, b)
	})
	r.cluster.Serving()
	w.More(50)
	r.oneEach(t)
	r.onTheirVolumes(t)
	w.Verify()
}

// A life with xfs: founded, killed, its device gone and back, grown.
func TestEBSXFS(t *testing.T) {
	r := masters(t)
	r.cluster.Set("volume.ebs.filesystem", "xfs")
	for _, id := range r.volumes {
		must(t, r.EC2.GrowVolume(id, 4)) // xfs needs 300 MiB
	}
	r.cluster.Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(50)
	n := r.cluster.Leader()
	n.Kill()
	n.Start()
	r.cluster.Serving()
	n = r.cluster.Leader()
	s, err := n.Self()
	must(t, err)
	must(t, r.EC2.Yank(s.Volume.ID))
	if code := n.Exit(5 * time.Second); code == 0 {
		t.Error("exit code 0, want a failure that a supervisor sees")
	}
	w.More(20)
	n.Start()
	waitsOnStandby(r.cluster, n, "attached to this instance, but its device is not here")
	must(t, r.EC2.ForceDetach(s.Volume.ID)) // AWS has repaired it
	r.cluster.Serving()
	before := n.Space()
	must(t, r.EC2.GrowVolume(s.Volume.ID, 12))
	n.Stop()
	n.Start()
	r.cluster.Serving()
	if after := n.Space(); after < before+before/4 {
		t.Errorf("the filesystem has %d bytes after it grew, %d before", after, before)
	}
	if v, _ := r.EC2.Volume(s.Volume.ID); !strings.HasPrefix(v.Tags["holdfast:format"], "xfs:") {
		t.Errorf("format %q", v.Tags["holdfast:format"])
	}
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// series returns the values of a node's metrics whose name begins with prefix, by name and labels.
func series(t *testing.T, n *integration.Node, prefix string) map[string]float64 {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + n.Address + ":2381/metrics")
	must(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	values := map[string]float64{}
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && strings.HasPrefix(name, prefix) {
			values[name], err = strconv.ParseFloat(value, 64)
			must(t, err)
		}
	}
	return values
}

// What is exported of claims and of requests, and how many requests an hour a holder and a standby make.
func TestEBSMetricsAndRequests(t *testing.T) {
	r := masters(t)
	r.cluster.Set("volume.ebs.scan-every", "15s") // the default
	r.cluster.Set("volume.ebs.takeover-after", "30s")
	r.cluster.Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	w.Stop()
	holder, standby := r.cluster.Nodes[0], r.cluster.Place(r.Launch(zones[0]))
	standby.Start()
	waitsOnStandby(r.cluster, standby)
	for n, want := range map[*integration.Node]string{holder: "held", standby: "standby"} {
		states := series(t, n, "holdfast_volume_claim_state")
		sum := 0.0
		for _, v := range states {
			sum += v
		}
		if states[fmt.Sprintf("holdfast_volume_claim_state{state=%q}", want)] != 1 || sum != 1 {
			t.Errorf("%s: got %v, want %s alone", n.Name, states, want)
		}
	}
	requests := series(t, holder, "holdfast_ec2_requests_total")
	for _, op := range []string{"DescribeVolumes", "AttachVolume", "DetachVolume", "CreateTags"} {
		got, want := requests[fmt.Sprintf(`holdfast_ec2_requests_total{code="ok",operation=%q}`, op)], r.EC2.Calls(op, holder.Machine.ID)
		if got != float64(want) {
			t.Errorf("%s: the series says %v requests, EC2 says %d: %v", op, got, want, requests)
		}
	}
	t.Logf("a claim has cost %d requests", r.EC2.Calls("", holder.Machine.ID)-r.EC2.Calls("IMDS", holder.Machine.ID))
	before := map[*integration.Node]int{holder: r.EC2.Calls("", holder.Machine.ID), standby: r.EC2.Calls("", standby.Machine.ID)}
	time.Sleep(time.Minute) // the rate is the point
	for n, most := range map[*integration.Node]int{holder: 2, standby: 6} {
		calls := r.EC2.Calls("", n.Machine.ID) - before[n]
		t.Logf("%s, %s: %d requests in a minute, %d an hour", n.Name, map[bool]string{true: "which holds a volume", false: "on standby"}[n == holder], calls, 60*calls)
		if calls > most {
			t.Errorf("%s: %d requests in a minute, want at most %d", n.Name, calls, most)
		}
	}
	if got := len(standby.Decisions()); got > 4 {
		t.Errorf("the standby has logged %d decisions: %v", got, standby.Decisions())
	}
	w.Verify()
}

// Two processes of one cluster, with different data directories, run on one machine: the second one says so and
// waits, also when the first one was killed and has left its volume mounted.
func TestEBSTwoProcessesOnOneMachine(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(20)
	first := r.cluster.Nodes[0]
	second := r.cluster.Place(first.Machine)
	listen := func(port int) string { return fmt.Sprintf("%s:%d", second.Address, port+500) }
	second.Keys["gossip.listen"], second.Keys["metrics.listen"] = listen(7946), listen(2381)
	second.Keys["etcd.listen-client-urls"] = []string{"http://" + listen(2379)}
	second.Keys["etcd.advertise-client-urls"] = []string{"http://" + listen(2379)}
	second.Start()
	waitsOnStandby(r.cluster, second, "another process")
	time.Sleep(3 * time.Second) // longer than takeover-after; nothing must happen
	waitsOnStandby(r.cluster, second, "another process")
	if out := second.Command("volume", "release"); out.Code == 0 {
		t.Errorf("release by the second process: %+v", out)
	}
	first.Kill() // its mount stays, and is not the second one's to take away
	waitsOnStandby(r.cluster, second, "is mounted at", "unmount it there")
	first.Start()
	r.cluster.Serving()
	if got := len(r.EC2.Intervals()); got != 3 {
		t.Errorf("got %d attachments, want 3", got)
	}
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// breakMkfs returns an environment in which mkfs.ext4 is cut off, together with the node, before the superblock is
// written.
func breakMkfs(t *testing.T) string {
	t.Helper()
	real, err := exec.LookPath("mkfs.ext4")
	must(t, err)
	dir := t.TempDir()
	script := "#!/bin/sh\nfor device; do :; done\n" + real + ` "$@" && dd if=/dev/zero of="$device" bs=1024 seek=1 count=1 conv=notrunc,fsync status=none
kill -9 $PPID
`
	must(t, os.WriteFile(filepath.Join(dir, "mkfs.ext4"), []byte(script), 0o700))
	return "PATH=" + dir + ":" + os.Getenv("PATH")
}

// The machine loses power while mkfs runs: it formats again, for its journal knows. Another machine refuses what it
// finds, until an operator wipes it.
func TestEBSFormatInterrupted(t *testing.T) {
	t.Run("same machine", func(t *testing.T) {
		r := masters(t)
		n := r.cluster.Nodes[0]
		n.Start(breakMkfs(t))
		if code := n.Exit(patience); code != -1 {
			t.Fatalf("exit code %d, want it killed", code)
		}
		must(t, n.Machine.Host.Reboot())
		r.cluster.Start()
		r.cluster.Serving()
		n.Logs("whose format was interrupted")
		w := r.cluster.Write()
		w.More(20)
		r.onTheirVolumes(t)
		w.Verify()
	})
	t.Run("another machine", func(t *testing.T) {
		r := masters(t)
		n := r.cluster.Nodes[0]
		n.Start(breakMkfs(t))
		if code := n.Exit(patience); code != -1 {
			t.Fatalf("exit code %d, want it killed", code)
		}
		n.Machine.Terminate()
		before := r.Checksum(r.volumes["a"])
		n = r.cluster.Place(r.Launch(zones[0]))
		for _, n := range r.cluster.Nodes[1:] {
			n.Start()
		}
		n.Says("volume of slot a", "data of an unknown kind", "wipe it (dd if=/dev/zero of=/dev/loop")
		s, err := n.Self()
		must(t, err)
		if after := r.Checksum(r.volumes["a"]); after != before {
			t.Error("the volume was written to")
		}
		if out := n.Command("volume", "adopt"); out.Code == 0 || !strings.Contains(out.Err, "wipe it") {
			t.Errorf("adopt: %+v", out)
		}
		_, device, _ := strings.Cut(s.Why, "of=")
		device, _, _ = strings.Cut(device, " ")
		if out, err := exec.Command("dd", "if=/dev/zero", "of="+device, "bs=1M").CombinedOutput(); !strings.Contains(string(out), "No space left") {
			t.Fatalf("dd: %v: %s", err, out)
		}
		n.Stop()
		n.Start()
		r.cluster.Serving()
		w := r.cluster.Write()
		w.More(20)
		r.onTheirVolumes(t)
		w.Verify()
	})
}

// The demo on hosts: it becomes healthy, an instance that is terminated as it says is replaced, and Ctrl-C leaves
// nothing.
func TestEBSDemoOnHosts(t *testing.T) {
	for _, args := range [][]string{nil, {"--events"}} {
		t.Run(strings.Join(append([]string{"demo --hosts"}, args...), " "), func(t *testing.T) {
			story(t)
			if os.Geteuid() != 0 {
				t.Skip("hosts in network namespaces, loop devices and mounts need root")
			}
			path, err := binary()
			must(t, err)
			tmp, err := os.MkdirTemp("", "hf-") // short, for the sockets
			must(t, err)
			cmd := exec.Command(path, append([]string{"demo", "--hosts"}, args...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
			out, in := io.Pipe()
			cmd.Stdout, cmd.Stderr = in, in
			must(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait(); in.Close() }() // ends with the process
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			lines := make(chan string, 10_000)
			go func() { // ends with the process
				defer close(lines)
				for s := bufio.NewScanner(out); s.Scan(); {
					lines <- s.Text()
				}
			}()
			wait := func(pattern string) []string {
				t.Helper()
				re, late := regexp.MustCompile(pattern), time.After(time.Minute)
				for {
					select {
					case l, ok := <-lines:
						if !ok {
							t.Fatalf("the demo ended before %q", pattern)
						}
						t.Log(l)
						if m := re.FindStringSubmatch(l); m != nil {
							return m
						}
					case <-late:
						t.Fatalf("no line like %q within a minute", pattern)
					}
				}
			}
			wait("cluster is healthy after")
			if len(args) > 0 {
				hint := wait(`curl -d '(.*)' (http\S*)   # the instance of (n\d)`)
				resp, err := http.Post(hint[2], "application/x-www-form-urlencoded", strings.NewReader(hint[1]))
				must(t, err)
				must(t, resp.Body.Close())
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("terminate: %s", resp.Status)
				}
				wait(hint[3] + " died")
				wait(hint[3] + ": no slot, (starting|claiming|standby)") // on another instance
				wait(hint[3] + ": slot [abc], (follower|leader)")
				wait("cluster main: HEALTHY")
			}
			must(t, cmd.Process.Signal(os.Interrupt))
			wait("stopped after")
			select {
			case err := <-ended:
				must(t, err)
			case <-time.After(patience):
				t.Fatal("the demo has not ended")
			}
			left, err := os.ReadDir(tmp)
			must(t, err)
			if len(left) > 0 {
				t.Errorf("left in %s: %v", tmp, left)
			}
			nothingLeft(t, tmp)
			must(t, os.RemoveAll(tmp))
		})
	}
}

// nothingLeft checks that no process, loop device or mount has to do with a directory.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"/proc/[0-9]*/cmdline", "/proc/[0-9]*/mounts", "/sys/block/loop*/loop/backing_file"} {
		paths, err := filepath.Glob(pattern)
		must(t, err)
		for _, path := range paths {
			if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), dir) {
				t.Errorf("%s: %.300q", path, text)
			}
		}
	}
}

// faults are those of the storm. Each is drawn for a few requests of one caller or of all.
var faults = []ec2test.Fault{
	{Action: "AttachVolume", Kind: ec2test.LoseResponse}, {Action: "AttachVolume", Kind: ec2test.LoseRequest},
	{Action: "AttachVolume", Kind: ec2test.Late, Delay: 3 * time.Second}, {Action: "AttachVolume", Kind: ec2test.Late, Delay: 18 * time.Second},
	{Action: "AttachVolume", Kind: ec2test.Slow, Delay: 6 * time.Second},
	{Action: "DetachVolume", Kind: ec2test.LoseResponse}, {Action: "DetachVolume", Kind: ec2test.Late, Delay: 6 * time.Second},
	{Action: "CreateTags", Kind: ec2test.LoseRequest}, {Action: "CreateTags", Kind: ec2test.Late, Delay: 5 * time.Second},
	{Action: "DescribeVolumes", Kind: ec2test.LoseResponse}, {Action: "DescribeVolumes", Kind: ec2test.Random, Changes: 10},
	{Action: "DescribeVolumes", Kind: ec2test.Stale, Age: 4 * time.Second},
	{Kind: ec2test.Throttle}, {Kind: ec2test.Fail, Code: "Unavailable"}, {Action: ec2test.IMDS, Kind: ec2test.Fail},
}

// From the founding on, EC2 answers wrongly at random, and nodes are killed, also in the middle of a claim, paused,
// rebooted and terminated, while two standbys wait for their volumes. When it is over every slot is served, and no
// acknowledged write is lost.
func TestEBSStorm(t *testing.T) {
	r := masters(t)
	from := cmp.Or(*seed, rand.Uint64())
	t.Logf("to see this storm again: -run TestEBSStorm -seed %d -blows %d", from, *blows)
	random := rand.New(rand.NewPCG(from, 0))
	for range 2 {
		r.cluster.Place(r.Launch(zones[random.IntN(3)]))
	}
	r.cluster.Start()
	first := r.cluster.Write()
	for range *blows {
		f := faults[random.IntN(len(faults))]
		f.Times = 1 + random.IntN(3)
		if random.IntN(2) == 0 {
			f.Caller = r.Machines[random.IntN(len(r.Machines))].ID
		}
		inject(t, r.Site, f)
		r.strike(t, random)
		time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond) // until the next blow
	}
	r.EC2.Clear()
	r.cluster.Until(3*time.Minute, "every slot is served after the storm", func() error { // a lost AttachVolume is waited for 2 min
		for _, n := range r.cluster.Nodes {
			if !n.Running() { // it may yet have to be killed at its step
				n.Start()
			}
		}
		return r.cluster.Served()
	})
	w := r.cluster.Write()
	w.More(20)
	r.oneEach(t)
	r.onTheirVolumes(t)
	t.Logf("%d writes were acknowledged in the storm", first.Acked())
	if first.Acked() > 0 { // else it was over before the founding
		first.Verify()
	}
	w.Verify()
}

// strike does one of the things that happen to machines and their processes, and starts what does not run.
func (r *region) strike(t *testing.T, random *rand.Rand) {
	t.Helper()
	steps := []string{"before-attach", "after-claim-tag", "after-attach", "device", "before-format", "after-format", "before-identity", "before-held-tag"}
	i := random.IntN(len(r.cluster.Nodes))
	n := r.cluster.Nodes[i]
	switch random.IntN(10) {
	case 0, 1:
		n.Kill()
	case 2, 3:
		must(t, n.Machine.Host.Reboot())
	case 4, 5:
		n.Pause()
		time.Sleep(3 * time.Second) // longer than takeover-after
		n.Continue()
	case 6:
		n.Machine.Terminate()
		r.cluster.Nodes = slices.Delete(r.cluster.Nodes, i, i+1)
		r.cluster.Place(r.Launch(n.Machine.Zone))
	}
	for _, n := range r.cluster.Nodes {
		if n.Running() {
			continue
		}
		if random.IntN(3) == 0 {
			n.Start("HOLDFAST_TEST_KILL_AT=" + steps[random.IntN(len(steps))])
		} else {
			n.Start()
		}
	}
}
