package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/volume"
	"holdfast/volume/volumetest/ec2test"
)

var (
	abc   = []string{"a", "b", "c"}
	zones = []string{"eu-test-1a", "eu-test-1b", "eu-test-1c"}
)

// site makes a region without machines; it needs root.
func site(t *testing.T) *integration.Site { return siteWith(t, false) }

func siteWith(t *testing.T, any bool) *integration.Site {
	t.Helper()
	story(t)
	if os.Geteuid() != 0 {
		t.Skip("hosts in network namespaces, loop devices and mounts need root")
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return integration.NewSite(t, path, any)
}

// region is a site with a cluster of three machines in three zones, each with a blank volume.
type region struct {
	*integration.Site
	cluster *integration.Cluster
	volumes map[string]string
}

func masters(t *testing.T) region {
	t.Helper()
	return inRegion(site(t))
}

func inRegion(s *integration.Site) region {
	ids := s.Volumes("main", abc, zones...)
	return region{s, s.Cluster("main", abc, 0, s.Launch(zones[0]), s.Launch(zones[1]), s.Launch(zones[2])), ids}
}

// serving starts them and waits until they serve.
func serving(t *testing.T) region {
	t.Helper()
	r := masters(t)
	r.cluster.Start()
	r.cluster.Serving()
	return r
}

// onTheirVolumes checks that each slot's member runs on the slot's volume, and that the epochs on each volume
// have risen with every claim.
func (r region) onTheirVolumes(t *testing.T) {
	t.Helper()
	for slot, id := range r.volumes {
		n := r.cluster.Holder(slot)
		s, err := n.Self()
		if err != nil || s.Volume == nil || s.Volume.ID != id {
			t.Errorf("slot %s: got %+v (%v) on %s, want volume %s", slot, s.Volume, err, n.Name, id)
			continue
		}
		last := uint64(0)
		for _, line := range n.Claims() {
			var claim struct{ Epoch uint64 }
			if err := json.Unmarshal([]byte(line), &claim); err != nil || claim.Epoch <= last {
				t.Errorf("slot %s: after epoch %d comes %s (%v)", slot, last, strings.TrimSpace(line), err)
			}
			last = claim.Epoch
		}
		if last == 0 {
			t.Errorf("slot %s: nobody is said to have claimed it", slot)
		}
	}
}

// serves is nil when the node serves a slot.
func serves(n *integration.Node) error {
	s, err := n.Self()
	if err == nil && s.State != "follower" && s.State != "leader" {
		err = fmt.Errorf("it is %s: %s", s.State, s.Why)
	}
	return err
}

// waitsOnStandby waits until the node stands by.
func waitsOnStandby(c *integration.Cluster, n *integration.Node, texts ...string) {
	c.Until(patience, n.Name+" stands by", func() error {
		s, err := n.Self()
		for _, text := range texts {
			if err == nil && !strings.Contains(s.Why, text) {
				err = fmt.Errorf("it does not name %s: %s", text, s.Why)
			}
		}
		if err == nil && s.State != "standby" {
			err = fmt.Errorf("it is %s: %s", s.State, s.Why)
		}
		return err
	})
}

// Three machines start with nothing, and no seeds: they find the volumes and, by their tags, each other.
func TestEBSFoundsFromBlankVolumesWithoutSeeds(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(50)
	r.cluster.Healthy()
	oneCluster(t, r.cluster)
	r.onTheirVolumes(t)
	for slot, id := range r.volumes {
		v, _ := r.EC2.Volume(id)
		if claim := v.Tags["holdfast:claim"]; !strings.HasPrefix(claim, "v1/") || !strings.Contains(claim, "/held/") {
			t.Errorf("slot %s: claim %q", slot, claim)
		}
		if format := v.Tags["holdfast:format"]; !strings.HasPrefix(format, "ext4:") {
			t.Errorf("slot %s: format %q", slot, format)
		}
	}
	w.Verify()
}

// An instance is terminated. A standby in its zone takes the volume, at another address, with its data, and the
// member list stays as it is.
func TestEBSStandbyTakesTheVolumeOfATerminatedInstance(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(50)
	before := r.cluster.Members()
	gone := r.cluster.Holder("b")
	standby := r.cluster.Place(r.Launch(gone.Machine.Zone))
	standby.Start()
	waitsOnStandby(r.cluster, standby, r.volumes["b"])
	begin := time.Now()
	gone.Machine.Terminate()
	r.cluster.Until(patience, "the standby serves the slot", func() error { return serves(standby) })
	t.Logf("from the instance's end to the standby serving: %s", time.Since(begin).Round(time.Millisecond))
	r.cluster.Serving()
	w.More(20)
	if after := r.cluster.Members(); !maps.Equal(after, before) {
		t.Errorf("members: got %v, want %v", after, before)
	}
	r.onTheirVolumes(t)
	w.Verify()
}

// All instances are terminated at once and replaced by others, at other addresses.
func TestEBSAllInstancesReplacedAtOnce(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(50)
	before := r.cluster.Members()
	w.Stop()
	for _, n := range slices.Clone(r.cluster.Nodes) {
		n.Machine.Terminate()
	}
	for _, zone := range zones {
		r.cluster.Place(r.Launch(zone)).Start()
	}
	r.cluster.Serving()
	if after := r.cluster.Members(); !maps.Equal(after, before) {
		t.Errorf("members: got %v, want %v", after, before)
	}
	r.onTheirVolumes(t)
	w.Verify()
}

// Two masters and two volumes are in one zone: each takes one, and they never steal.
func TestEBSTwoMastersInOneZone(t *testing.T) {
	s := site(t)
	ids := s.Volumes("main", abc, zones[0], zones[0], zones[1])
	r := region{s, s.Cluster("main", abc, 0, s.Launch(zones[0]), s.Launch(zones[0]), s.Launch(zones[1])), ids}
	r.cluster.Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	for range 3 {
		n := r.cluster.Holder("a")
		n.Kill()
		n.Start()
		r.cluster.Serving()
	}
	if got := len(s.EC2.Intervals()); got != 3 {
		t.Errorf("got %d attachments, want 3: nobody ever gives a volume up", got)
	}
	r.onTheirVolumes(t)
	w.Verify()
}

// A node is killed before each step of its claim, and started again: the cluster founds itself all the same,
// nothing is formatted twice, and nobody comes to a second volume.
func TestEBSKilledAtEachStepOfTheClaim(t *testing.T) {
	for _, step := range []string{
		"before-claim-tag", "after-claim-tag", "before-attach", "after-attach", "device", "before-format", "after-format",
		"before-mount", "after-mount", "before-identity", "after-identity", "before-held-tag", "held",
	} {
		t.Run(step, func(t *testing.T) {
			r := masters(t)
			victim := r.cluster.Nodes[0]
			victim.Start("HOLDFAST_TEST_KILL_AT=" + step)
			if code := victim.Exit(time.Minute); code != -1 {
				t.Fatalf("exit code %d, want it killed", code)
			}
			r.cluster.Start()
			r.cluster.Serving()
			w := r.cluster.Write()
			w.More(10)
			if got := len(r.EC2.Intervals()); got != 3 {
				t.Errorf("got %d attachments, want 3", got)
			}
			r.onTheirVolumes(t)
			w.Verify()
		})
	}
}

// The device vanishes under a serving leader: its process is gone within 2 s, nothing acknowledged is lost, and
// it comes back when the volume does.
func TestEBSDeviceYankedUnderLoad(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(50)
	n := r.cluster.Leader()
	s, err := n.Self()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := r.EC2.Yank(s.Volume.ID); err != nil {
		t.Fatal(err)
	}
	if code := n.Exit(5 * time.Second); code == 0 {
		t.Error("exit code 0, want a failure that a supervisor sees")
	}
	took := time.Since(begin)
	t.Logf("from the device's end to the process's: %s", took.Round(time.Millisecond))
	if took > 2500*time.Millisecond {
		t.Errorf("the process ended after %s, want 2 s", took)
	}
	w.More(50)
	if err := r.EC2.ForceDetach(s.Volume.ID); err != nil { // AWS has repaired it
		t.Fatal(err)
	}
	n.Start()
	r.cluster.Serving()
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// The device of the leader stalls for a while: nobody takes the volume away, the others go on, and the member
// catches up.
func TestEBSDeviceStalls(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(50)
	n := r.cluster.Leader()
	s, err := n.Self()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.EC2.Freeze(s.Volume.ID); err != nil {
		t.Fatal(err)
	}
	w.Gap()
	w.More(20) // slowly: the writers find out only by a timeout that one of the nodes does not answer
	t.Logf("longest time without a write: %s", w.Gap().Round(time.Millisecond))
	if !n.Running() {
		t.Error("the node has ended, although its device may come back")
	}
	if err := r.EC2.Thaw(s.Volume.ID); err != nil {
		t.Fatal(err)
	}
	r.cluster.Serving()
	w.More(20)
	w.Verify()
}

// EC2 cannot be reached: nothing is restarted, and nobody notices. A node that is restarted meanwhile takes up
// the volume whose device it has; the metadata service is part of the machine and answers.
func TestEBSWithoutEC2(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(20)
	if err := r.EC2.Inject(ec2test.Fault{Kind: ec2test.LoseRequest}); err != nil {
		t.Fatal(err)
	}
	w.More(300)
	for _, n := range r.cluster.Nodes {
		if !n.Running() {
			t.Fatalf("%s ended", n.Name)
		}
	}
	n := r.cluster.Leader()
	n.Kill()
	n.Start()
	r.cluster.Serving()
	w.More(20)
	r.EC2.Clear()
	r.cluster.Until(2*time.Minute, "the claim is written once EC2 answers", func() error {
		s, err := n.Self()
		if err != nil {
			return err
		}
		v, _ := r.EC2.Volume(s.Volume.ID)
		if !strings.HasPrefix(v.Tags["holdfast:claim"], fmt.Sprintf("v1/%d/", s.Volume.Epoch)) {
			return fmt.Errorf("the tag says %s, the epoch is %d", v.Tags["holdfast:claim"], s.Volume.Epoch)
		}
		return nil
	})
	w.Verify()
}

// A volume holds somebody else's filesystem: it is not touched until an operator has it set aside.
func TestEBSForeignData(t *testing.T) {
	r := masters(t)
	r.Populate(r.volumes["a"], "precious", "data of somebody")
	before := r.Checksum(r.volumes["a"])
	r.cluster.Start()
	n := r.cluster.Nodes[0]
	n.Says("volume of slot a", "no identity", "holdfast volume adopt")
	n.Kill()
	if err := n.Machine.Host.Reboot(); err != nil {
		t.Fatal(err)
	}
	if after := r.Checksum(r.volumes["a"]); after != before {
		t.Error("the volume was written to")
	}
	n.Start()
	n.Says("holdfast volume adopt")
	if out := n.Command("volume", "adopt"); out.Code != 0 {
		t.Fatalf("adopt: %+v", out)
	}
	r.cluster.Serving()
	s, err := n.Self()
	if err != nil {
		t.Fatal(err)
	}
	aside := n.Machine.Host.Path(filepath.Join(s.Volume.Path, "aside"))
	if found, err := filepath.Glob(aside + "/*/precious"); err != nil || len(found) != 1 {
		t.Errorf("what was set aside: got %v, %v", found, err)
	}
	w := r.cluster.Write()
	w.More(10)
	w.Verify()
}

// A volume has grown: so does its filesystem, when the node starts again.
func TestEBSGrownVolume(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(20)
	n := r.cluster.Holder("a")
	before := n.Space()
	if err := r.EC2.GrowVolume(r.volumes["a"], 8); err != nil {
		t.Fatal(err)
	}
	n.Stop()
	n.Start()
	r.cluster.Serving()
	if after := n.Space(); after < before+before/4 {
		t.Errorf("the filesystem has %d bytes after it grew, %d before", after, before)
	}
	w.More(20)
	w.Verify()
}

// Two clusters share the same machines, as kops has it; one of them is killed and comes back.
func TestEBSTwoClustersOnTheSameMachines(t *testing.T) {
	s := site(t)
	machines := []*integration.Machine{s.Launch(zones[0]), s.Launch(zones[1]), s.Launch(zones[2])}
	main := region{s, s.Cluster("main", abc, 0, machines...), s.Volumes("main", abc, zones...)}
	events := region{s, s.Cluster("events", abc, 1000, machines...), s.Volumes("events", abc, zones...)}
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
	r := inRegion(siteWith(t, true)) // this takes the right to detach from other instances
	r.cluster.Set("volume.ebs.takeover", "stopped")
	r.cluster.Set("volume.ebs.settle", "5s") // the shortest that is allowed then
	r.cluster.Start()
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(20)
	stopped := r.cluster.Holder("c")
	standby := r.cluster.Place(r.Launch(stopped.Machine.Zone))
	standby.Start()
	waitsOnStandby(r.cluster, standby)
	stopped.Machine.Halt()
	r.cluster.Until(time.Minute, "the standby has taken the slot", func() error { return serves(standby) })
	stopped.Machine.Boot()
	stopped.Start()
	waitsOnStandby(r.cluster, stopped)
	w.More(20)
	r.onTheirVolumes(t)
	w.Verify()
}

// An operator releases a volume, and another node takes it.
func TestEBSReleasedVolumeIsTakenByAnother(t *testing.T) {
	r := serving(t)
	w := r.cluster.Write()
	w.More(20)
	n := r.cluster.Holder("a")
	standby := r.cluster.Place(r.Launch(n.Machine.Zone))
	standby.Start()
	waitsOnStandby(r.cluster, standby)
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
	r.onTheirVolumes(t)
	w.Verify()
}

// What an operator is shown of the volumes.
func TestEBSVolumeCommands(t *testing.T) {
	s := site(t)
	c := s.Cluster("main", abc, 0, s.Launch(zones[0]), s.Launch(zones[1]), s.Launch(zones[2]))
	n := c.Nodes[0]
	n.Configure()
	create := []string{"volume", "create", "--zones", strings.Join(zones, ","), "--size", "1"}
	out := n.Command(append(create, "--dry-run")...)
	if out.Code != 0 || !strings.Contains(out.Out, "would make 1 GiB of gp3 in eu-test-1b, encrypted") || len(s.EC2.State().Volumes) != 0 {
		t.Fatalf("dry run: %+v", out)
	}
	for range 2 { // again changes nothing
		if out = n.Command(append(create, "--kms-key", "alias/etcd")...); out.Code != 0 {
			t.Fatalf("create: %+v", out)
		}
	}
	if got := len(s.EC2.State().Volumes); got != 3 || !strings.Contains(out.Out, "already") {
		t.Errorf("got %d volumes, want 3: %+v", got, out)
	}
	for _, v := range s.EC2.State().Volumes {
		if !v.Encrypted || v.KMSKey != "alias/etcd" || v.Tags["holdfast:cluster"] != "main" || v.Tags["holdfast:member"] == "" {
			t.Errorf("made %+v", v)
		}
	}
	if out := n.Command("volume", "doctor"); out.Code != 0 {
		t.Errorf("doctor: %+v", out)
	}
	if err := s.EC2.Inject(ec2test.Fault{Action: "AttachVolume", Kind: ec2test.Deny}); err != nil {
		t.Fatal(err)
	}
	if out := n.Command("volume", "doctor"); out.Code != 1 || !strings.Contains(out.Out+out.Err, "AttachVolume") {
		t.Errorf("doctor without AttachVolume: %+v", out)
	}
	s.EC2.Clear()
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

// Without the permission to write tags a cluster with seeds works, and says what it misses.
func TestEBSWithoutPermissionForTags(t *testing.T) {
	r := masters(t)
	for _, action := range []string{"CreateTags", "DeleteTags"} {
		if err := r.EC2.Inject(ec2test.Fault{Action: action, Kind: ec2test.Deny}); err != nil {
			t.Fatal(err)
		}
	}
	var seeds []string
	for _, n := range r.cluster.Nodes {
		seeds = append(seeds, n.Address)
	}
	r.cluster.Set("gossip.seeds", seeds)
	r.cluster.Start()
	r.cluster.Serving()
	s, err := r.cluster.Nodes[0].Self()
	if err != nil || !strings.Contains(strings.Join(s.Problems, " "), "ec2:CreateTags") {
		t.Errorf("problems: got %q, %v, want the missing permission", s.Problems, err)
	}
	w := r.cluster.Write()
	w.More(20)
	w.Verify()
}

// A volume of the region bears the record of a cluster of which no disk is here: blank disks found no second one
// beside it, until an operator says that it is gone. Once founded, the volumes bear the record of theirs.
func TestEBSWitnessVetoesFounding(t *testing.T) {
	r := masters(t)
	old, err := r.EC2.AddVolume(ec2test.Volume{Zone: "eu-test-1d", Tags: map[string]string{"holdfast:cluster": "main", "holdfast:record": "main@1-0123456789abcdef"}})
	if err != nil {
		t.Fatal(err)
	}
	r.cluster.Start()
	for _, n := range r.cluster.Nodes {
		n.Says("not founding", old, "main@1-0123456789abcdef", "remove that tag")
	}
	if err := r.EC2.DeleteTag(old, "holdfast:record"); err != nil {
		t.Fatal(err)
	}
	r.cluster.Kill() // else the next look at the tags comes within a minute
	r.cluster.Start()
	r.cluster.Serving()
	s, err := r.cluster.Nodes[0].Self()
	if err != nil {
		t.Fatal(err)
	}
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
