package integration_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/hosts"
	"holdfast/integration/tier"
	"holdfast/volume/volumetest/ec2test"
)

// A node is suspended in the middle of its claim for longer than takeover-after, while another one in its zone looks
// for a volume. If it has not asked for the attachment yet, it loses the volume and stands by; later it keeps it.
func TestEBSPausedInTheMiddleOfTheClaim(t *testing.T) {
	t.Parallel() // its parts are stories
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
		r.intact(t, r.written(20))
	})
	t.Run("attaching", func(t *testing.T) {
		r := masters(t)
		n := r.cluster.Nodes[0]
		inject(t, r.Site, ec2test.Fault{Action: "AttachVolume", Caller: n.Machine.ID, Kind: ec2test.Slow,
			Delay: 3 * time.Second})
		r.cluster.Start()
		claiming(r.cluster, n, "attaching")
		r.attachments(t, 3)
		n.Pause()
		other := r.standby(n.Machine.Zone, "attached to "+n.Machine.ID)
		time.Sleep(4 * time.Second) // twice takeover-after; nothing must happen
		waitsOnStandby(r.cluster, other)
		n.Continue()
		w := r.written(20)
		r.attached(t, 3)
		r.intact(t, w)
	})
}

// A holder is suspended for longer than takeover-after. No other node takes its volume, and it continues.
func TestEBSPausedHolder(t *testing.T) {
	r, w := serving(t, 20)
	n := r.cluster.Leader()
	standby := r.standby(n.Machine.Zone)
	n.Pause()
	w.More(10)
	time.Sleep(5 * time.Second) // more than twice takeover-after; nothing must happen
	waitsOnStandby(r.cluster, standby)
	n.Continue()
	r.cluster.Serving()
	w.More(20)
	r.attached(t, 3)
	r.intact(t, w)
}

// Every instance is terminated at another step of its first claim, and replaced. The new instances get no volume
// stuck.
func TestEBSTerminatedInTheMiddleOfTheClaim(t *testing.T) {
	t.Parallel() // its parts are stories
	for _, steps := range tier.Share(t, 3, [][3]string{
		{"after-claim-tag", "after-attach", "device"},
		{"before-format", "after-format", "after-mount"},
		{"before-identity", "after-identity", "before-held-tag"},
	}) {
		t.Run(strings.Join(steps[:], ","), func(t *testing.T) {
			r := masters(t)
			first := slices.Clone(r.cluster.Nodes)
			for i, n := range first {
				n.Start(killAt + steps[i])
			}
			for i, n := range first {
				killed(t, n, steps[i])
				n.Machine.Terminate()
				r.cluster.Place(r.Launch(zones[i])).Start()
			}
			r.intact(t, r.written(20))
		})
	}
}

// A machine restarts and adopts the volume that it has. Then all machines do at once.
func TestEBSReboot(t *testing.T) {
	r, w := serving(t, 20)
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
	r.attached(t, 3)
	sameMembers(t, r.cluster, before)
	r.intact(t, w)
}

// The machines do not reach each other, but reach EC2. No volume moves, not even to a standby that hears no node.
func TestEBSPartition(t *testing.T) {
	r, w := serving(t, 20)
	standby := r.standby(zones[0])
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
	r.attached(t, 3)
	r.intact(t, w)
}

// An operator detaches the leader's volume by force, and a standby claims it at once. The leader's process ends within
// 2 s, and no acknowledged write is lost.
func TestEBSForcedAwayAndTaken(t *testing.T) {
	r, w := serving(t, 50)
	n := r.cluster.Leader()
	standby := r.standby(n.Machine.Zone)
	s, err := n.Self()
	must(t, err)
	begin := time.Now()
	must(t, r.EC2.ForceDetach(s.Volume.ID))
	if code := n.Exit(5 * time.Second); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if took := time.Since(begin); took > 2500*time.Millisecond {
		t.Errorf("the process ended after %s, want 2 s", took)
	}
	if log := n.Log(); strings.Contains(strings.ToLower(log), "panic") || strings.Contains(log, "goroutine ") {
		t.Errorf("it panicked:\n%s", log)
	}
	n.Start()                                      // as a supervisor does
	n.Logs("the previous process ended by itself") // from a file that is not on the volume
	r.cluster.Until(patience, "one of them serves the slot, and the other one stands by", func() error {
		a, b := serves(n), serves(standby)
		if (a == nil) != (b == nil) {
			return nil
		}
		return errors.Join(a, b)
	})
	r.cluster.Serving()
	w.More(50)
	r.intact(t, w)
}

// A life with xfs: founded, killed, its device gone and back, grown.
func TestEBSXFS(t *testing.T) {
	r := masters(t)
	r.cluster.Set("volume.ebs.filesystem", "xfs")
	for _, id := range r.volumes {
		must(t, r.EC2.GrowVolume(id, 4)) // xfs needs 300 MiB
	}
	r.cluster.Start()
	w := r.written(50)
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
	must(t, r.EC2.ForceDetach(s.Volume.ID)) // as if AWS had repaired it
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
	r.intact(t, w)
}
