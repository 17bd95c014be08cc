package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/integration"
	"holdfast/volume"
	"holdfast/volume/volumetest/ec2test"
)

// A volume has grown. Its filesystem grows when the node starts again. A node without the capability for that serves on
// the smaller filesystem, and says what is missing.
func TestEBSGrownVolume(t *testing.T) {
	r, w := serving(t, 20)
	n := r.cluster.Holder("a")
	before := n.Space()
	must(t, r.EC2.GrowVolume(r.volumes["a"], 8))
	n.Stop()
	n.Binary = incapable(t)
	n.Start()
	r.cluster.Serving()
	if after := n.Space(); after != before {
		t.Errorf("without the capability the filesystem has %d bytes, want %d as before", after, before)
	}
	self, err := n.Self()
	must(t, err)
	if !slices.ContainsFunc(self.Found, lacksCapability) {
		t.Errorf("got the findings %v, want one that names the capability", self.Found)
	}
	if has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0); err == nil && has == 1 {
		n.Stop()
		n.Binary = ""
		n.Start()
		r.cluster.Serving()
		if after := n.Space(); after < before+before/4 {
			t.Errorf("the filesystem has %d bytes after it grew, %d before", after, before)
		}
		self, err = n.Self()
		must(t, err)
		if slices.ContainsFunc(self.Found, lacksCapability) {
			t.Errorf("after it grew: got the findings %v", self.Found)
		}
	}
	w.More(20)
	w.Verify()
}

// incapable returns a program that is holdfast without the capability to grow an ext4 filesystem.
func incapable(t *testing.T) (path string) {
	t.Helper()
	holdfast, err := binary()
	must(t, err)
	path = filepath.Join(t.TempDir(), "holdfast")
	script := "#!/bin/sh\nexec setpriv --bounding-set -sys_resource " + holdfast + " \"$@\"\n"
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

func lacksCapability(f health.Finding) bool {
	return f.Code == health.VolumeTrouble && strings.Contains(f.Text, "CAP_SYS_RESOURCE")
}

// Two clusters share the same machines, as with kops. One of them is killed and comes back.
func TestEBSTwoClustersOnTheSameMachines(t *testing.T) {
	main := masters(t)
	events := region{Site: main.Site, cluster: main.Cluster("events", abc, 1000, main.Machines...)}.blank()
	main.cluster.Start()
	events.cluster.Start()
	main.cluster.Serving()
	events.cluster.Serving()
	w, x := main.cluster.Write(), events.cluster.Write()
	w.More(20)
	x.More(20)
	if a, b := oneCluster(t, main.cluster), oneCluster(t, events.cluster); a == b {
		t.Errorf("both have the etcd cluster ID %s", a)
	}
	events.cluster.Kill()
	w.More(20)
	events.cluster.Start()
	events.cluster.Serving()
	x.More(20)
	main.onTheirVolumes(t)
	events.onTheirVolumes(t)
	w.Verify()
	x.Verify()
}

// An instance is stopped, and takeover: stopped allows a standby to take its volume. When the instance is
// started again, its node stands by.
func TestEBSStoppedInstance(t *testing.T) {
	r := machines(siteWith(t, true)).blank() // takeover: stopped needs the right to detach volumes from other instances
	r.cluster.Set("volume.ebs.takeover", "stopped")
	r.cluster.Set("volume.ebs.settle", "5s") // the shortest value that is allowed with it
	r.cluster.Start()
	w := r.written(20)
	stopped := r.cluster.Holder("c")
	standby := r.standby(stopped.Machine.Zone)
	stopped.Machine.Halt()
	r.cluster.Until(time.Minute, "the standby has taken the slot", func() error { return serves(standby) })
	stopped.Machine.Boot()
	stopped.Start()
	waitsOnStandby(r.cluster, stopped)
	w.More(20)
	r.intact(t, w)
}

// An operator releases a volume, and another node takes it.
func TestEBSReleasedVolumeIsTakenByAnother(t *testing.T) {
	r, w := serving(t, 20)
	n := r.cluster.Holder("a")
	standby := r.standby(n.Machine.Zone)
	out := n.Command("volume", "release")
	if out.Code != 0 || !strings.Contains(out.Out, r.volumes["a"]) {
		t.Fatalf("release: %+v", out)
	}
	n.Says("an operator has released the volume")
	r.cluster.Until(patience, "the standby has taken the slot", func() error { return serves(standby) })
	w.More(20)
	n.Stop()
	standby.Stop()
	if out := standby.Command("volume", "release"); out.Code != 0 || !strings.Contains(out.Out, r.volumes["a"]) {
		t.Errorf("release without a running node: %+v", out)
	}
	n.Start()
	r.cluster.Serving()
	r.intact(t, w)
}

// What an operator is shown about the volumes.
func TestEBSVolumeCommands(t *testing.T) {
	r := machines(site(t))
	c, n := r.cluster, r.cluster.Nodes[0]
	n.Configure()
	create := []string{"volume", "create", "--zones", strings.Join(zones, ","), "--size", "1"}
	out := n.Command(append(create, "--dry-run")...)
	if out.Code != 0 || !strings.Contains(out.Out, "would make 1 GiB of gp3 in eu-test-1b, encrypted") ||
		len(r.EC2.State().Volumes) != 0 {
		t.Fatalf("dry run: %+v", out)
	}
	for range 2 { // a repetition changes nothing
		if out = n.Command(append(create, "--kms-key", "alias/etcd")...); out.Code != 0 {
			t.Fatalf("create: %+v", out)
		}
	}
	if got := len(r.EC2.State().Volumes); got != 3 || !strings.Contains(out.Out, "already") {
		t.Errorf("got %d volumes, want 3: %+v", got, out)
	}
	for _, v := range r.EC2.State().Volumes {
		if !v.Encrypted || v.KMSKey != "alias/etcd" || v.Tags["holdfast:cluster"] != "main" || v.Tags["holdfast:member"] == "" {
			t.Errorf("made %+v", v)
		}
	}
	done(t, n, "volume", "doctor")
	inject(t, r.Site, ec2test.Fault{Action: "AttachVolume", Kind: ec2test.Deny})
	if out := n.Command("volume", "doctor"); out.Code != 1 || !strings.Contains(out.Out+out.Err, "AttachVolume") {
		t.Errorf("doctor without AttachVolume: %+v", out)
	}
	r.EC2.Clear()
	c.Start()
	c.Serving()
	out = n.Command("volume", "list", "-o", "json")
	var infos []volume.Info
	if err := json.Unmarshal([]byte(out.Out), &infos); err != nil || len(infos) != 3 {
		t.Fatalf("list: %v, %+v", err, out)
	}
	for _, i := range infos {
		if i.State != volume.StateHeld || i.Size != 1<<30 || !i.Encrypted || i.Holder == "" || i.Format != "ext4" {
			t.Errorf("listed %+v", i)
		}
		if mine := i.Holder == n.Name; mine != (i.Decision == volume.DecisionKeep) {
			t.Errorf("%s decides %s about %s of %s: %s", n.Name, i.Decision, i.Volume, i.Holder, i.Why)
		}
	}
	if out := n.Command("volume", "list"); !strings.Contains(out.Out, "eu-test-1b") || !strings.Contains(out.Out, "this node in "+n.Machine.Zone) {
		t.Errorf("list: %s", out.Out)
	}
}

// Without the permission to write tags, a cluster with seeds works, and says what it lacks.
func TestEBSWithoutPermissionForTags(t *testing.T) {
	r := masters(t)
	for _, action := range []string{"CreateTags", "DeleteTags"} {
		inject(t, r.Site, ec2test.Fault{Action: action, Kind: ec2test.Deny})
	}
	r.cluster.Set("gossip.seeds", r.cluster.Addresses())
	r.cluster.Start()
	r.cluster.Serving()
	s, err := r.cluster.Nodes[0].Self()
	if err != nil || !strings.Contains(strings.Join(health.Texts(s.Found), " "), "ec2:CreateTags") {
		t.Errorf("problems: got %q, %v, want the missing permission", health.Texts(s.Found), err)
	}
	w := r.cluster.Write()
	w.More(20)
	w.Verify()
}

// A volume of the region has the record of a cluster of which no disk is here. Blank disks found no second cluster
// beside it, until an operator says that it is gone. After the founding, the volumes have the record of the new
// cluster.
func TestEBSWitnessVetoesFounding(t *testing.T) {
	r := masters(t)
	old, err := r.EC2.AddVolume(ec2test.Volume{Zone: "eu-test-1d", Tags: map[string]string{"holdfast:cluster": "main", "holdfast:record": "main@1-0123456789abcdef"}})
	must(t, err)
	r.cluster.Start()
	for _, n := range r.cluster.Nodes {
		n.Says("not founding", old, "main@1-0123456789abcdef", "remove that tag")
	}
	must(t, r.EC2.DeleteTag(old, "holdfast:record"))
	r.cluster.Kill() // otherwise the next look at the tags comes within a minute
	r.cluster.Start()
	r.cluster.Serving()
	s, err := r.cluster.Nodes[0].Self()
	must(t, err)
	r.cluster.Until(patience, "every volume bears the record", func() error {
		for slot, id := range r.volumes {
			if v, _ := r.EC2.Volume(id); v.Tags["holdfast:record"] != s.Record.Token() {
				return fmt.Errorf("that of slot %s bears %q, want %q", slot, v.Tags["holdfast:record"], s.Record.Token())
			}
		}
		return nil
	})
	w := r.cluster.Write()
	w.More(10)
	w.Verify()
}

// A node has accepted a founding, and its member cannot start. The operator gives the cluster up: the volume's own tag
// does not keep the next one from being founded.
func TestEBSFoundNew(t *testing.T) {
	s := site(t)
	r := region{s, s.Cluster("main", []string{"a"}, 0, s.Launch(zones[0])), nil}
	id := r.Volumes("main", []string{"a"}, zones[0])["a"]
	n := r.cluster.Nodes[0]
	n.Start("HOLDFAST_TEST_KILL_AT=before-etcd")
	n.Exit(patience)
	r.cluster.Set("etcd.peer-url", "http://{slot}.other.internal:2380")
	n.Start()
	n.Says("other.internal")
	tag := func() string { v, _ := r.EC2.Volume(id); return v.Tags["holdfast:record"] }
	r.cluster.Until(patience, "the volume bears the record", func() error {
		if tag() == "" {
			return errors.New("it bears none")
		}
		return nil
	})
	old := tag()
	done(t, n, "found", "--new")
	r.cluster.Until(time.Minute, "the cluster serves", r.cluster.Served)
	r.cluster.Until(patience, "the volume bears the new record", func() error {
		if now := tag(); now == "" || now == old {
			return fmt.Errorf("it bears %q, and bore %q", now, old)
		}
		return nil
	})
}

// A master in a warm pool claims nothing, says so, and joins as soon as its auto-scaling group puts it into service.
func TestEBSWarmPool(t *testing.T) {
	r := masters(t)
	warm := r.cluster.Nodes[0]
	const state = "autoscaling/target-lifecycle-state"
	must(t, r.EC2.SetMetadata(warm.Machine.ID, state, "Warmed:Stopped"))
	r.cluster.Start()
	waitsOnStandby(r.cluster, warm, "warm pool (Warmed:Stopped)")
	if calls := r.EC2.Calls("AttachVolume", warm.Machine.ID); calls > 0 {
		t.Errorf("AttachVolume was called %d times in the warm pool", calls)
	}
	must(t, r.EC2.SetMetadata(warm.Machine.ID, state, "InService"))
	r.intact(t, r.written(20))
}

// A Spot instance gets an interruption notice: a standby has its slot before the instance ends. A rebalance
// recommendation is followed if that risks nothing.
func TestEBSSpotNotices(t *testing.T) {
	r, w := serving(t, 20)
	first := r.cluster.Holder("a")
	member := memberOf(t, first)
	second := r.standby(first.Machine.Zone)
	must(t, r.EC2.SetMetadata(first.Machine.ID, "events/recommendations/rebalance", `{"noticeTime":"2026-11-23T08:20:00Z"}`))
	r.cluster.Until(time.Minute, "the standby has taken the slot", func() error { return serves(second) })
	waitsOnStandby(r.cluster, first)
	w.More(20)
	if now := memberOf(t, second); now != member {
		t.Errorf("the member of slot a is %s, was %s: its data was not used", now, member)
	}

	must(t, r.EC2.SetMetadata(first.Machine.ID, "events/recommendations/rebalance", ""))
	must(t, r.EC2.SetMetadata(second.Machine.ID, "spot/instance-action", `{"action":"terminate","time":"2026-11-23T08:22:00Z"}`))
	r.cluster.Until(time.Minute, "the first has the slot again", func() error { return serves(first) })
	waitsOnStandby(r.cluster, second, "EC2 will terminate this Spot instance at 08:22:00 UTC")
	w.More(20)
	if now := memberOf(t, first); now != member {
		t.Errorf("the member of slot a is %s, was %s: its data was not used", now, member)
	}
	r.intact(t, w)
}

// memberOf returns the ID of the etcd member that runs on a node.
func memberOf(t *testing.T, n *integration.Node) plan.ID {
	t.Helper()
	s, err := n.Self()
	if err != nil || s.Etcd == nil {
		t.Fatalf("%s runs no member: %v", n.Name, err)
	}
	return s.Etcd.Member
}
