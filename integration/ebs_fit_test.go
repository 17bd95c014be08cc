package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/integration/tier"
	"holdfast/volume/volumetest/ec2test"
)

// An operator has attached all volumes of a zone to one instance before its node ever ran. The node uses one, releases
// the others without mounting them, and the other nodes of the zone take them.
func TestEBSSeveralVolumesOnOneInstance(t *testing.T) {
	t.Parallel() // its parts are stories
	for _, count := range tier.Share(t, 2, []int{2, 3}) {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			in := []string{zones[0], zones[0], zones[0]}
			if count == 2 {
				in[2] = zones[2]
			}
			r := masters(t, in...)
			for i, slot := range abc[:count] {
				r.Attach(r.volumes[slot], r.Machines[0], "/dev/sd"+string(rune('f'+i)))
			}
			r.cluster.Start()
			w := r.written(20)
			r.attached(t, 3+count-1)
			r.onTheirVolumes(t)
			w.Verify()
		})
	}
}

// A volume that is reserved for an instance goes to that instance, even if it starts last.
func TestEBSReservedForAnInstance(t *testing.T) {
	r := masters(t, zones[0], zones[0], zones[0])
	must(t, r.EC2.SetTag(r.volumes["a"], "holdfast:instance", r.Machines[2].ID))
	must(t, r.EC2.SetTag(r.volumes["b"], "holdfast:instance", r.Machines[1].ID))
	r.cluster.Nodes[0].Start()
	r.cluster.Nodes[1].Start()
	for i, slot := range []string{"c", "b"} {
		if n := r.cluster.Holder(slot); n != r.cluster.Nodes[i] {
			t.Errorf("slot %s: %s has it, want %s", slot, n.Name, r.cluster.Nodes[i].Name)
		}
	}
	if v, _ := r.EC2.Volume(r.volumes["a"]); v.State != "available" || v.Tags["holdfast:claim"] != "" {
		t.Errorf("somebody touched the volume of an instance that has not started: %+v", v)
	}
	r.cluster.Nodes[2].Start()
	r.intact(t, r.written(20))
}

// A node is in a zone where all volumes are for others. It touches none, and gives the reason for each.
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

// ofKops adds the volumes that kops makes, for its clusters main and events.
func (r region) ofKops(t *testing.T) region {
	t.Helper()
	for i, slot := range abc {
		for _, etcd := range []string{"main", "events"} {
			id, err := r.EC2.AddVolume(ec2test.Volume{Zone: zones[i], Size: 20, Encrypted: true, Tags: map[string]string{
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
	return r
}

// The volumes of kops are found by its tags, which also name the slots. An older kops made one of them.
func TestEBSVolumesOfKops(t *testing.T) {
	r := machines(site(t)).ofKops(t)
	must(t, r.EC2.DeleteTag(r.volumes["c"], "k8s.io/role/control-plane"))
	r.cluster.Set("volume.ebs.kubernetes-cluster", "k8s.example.com")
	r.cluster.Set("cluster.slots", []string{})
	r.cluster.Start()
	w := r.written(20)
	n := r.cluster.Holder("a")
	if out := n.Command("volume", "doctor"); !strings.Contains(out.Out, "[+] slots: a, b, c, by the volumes' tags") {
		t.Errorf("volume doctor: %+v", out)
	}
	r.intact(t, w)
}

// Two processes of one cluster, with different data directories, run on one machine. The second one says so and waits,
// even if the first one was killed and has left its volume mounted.
func TestEBSTwoProcessesOnOneMachine(t *testing.T) {
	r, w := serving(t, 20)
	first := r.cluster.Nodes[0]
	second := r.cluster.Place(first.Machine)
	listen := func(port int) string { return fmt.Sprintf("%s:%d", second.Address, port+500) }
	second.Keys["gossip.listen"], second.Keys["metrics.listen"] = listen(7946), listen(2390)
	second.Keys["etcd.listen-client-urls"] = []string{"http://" + listen(2379)}
	second.Keys["etcd.advertise-client-urls"] = []string{"http://" + listen(2379)}
	second.Start()
	waitsOnStandby(r.cluster, second, "another process")
	time.Sleep(3 * time.Second) // longer than takeover-after; nothing must happen
	waitsOnStandby(r.cluster, second, "another process")
	if out := second.Command("volume", "release"); out.Code == 0 {
		t.Errorf("release by the second process: %+v", out)
	}
	first.Kill() // the second node must not remove its mount
	waitsInState(r.cluster, second, "claiming", "is mounted at", "unmount it there")
	first.Start()
	r.cluster.Serving()
	w.More(20)
	r.attached(t, 3)
	r.intact(t, w)
}

// breakMkfs returns an environment in which mkfs.ext4 and the node are killed before the superblock is written.
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

// The machine loses power while mkfs runs. It formats again, because of its journal. Another machine refuses what it
// finds, until an operator wipes it.
func TestEBSFormatInterrupted(t *testing.T) {
	t.Parallel() // its parts are stories
	t.Run("same machine", func(t *testing.T) {
		r := masters(t)
		n := r.cluster.Nodes[0]
		n.Start(breakMkfs(t))
		killed(t, n, "mkfs")
		must(t, n.Machine.Host.Reboot())
		r.cluster.Start()
		r.cluster.Serving()
		n.Logs("whose format was interrupted")
		w := r.cluster.Write()
		w.More(20)
		r.intact(t, w)
	})
	t.Run("another machine", func(t *testing.T) {
		r := masters(t)
		n := r.cluster.Nodes[0]
		n.Start(breakMkfs(t))
		killed(t, n, "mkfs")
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
		refused(t, n, "wipe it", "volume", "set-aside", "--yes")
		_, device, _ := strings.Cut(s.Why, "of=")
		device, _, _ = strings.Cut(device, " ")
		if out, err := exec.Command("dd", "if=/dev/zero", "of="+device, "bs=1M").CombinedOutput(); !strings.Contains(string(out), "No space left") {
			t.Fatalf("dd: %v: %s", err, out)
		}
		n.Stop()
		n.Start()
		r.intact(t, r.written(20))
	})
}
