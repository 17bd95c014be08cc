package integration_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
	"holdfast/integration/tier"
	"holdfast/volume/volumetest/ec2test"
)

var (
	abc   = []string{"a", "b", "c"}
	zones = []string{"eu-test-1a", "eu-test-1b", "eu-test-1c"}
)

// site makes a region without machines. It needs root.
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

// region makes a site with a cluster of three machines in three zones, each with a blank volume.
type region struct {
	*integration.Site
	cluster *integration.Cluster
	volumes map[string]string
}

func masters(t *testing.T) region {
	t.Helper()
	return inZones(site(t), zones...)
}

// inZones makes a region's machines and volumes in these zones, one of each for a slot.
func inZones(s *integration.Site, zones ...string) region {
	ids := s.Volumes("main", abc, zones...)
	return region{s, s.Cluster("main", abc, 0, s.Launch(zones[0]), s.Launch(zones[1]), s.Launch(zones[2])), ids}
}

// serving starts the nodes and waits until they serve.
func serving(t *testing.T) region {
	t.Helper()
	r := masters(t)
	r.cluster.Start()
	r.cluster.Serving()
	return r
}

// written waits until the cluster serves, and returns a writer with this many acknowledged writes.
func (r region) written(count int) *integration.Writer {
	r.cluster.Serving()
	w := r.cluster.Write()
	w.More(count)
	return w
}

// attached checks the total number of attachments.
func (r region) attached(t *testing.T, want int) {
	t.Helper()
	if got := len(r.EC2.Intervals()); got != want {
		t.Errorf("got %d attachments, want %d", got, want)
	}
}

// intact checks that no instance ever had two volumes, that each slot is on its volume, and that no acknowledged write
// is lost.
func (r region) intact(t *testing.T, w *integration.Writer) {
	t.Helper()
	r.oneEach(t)
	r.onTheirVolumes(t)
	w.Verify()
}

// onTheirVolumes checks that each slot's member runs on the slot's volume, and that the epochs of the claims never
// fall.
func (r region) onTheirVolumes(t *testing.T) {
	t.Helper()
	for slot, id := range r.volumes {
		n := r.cluster.Holder(slot)
		s, err := n.Self()
		if err != nil || s.Volume == nil || s.Volume.ID != id {
			t.Errorf("slot %s: got %+v (%v) on %s, want volume %s", slot, s.Volume, err, n.Name, id)
			continue
		}
		if !r.Risen(id, s.Volume.Epoch) {
			t.Errorf("slot %s: its claim has epoch %d, which is none or lower than one before", slot, s.Volume.Epoch)
		}
	}
}

// serves returns nil if the node serves a slot.
func serves(n *integration.Node) error {
	s, err := n.Self()
	if err == nil && s.State != "follower" && s.State != "leader" {
		err = fmt.Errorf("it is %s: %s", s.State, s.Why)
	}
	return err
}

// waitsOnStandby waits until the node is a standby whose reason contains the texts.
func waitsOnStandby(c *integration.Cluster, n *integration.Node, texts ...string) {
	waitsInState(c, n, "standby", texts...)
}

// waitsInState waits until the node is in a state with a reason that contains the texts.
func waitsInState(c *integration.Cluster, n *integration.Node, state string, texts ...string) {
	c.Until(patience, n.Name+" is in state "+state, func() error {
		s, err := n.Self()
		for _, text := range texts {
			if err == nil && !strings.Contains(s.Why, text) {
				err = fmt.Errorf("it does not name %s: %s", text, s.Why)
			}
		}
		if err == nil && s.State != state {
			err = fmt.Errorf("it is %s: %s", s.State, s.Why)
		}
		return err
	})
}

// Three machines start with nothing, and no seeds. They find the volumes and, by their tags, each other.
func TestEBSFoundsFromBlankVolumesWithoutSeeds(t *testing.T) {
	r := serving(t)
	w := r.written(50)
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

// An instance is terminated. A standby in its zone takes the volume with its data, at another address, and the member
// list stays as it is.
func TestEBSStandbyTakesTheVolumeOfATerminatedInstance(t *testing.T) {
	r := serving(t)
	w := r.written(50)
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
	r.intact(t, w)
}

// All instances are terminated at once and replaced by others, at other addresses.
func TestEBSAllInstancesReplacedAtOnce(t *testing.T) {
	r := serving(t)
	w := r.written(50)
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
	r.intact(t, w)
}

// Two masters and two volumes are in one zone. Each takes one, and they never steal.
func TestEBSTwoMastersInOneZone(t *testing.T) {
	s := site(t)
	r := inZones(s, zones[0], zones[0], zones[1])
	r.cluster.Start()
	w := r.written(20)
	for range 3 {
		n := r.cluster.Holder("a")
		n.Kill()
		n.Start()
		r.cluster.Serving()
	}
	r.attached(t, 3)
	r.intact(t, w)
}

// A node is killed before each step of its claim, and started again. The cluster is founded all the same, nothing is
// formatted twice, and no node gets a second volume.
func TestEBSKilledAtEachStepOfTheClaim(t *testing.T) {
	t.Parallel() // its parts are stories
	steps := []string{
		"before-claim-tag", "after-claim-tag", "before-attach", "after-attach", "device", "before-format", "after-format",
		"before-mount", "after-mount", "before-identity", "after-identity", "before-held-tag", "held",
	}
	for _, step := range tier.Share(t, 4, steps) {
		t.Run(step, func(t *testing.T) {
			r := masters(t)
			victim := r.cluster.Nodes[0]
			victim.Start("HOLDFAST_TEST_KILL_AT=" + step)
			if code := victim.Exit(time.Minute); code != -1 {
				t.Fatalf("exit code %d, want it killed", code)
			}
			r.cluster.Start()
			w := r.written(10)
			r.attached(t, 3)
			r.intact(t, w)
		})
	}
}

// The device of a serving leader vanishes. Its process ends within 2 s, no acknowledged write is lost, and it comes
// back when the volume does.
func TestEBSDeviceYankedUnderLoad(t *testing.T) {
	r := serving(t)
	w := r.written(50)
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
	r.intact(t, w)
}

// The device of the leader stalls for a while. No node takes the volume away, the others continue, and the member
// catches up.
func TestEBSDeviceStalls(t *testing.T) {
	r := serving(t)
	w := r.written(50)
	n := r.cluster.Leader()
	s, err := n.Self()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.EC2.Freeze(s.Volume.ID); err != nil {
		t.Fatal(err)
	}
	w.Gap()
	w.More(20) // slowly: the writers notice only by a timeout that one node does not answer
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

// EC2 cannot be reached. No node restarts, and clients notice nothing. A node that is restarted meanwhile uses the
// volume whose device it has, because the machine's metadata service still answers.
func TestEBSWithoutEC2(t *testing.T) {
	r := serving(t)
	w := r.written(20)
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

// A volume has a foreign filesystem. It is not touched until an operator has it set aside.
func TestEBSForeignData(t *testing.T) {
	r := masters(t)
	r.Populate(r.volumes["a"], "precious", "data of somebody")
	before := r.Checksum(r.volumes["a"])
	r.cluster.Start()
	n := r.cluster.Nodes[0]
	n.Says("volume of slot a", "no identity", "holdfast volume set-aside")
	n.Kill()
	if err := n.Machine.Host.Reboot(); err != nil {
		t.Fatal(err)
	}
	if after := r.Checksum(r.volumes["a"]); after != before {
		t.Error("the volume was written to")
	}
	n.Start()
	n.Says("holdfast volume set-aside")
	if out := n.Command("volume", "set-aside", "--yes"); out.Code != 0 {
		t.Fatalf("set aside: %+v", out)
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
