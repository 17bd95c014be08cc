package ebs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// A volume that cannot be given up does not keep the others, unless there is no time left.
func TestDropContinues(t *testing.T) {
	for name, c := range map[string]struct {
		late bool // the time is up at the first volume
		want []string
	}{"in time": {want: []string{"vol-1"}}, "late": {late: true}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := pair{machine: &machine{}, asked: func() {
				if c.late {
					cancel()
				}
			}}
			p := New(Default(), Node{Name: "x", Cluster: "main"}, m, Host{Memory: m, Disks: m, Devices: m.devices},
				service{self: Self{Instance: "i-1", Zone: "z"}}, nil, zap.NewNop())
			dropped, err := p.Drop(ctx, false)
			if !slices.Equal(dropped, c.want) || !slices.Equal(m.detached, c.want) {
				t.Errorf("%s: dropped %v, detached %v, want %v", name, dropped, m.detached, c.want)
			}
			if err == nil || !strings.Contains(err.Error(), "vol-0") || !strings.Contains(err.Error(), "unmount it there") {
				t.Errorf("%s: got %v, want why vol-0 stays", name, err)
			}
		})
	}
}

// pair is a machine that also has vol-0, which another program has mounted.
type pair struct {
	*machine
	asked func() // called before the answer where vol-0 is mounted
}

func (p pair) devices() (map[string]string, error) {
	all, err := p.machine.devices()
	all["vol-0"] = "/dev/nvme2n1"
	return all, err
}

func (p pair) Volumes(ctx context.Context, q Query) ([]Volume, error) {
	all, err := p.machine.Volumes(ctx, q)
	zero := Volume{ID: "vol-0", Zone: "z", State: "in-use", Attachments: []Attachment{{Instance: "i-1", State: Attached}}}
	return append([]Volume{zero}, all...), err
}

func (p pair) Mounted(device string) ([]string, error) {
	if device == "/dev/nvme2n1" {
		p.asked()
		return []string{"/mnt/master-vol-0"}, nil
	}
	return p.machine.Mounted(device)
}

// What is wrong with a volume that is attached here is not told any more when it is gone.
func TestProblemsGoWithTheirVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{tags: map[string]string{TagMember: "a"}, refused: true}
		p := New(Default(), Node{Name: "x", Cluster: "main"}, m, Host{Memory: m, Disks: m, Devices: m.devices},
			service{self: Self{Instance: "i-1", Zone: "z"}}, nil, zap.NewNop())
		told := func(want string) {
			t.Helper()
			if got := strings.Join(p.Problems(), "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		claims := func(slots ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			if _, err := p.Claim(t.Context(), volume.Want{Cluster: "main", Slots: slots}); !errors.Is(err, volume.ErrNoneFree) {
				t.Fatalf("got %v, want none free", err)
			}
		}
		claims("b")
		told("vol-1 is attached to this instance and not used: slot a is not in cluster.slots")
		m.gone = true
		claims("b")
		told("")
		m.gone = false
		c := newClaim(p, "vol-2", volume.Identity{Slot: "b"})
		c.rules = p.rules(volume.Want{Slots: []string{"a", "b"}})
		c.review(t.Context())
		told("this instance has a second volume of the cluster, vol-1, which could not be detached")
		m.gone = true
		c.review(t.Context())
		told("")
	})
}

// A volume that EC2 has given up, or deletes, keeps no other volume of its slot waiting.
func TestDeadVolumesAreNoRivals(t *testing.T) {
	p := New(Default(), Node{Name: "x", Cluster: "main"}, nil, Host{}, service{}, nil, zap.NewNop())
	tags := map[string]string{TagMember: "a", TagFormat: "ext4:1"}
	for _, state := range []string{"error", "deleting", "deleted"} {
		v := Volume{ID: "vol-2", State: VolumeAvailable, Tags: tags}
		dead := Volume{ID: "vol-1", State: state, Tags: tags}
		j := p.judge(volume.Want{Cluster: "main", Slots: []string{"a"}}, []Volume{dead, v})
		if d := j.of(v); !d.take {
			t.Errorf("%s: got %q, want it taken", state, d.why)
		}
		if d := j.of(dead); d.take || d.why != "its state is "+state {
			t.Errorf("%s: got %q, want why it is not taken", state, d.why)
		}
	}
}

// What keeps a volume from being used for good says what an operator can do about it.
func TestWaitingForGoodSaysWhatToDo(t *testing.T) {
	self := service{self: Self{Instance: "i-1", Zone: "z", Region: "r"}}
	want := volume.Want{Cluster: "main", Slots: []string{"a"}}
	told := func(what, got string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s: got %q, want %q in it", what, got, text)
			}
		}
	}

	p := New(Default(), Node{Name: "x", Cluster: "main"}, nil, Host{}, self, nil, zap.NewNop())
	old := Volume{ID: "vol-1", Zone: "lost", State: VolumeAvailable,
		Tags: map[string]string{TagMember: "a", TagFormat: "ext4:1"}}
	blank := Volume{ID: "vol-2", Zone: "z", State: VolumeAvailable, Tags: map[string]string{TagMember: "a"}}
	if err := p.identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := p.judge(want, []Volume{old, blank}).of(blank)
	told("a blank volume in the place of one in a lost zone", d.why, "vol-1 in zone lost",
		"remove the tag "+TagMember+" from that one")

	c := newClaim(p, "vol-1", volume.Identity{Cluster: "main", Slot: "b", Volume: "vol-1"})
	found := volume.Identity{Cluster: "main", Slot: "a", Volume: "vol-1"}
	why := c.mistaken(found, c.Want.Mismatch(found))
	told("another slot's tag", why, `its tags say slot "b"`, `the data of slot "a"`, "correct them and restart this node")
	found.Volume = "vol-0"
	why = c.mistaken(found, c.Want.Mismatch(found))
	told("a copy", why, "that of another volume")
	if strings.Contains(why, "tags") {
		t.Errorf("a copy: got %q, but its tags are right", why)
	}
}

// A node whose volume has lost the cluster's tags says so, and asks EC2 no more often than twice between two scans.
func TestVolumeWithoutTheClustersTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{journal: Journal{Instance: "i-1", Held: &Holding{Volume: "vol-1", Slot: "a"}}}
		cloud := &unlisted{machine: m}
		p := New(Default(), Node{Name: "x", Cluster: "main"}, cloud, Host{Memory: m, Disks: m, Devices: m.devices},
			service{self: Self{Instance: "i-1", Zone: "z"}}, nil, zap.NewNop())
		const minutes = 10
		for range minutes * 60 {
			_, err := p.Claim(t.Context(), volume.Want{Cluster: "main", Slots: []string{"a"}})
			if !errors.Is(err, volume.ErrNoneFree) || !strings.Contains(err.Error(), "vol-1, which this machine has used") ||
				!strings.Contains(err.Error(), "does not have the tags holdfast:cluster=main") {
				t.Fatalf("got %v, want what is missing", err)
			}
			time.Sleep(time.Second)
		}
		if most := minutes * 2 * 6; cloud.asked > most {
			t.Errorf("asked EC2 %d times in %d minutes, want at most %d", cloud.asked, minutes, most)
		}
	})
}

// unlisted is a cloud that has vol-1 without the tags by which the cluster's volumes are found.
type unlisted struct {
	*machine
	asked int
}

func (u *unlisted) Volumes(ctx context.Context, q Query) ([]Volume, error) {
	u.asked++
	if len(q.IDs) == 0 {
		return nil, nil
	}
	return u.machine.Volumes(ctx, q)
}
