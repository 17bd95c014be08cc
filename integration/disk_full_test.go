package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/integration"
	"holdfast/volume/device/devicetest"
)

// room returns the free space of the file system at dir.
func room(t *testing.T, dir string) plan.Room {
	t.Helper()
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	return plan.Room{Free: int64(st.Bavail) * st.Bsize, Size: int64(st.Blocks) * st.Bsize}
}

// occupy fills the file system at dir with a new file until so much is left.
func occupy(t *testing.T, dir, name string, left int64) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	if take := room(t, dir).Free - left; take > 0 {
		must(t, unix.Fallocate(int(f.Fd()), 0, 0, take))
	}
	return path
}

// onSmallDisk founds a cluster whose second node has its volume on a disk of so many bytes, mounted at mount.
func onSmallDisk(t *testing.T, size int64) (c *integration.Cluster, small *integration.Node, mount string) {
	t.Helper()
	mount = devicetest.New(t, size).Mount(t)
	c = cluster(t, integration.Options{})
	small = c.Nodes[1]
	small.Root = filepath.Join(mount, "volumes")
	t.Cleanup(c.Kill)
	c.Start()
	c.Serving()
	return c, small, mount
}

// reserveUsed checks that every node says that the reserve of the node with the small disk is used up: in the status,
// to the doctor and in the metrics.
func reserveUsed(t *testing.T, c *integration.Cluster, small *integration.Node, r plan.Room) {
	t.Helper()
	small.Says("alarm NOSPACE", fmt.Sprintf("slot b on %s (less than %d MiB of %d MiB free)", small.Name, r.Enough()>>20, r.Size>>20), "make it larger")
	for _, n := range c.Nodes {
		n.Says("alarm NOSPACE", "the volume of slot b on "+small.Name, "is disarmed when there is room again")
	}
	c.Until(patience, "the doctor of another node says so", func() error {
		var d diagnosis
		out := c.Nodes[0].Command("doctor", "-o", "json")
		if err := json.Unmarshal([]byte(out.Out), &d); err != nil {
			return fmt.Errorf("%w: %s", err, out.Err)
		}
		if !d.has("disk-reserve-used", "critical", "on the volume of "+small.Name) || !d.has("alarm-nospace", "critical", "") {
			return fmt.Errorf("it finds %q", health.Texts(d.Findings))
		}
		return nil
	})
	const reserve, free = `holdfast_disk_reserve_bytes{use="volume"}`, `holdfast_disk_free_bytes{use="volume"}`
	disks := series(t, small, "holdfast_disk_")
	if got, want := disks[reserve], float64(r.Reserve()); got != want || disks[free] >= float64(r.Enough()) {
		t.Errorf("%s is %v, want %v; %s is %v", reserve, got, want, free, disks[free])
	}
	const finding = `holdfast_finding{code="disk-reserve-used",severity="critical"}`
	for _, n := range c.Nodes {
		want := 0.0
		if n == small {
			want = 1
		}
		if got := series(t, n, "holdfast_finding")[finding]; got != want {
			t.Errorf("%s of %s: got %v, want %v", finding, n.Name, got, want)
		}
	}
	views(t, c, health.Degraded)
}

// Another program fills the disk of one member. The cluster refuses writes before etcd dies of it, says which disk is
// full, and answers reads even when the last byte is taken. It accepts writes again by itself when there is room.
func TestDiskFull(t *testing.T) {
	story(t)
	c, small, mount := onSmallDisk(t, 600<<20)
	w, client := c.Write(), connect(t, c)
	w.More(50)

	most := occupy(t, mount, "most", 30<<20)
	reserveUsed(t, c, small, room(t, mount))
	rest := occupy(t, mount, "rest", 0)
	acked := w.Acked()
	for range 250 { // more than there is in the log, see refuses
		if _, err := client.Put(t.Context(), "large", strings.Repeat("x", 1<<20)); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("a write is answered with %v, want %v", err, rpctypes.ErrNoSpace)
		}
	}
	if !small.Running() {
		t.Fatal("the node with the full disk has ended")
	}
	for _, n := range c.Nodes {
		for name, how := range map[string][]clientv3.OpOption{"linearizable": nil, "serializable": {clientv3.WithSerializable()}} {
			one := dialed(t, n.ClientURL())
			if r, err := one.Get(t.Context(), "record/", append(how, clientv3.WithPrefix(), clientv3.WithCountOnly())...); err != nil || r.Count < 50 {
				t.Errorf("a %s read from %s: %+v, %v", name, n.Name, r, err)
			}
		}
	}
	if got := w.Acked(); got != acked {
		t.Errorf("%d writes were acknowledged while the disk was full", got-acked)
	}

	must(t, errors.Join(os.Remove(most), os.Remove(rest)))
	w.More(50)
	c.Healthy()
	w.Verify()
	disarmed := 0
	for _, n := range c.Nodes { // the leader may decide it before it hears which volume is full, and then does not do it
		disarmed += strings.Count(n.Log(), "disarmed the alarm NOSPACE")
	}
	if raised := decisions(c, "raise"); total(raised) != 1 || raised[small.Name] != 1 || disarmed != 1 {
		t.Errorf("raised %v, disarmed %d times; want once by %s, and once", raised, disarmed, small.Name)
	}
}

// etcd itself fills a disk as fast as it can. It stops before the last byte, and continues when there is room.
func TestDiskFillsUp(t *testing.T) {
	story(t)
	c, small, mount := onSmallDisk(t, 1000<<20)
	ballast := occupy(t, mount, "ballast", 450<<20)
	w := c.Write()
	w.More(50)
	var fast errgroup.Group
	for i := range 4 {
		client := connect(t, c)
		fast.Go(func() (err error) {
			for n := 0; err == nil && n < 400; n++ {
				_, err = client.Put(t.Context(), fmt.Sprintf("large/%d/%d", i, n), strings.Repeat("x", 1<<20))
			}
			return err
		})
	}
	if err := fast.Wait(); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("writing ends with %v, want %v", err, rpctypes.ErrNoSpace)
	}
	if !small.Running() {
		t.Fatal("the node with the full disk has ended")
	}
	r := room(t, mount)
	t.Logf("%d MiB are free when writes are refused, of a reserve of %d", r.Free>>20, r.Reserve()>>20)
	reserveUsed(t, c, small, r)
	if _, err := connect(t, c).Put(t.Context(), "late", "x"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("a write is answered with %v, want %v", err, rpctypes.ErrNoSpace)
	}
	must(t, os.Remove(ballast))
	w.More(50)
	c.Healthy()
	w.Verify()
	if !small.Running() || total(decisions(c, "raise")) != 1 {
		t.Errorf("%s runs: %t; raised %v, want once", small.Name, small.Running(), decisions(c, "raise"))
	}
}
