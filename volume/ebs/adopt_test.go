package ebs_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"
	"golang.org/x/sys/unix"

	"holdfast/volume"
	"holdfast/volume/ebs"
	"holdfast/volume/volumetest"
)

// TestRunningEtcdKeepsItsVolume has a volume mounted by etcd-manager with an etcd on it. A claim waits for the etcd's
// end, and never mounts the volume a second time.
func TestRunningEtcdKeepsItsVolume(t *testing.T) {
	needDevices(t)
	clearAWS(t)
	r := newRegion(t, "a")
	i := r.launch("n1")
	vol, dir := r.volumes["a"], filepath.Join(r.dir, "master-vol")
	machine := ebs.NewMachine(ebs.Config{DeviceRoot: i.root}, volumetest.Cluster, zaptest.NewLogger(t))
	if err := i.client.Attach(t.Context(), vol, i.id, "/dev/sdf"); err != nil {
		t.Fatal(err)
	}
	device := ""
	r.until("the device of "+vol, func() bool {
		devices, err := machine.Devices()
		device = devices[vol]
		return err == nil && device != ""
	})
	if out, err := exec.Command("mkfs.ext4", "-q", device).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := machine.Mount(t.Context(), device, dir, false); err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(dir, "data", "x1", "member", "snap", "db")
	for _, path := range []string{filepath.Join(dir, "state"), filepath.Join(dir, "data", "x1", "member", "wal", "0.wal"), db} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	etcd, err := os.Open(db)
	if err == nil {
		err = unix.Flock(int(etcd.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := volume.Want{Cluster: volumetest.Cluster, Slots: []string{"a"}, Adopt: true}
	_, err = r.open("n1").Claim(t.Context(), want)
	if !errors.Is(err, volume.ErrNoneFree) || !strings.Contains(err.Error(), "etcd still runs on "+db) {
		t.Errorf("while it runs: got %v, want none free, and the file", err)
	}
	etcd.Close()
	_, err = r.open("n1").Claim(t.Context(), want)
	if err == nil || errors.Is(err, volume.ErrNoneFree) || !strings.Contains(err.Error(), "unmount it there") {
		t.Errorf("after its end, while it is mounted: got %v, want the cure", err)
	}
	if err := machine.Unmount(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	c, err := r.open("n1").Claim(t.Context(), want)
	if err != nil || c.Mismatch() != "" || c.Volume().Disk == "" {
		t.Fatalf("after it was unmounted: got %v, %v, want the volume", c, err)
	}
	if err := c.Release(t.Context(), true); err != nil {
		t.Error(err)
	}
}
