package integration_test

import (
	"fmt"
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
	must(t, err)
	return integration.NewSite(t, path, any)
}

// region is a site with a cluster, and the volumes of its slots.
type region struct {
	*integration.Site
	cluster *integration.Cluster
	volumes map[string]string
}

// machines makes a cluster of three machines without volumes, in these zones or in three.
func machines(s *integration.Site, in ...string) region {
	if in == nil {
		in = zones
	}
	return region{s, s.Cluster("main", abc, 0, s.Launch(in[0]), s.Launch(in[1]), s.Launch(in[2])), map[string]string{}}
}

// blank adds a blank volume for each slot, one in the zone of each machine.
func (r region) blank() region {
	r.volumes = r.Volumes(r.cluster.Name, abc, r.Machines[0].Zone, r.Machines[1].Zone, r.Machines[2].Zone)
	return r
}

// masters makes a cluster of three machines with blank volumes, in these zones or in three.
func masters(t *testing.T, in ...string) region {
	t.Helper()
	return machines(site(t), in...).blank()
}

// serving starts masters, and returns a writer with this many acknowledged writes.
func serving(t *testing.T, count int) (region, *integration.Writer) {
	t.Helper()
	r := masters(t)
	r.cluster.Start()
	return r, r.written(count)
}

// standby starts another node in a zone, and waits until it stands by for a reason that contains the texts.
func (r region) standby(zone string, texts ...string) *integration.Node {
	n := r.cluster.Place(r.Launch(zone))
	n.Start()
	waitsOnStandby(r.cluster, n, texts...)
	return n
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
	r, w := serving(t, 50)
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
	r, w := serving(t, 50)
	before := r.cluster.Members()
	gone := r.cluster.Holder("b")
	standby := r.standby(gone.Machine.Zone, r.volumes["b"])
	begin := time.Now()
	gone.Machine.Terminate()
	r.cluster.Until(patience, "the standby serves the slot", func() error { return serves(standby) })
	t.Logf("from the instance's end to the standby serving: %s", time.Since(begin).Round(time.Millisecond))
	r.cluster.Serving()
	w.More(20)
	sameMembers(t, r.cluster, before)
	r.intact(t, w)
}

// All instances are terminated at once and replaced by others, at other addresses.
func TestEBSAllInstancesReplacedAtOnce(t *testing.T) {
	r, w := serving(t, 50)
	before := r.cluster.Members()
	w.Stop()
	for _, n := range slices.Clone(r.cluster.Nodes) {
		n.Machine.Terminate()
	}
	for _, zone := range zones {
		r.cluster.Place(r.Launch(zone)).Start()
	}
	r.cluster.Serving()
	sameMembers(t, r.cluster, before)
	r.intact(t, w)
}

// Two masters and two volumes are in one zone. Each takes one, and they never steal.
func TestEBSTwoMastersInOneZone(t *testing.T) {
	r := masters(t, zones[0], zones[0], zones[1])
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
			victim.Start(killAt + step)
			killed(t, victim, step)
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
	r, w := serving(t, 50)
	n := r.cluster.Leader()
	s, err := n.Self()
	must(t, err)
	begin := time.Now()
	must(t, r.EC2.Yank(s.Volume.ID))
	if code := n.Exit(5 * time.Second); code == 0 {
		t.Error("exit code 0, want a failure that a supervisor sees")
	}
	took := time.Since(begin)
	t.Logf("from the device's end to the process's: %s", took.Round(time.Millisecond))
	if took > 2500*time.Millisecond {
		t.Errorf("the process ended after %s, want 2 s", took)
	}
	w.More(50)
	must(t, r.EC2.ForceDetach(s.Volume.ID)) // AWS has repaired it
	n.Start()
	r.cluster.Serving()
	w.More(20)
	r.intact(t, w)
}

// The device of the leader stalls for a while. No node takes the volume away, the others continue, and the member
// catches up.
func TestEBSDeviceStalls(t *testing.T) {
	r, w := serving(t, 50)
	n := r.cluster.Leader()
	s, err := n.Self()
	must(t, err)
	must(t, r.EC2.Freeze(s.Volume.ID))
	w.Gap()
	w.More(20) // slowly: the writers notice only by a timeout that one node does not answer
	t.Logf("longest time without a write: %s", w.Gap().Round(time.Millisecond))
	if !n.Running() {
		t.Error("the node has ended, although its device may come back")
	}
	must(t, r.EC2.Thaw(s.Volume.ID))
	r.cluster.Serving()
	w.More(20)
	w.Verify()
}

// EC2 cannot be reached. No node restarts, and clients notice nothing. A node that is restarted meanwhile uses the
// volume whose device it has, because the machine's metadata service still answers.
func TestEBSWithoutEC2(t *testing.T) {
	r, w := serving(t, 20)
	inject(t, r.Site, ec2test.Fault{Kind: ec2test.LoseRequest})
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
	must(t, n.Machine.Host.Reboot())
	if after := r.Checksum(r.volumes["a"]); after != before {
		t.Error("the volume was written to")
	}
	n.Start()
	n.Says("holdfast volume set-aside")
	done(t, n, "volume", "set-aside", "--yes")
	r.cluster.Serving()
	s, err := n.Self()
	must(t, err)
	aside := n.Machine.Host.Path(filepath.Join(s.Volume.Path, "aside"))
	if found, err := filepath.Glob(aside + "/*/precious"); err != nil || len(found) != 1 {
		t.Errorf("what was set aside: got %v, %v", found, err)
	}
	w := r.cluster.Write()
	w.More(10)
	w.Verify()
}
