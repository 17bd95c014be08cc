package ebs_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
	"holdfast/volume/device"
	"holdfast/volume/device/devicetest"
	"holdfast/volume/ebs"
)

const diskUUID = "5c1c9d6e-0f0a-4b8e-9d54-2f1a4f3f7a10"

func newMachine(t *testing.T, root, fstype string) (*ebs.Machine, string) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	cfg := ebs.Config{DeviceRoot: root, Filesystem: fstype, State: state}
	return ebs.NewMachine(cfg, "main", zap.NewNop()), filepath.Join(state, "main.json")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wrong(t *testing.T, what string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got %v, want an error with %q", what, err, text)
	}
}

func testIdentity() volume.Identity {
	id := volume.Identity{Cluster: "c", Slot: "a", Volume: "vol-0123456789abcdef0", Epoch: 7}
	return id.Fresh()
}

func TestMachineTakesABlankVolume(t *testing.T) {
	for _, fstype := range []string{"ext4", "xfs"} {
		t.Run(fstype, func(t *testing.T) { takeBlank(t, fstype) })
	}
}

func takeBlank(t *testing.T, fstype string) {
	disk := devicetest.New(t, devicetest.Small)
	m, _ := newMachine(t, disk.Root, fstype)
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "a")

	devices, err := m.Devices()
	must(t, err)
	if want := map[string]string{disk.Volume: disk.Path}; !reflect.DeepEqual(devices, want) {
		t.Fatalf("got devices %v, want %v", devices, want)
	}
	c, err := m.Probe(ctx, disk.Path)
	must(t, err)
	if want := (ebs.Content{Blank: true}); c != want {
		t.Fatalf("got %+v, want %+v", c, want)
	}
	must(t, m.Format(ctx, disk.Path, diskUUID))
	c, err = m.Probe(ctx, disk.Path)
	must(t, err)
	if want := (ebs.Content{Type: fstype, UUID: diskUUID, Label: "holdfast"}); c != want {
		t.Fatalf("got %+v, want %+v", c, want)
	}
	must(t, m.Mount(ctx, disk.Path, dir, false))
	found, err := m.Inspect(dir)
	must(t, err)
	if found.Identity != nil || found.Damaged != "" || found.Entries != 0 {
		t.Errorf("new: got %+v, want nothing", found)
	}
	id := testIdentity()
	must(t, m.Identify(dir, id))
	must(t, m.Check(disk.Volume, disk.Path, dir))
	must(t, m.Unmount(ctx, dir))
	must(t, m.Mount(ctx, disk.Path, dir, true))
	must(t, m.Check(disk.Volume, disk.Path, dir)) // read-only, as intended
	must(t, m.Mount(ctx, disk.Path, dir, false))
	found, err = m.Inspect(dir)
	must(t, err)
	if found.Identity == nil || *found.Identity != id || found.Entries != 0 {
		t.Errorf("got %+v, want %+v", found, id)
	}

	open, err := os.Create(filepath.Join(dir, "data"))
	must(t, err)
	defer open.Close()
	must(t, m.Fence(dir))
	if _, err := open.Write([]byte("late")); err == nil && open.Sync() == nil {
		t.Error("a write after the fence has succeeded")
	}
	wrong(t, "fenced", m.Check(disk.Volume, disk.Path, dir), "not mounted")
	if since, stalled := m.Stalled(); stalled {
		t.Errorf("got stalled since %s, want it not", since)
	}
}

func TestMachineProbeOfABusyDevice(t *testing.T) {
	disk := devicetest.New(t, devicetest.Small)
	m, _ := newMachine(t, disk.Root, "ext4")
	f, err := os.OpenFile(disk.Path, os.O_RDONLY|os.O_EXCL, 0)
	must(t, err)
	defer f.Close()
	if c, err := m.Probe(t.Context(), disk.Path); !errors.Is(err, device.ErrBusy) || c.Blank {
		t.Errorf("got %+v, %v, want %v", c, err, device.ErrBusy)
	}
}

func TestMachineLock(t *testing.T) {
	m, journal := newMachine(t, "/", "ext4")
	other := ebs.NewMachine(ebs.Config{State: filepath.Dir(journal)}, "main", zap.NewNop())
	unlock, err := m.Lock()
	must(t, err)
	if _, err := other.Lock(); !errors.Is(err, volume.ErrNoneFree) {
		t.Errorf("got %v, want %v", err, volume.ErrNoneFree)
	}
	unlock()
	unlock()
	unlock, err = other.Lock()
	must(t, err)
	unlock()
}

func TestMachineJournal(t *testing.T) {
	m, path := newMachine(t, "/", "ext4")
	j, err := m.Journal()
	if err != nil || !reflect.DeepEqual(j, ebs.Journal{}) {
		t.Errorf("none: got %+v, %v, want the zero value", j, err)
	}
	want := ebs.Journal{
		Version: 1, Instance: "i-1",
		Held:       &ebs.Holding{Volume: "vol-1", Slot: "a", Epoch: 3},
		Attaching:  map[string]time.Time{"vol-2": time.Unix(1000, 0).UTC()},
		Detaching:  map[string]time.Time{"vol-3": time.Unix(2000, 0).UTC()},
		Formatting: &ebs.Formatting{Volume: "vol-4", UUID: diskUUID},
	}
	must(t, m.Remember(want))
	if j, err = m.Journal(); err != nil || !reflect.DeepEqual(j, want) {
		t.Errorf("got %+v, %v, want %+v", j, err, want)
	}
	whole, err := os.ReadFile(path)
	must(t, err)
	for n := range len(whole) - 1 { // the last byte is the newline
		must(t, os.WriteFile(path, whole[:n], 0o600))
		_, err := m.Journal()
		wrong(t, "torn", err, "then remove the file")
		wrong(t, "torn", err, path)
	}
	must(t, os.WriteFile(path, []byte(`{"version":2}`), 0o600))
	if _, err := m.Journal(); !errors.Is(err, volume.ErrNewer) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want %v", err, volume.ErrNewer)
	}
	must(t, os.WriteFile(path, []byte(`{}`), 0o600))
	_, err = m.Journal()
	wrong(t, "no version", err, "version must be 1")
}

func TestMachineInspect(t *testing.T) {
	m, _ := newMachine(t, "/", "ext4")
	tests := []struct {
		name    string
		make    func(t *testing.T, dir string)
		entries int
		damaged string
		err     string
	}{
		{"empty", func(*testing.T, string) {}, 0, "", ""},
		{"ours", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "identity.json.tmp"), []byte("{"), 0o600))
			must(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
		}, 0, "", ""},
		{"found what was lost", func(t *testing.T, dir string) { must(t, os.MkdirAll(filepath.Join(dir, "lost+found/#12"), 0o700)) }, 1, "", ""},
		{"data", func(t *testing.T, dir string) { must(t, os.MkdirAll(filepath.Join(dir, "member/wal"), 0o700)) }, 1, "", ""},
		{"torn", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "identity.json"), []byte("{"), 0o600))
		}, 0, "damaged", ""},
		{"a link", func(t *testing.T, dir string) {
			must(t, os.Symlink("/etc/hostname", filepath.Join(dir, "identity.json")))
		}, 0, "not a regular file", ""},
		{"newer", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "identity.json"), []byte(`{"version":2}`), 0o600))
		}, 0, "", "newer holdfast"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			test.make(t, dir)
			f, err := m.Inspect(dir)
			if test.err != "" {
				wrong(t, "inspect", err, test.err)
				return
			}
			must(t, err)
			if f.Identity != nil || f.Entries != test.entries || !strings.Contains(f.Damaged, test.damaged) || (f.Damaged == "") != (test.damaged == "") {
				t.Errorf("got %+v, want %d entries, damaged %q", f, test.entries, test.damaged)
			}
		})
	}
}

func TestMachineSetsAside(t *testing.T) {
	m, _ := newMachine(t, "/", "ext4")
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o700))
	must(t, m.Identify(dir, testIdentity()))
	names := func() []string {
		entries, err := os.ReadDir(dir)
		must(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	must(t, m.SetAside(dir))
	if got, want := names(), []string{"aside", "lost+found"}; !reflect.DeepEqual(got, want) {
		t.Errorf("set aside: got %v, want %v", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "aside/1-by-operator/identity.json")); err != nil {
		t.Error(err)
	}
}
