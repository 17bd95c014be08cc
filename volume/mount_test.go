package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// fakeMounts is a machine with this fstab and these mount points.
func fakeMounts(t *testing.T, fstab string, points ...string) mounts {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fstab")
	writeFile(t, path, fstab)
	return mounts{fstab: path, units: func() units { return units{} }, now: func() ([]*mountinfo.Info, error) {
		list := []*mountinfo.Info{{Mountpoint: "/", FSType: "ext4"}}
		for _, p := range points {
			fstype, p, found := strings.Cut(p, ":")
			if !found {
				fstype, p = "ext4", fstype
			}
			list = append(list, &mountinfo.Info{Mountpoint: p, FSType: fstype})
		}
		return list, nil
	}}
}

func TestMountCheck(t *testing.T) {
	const fstab = "# disks\nUUID=1 / ext4 defaults 0 1\nUUID=2 none swap sw 0 0\n\nUUID=3 /no-such/data ext4 noauto 0 2\nUUID=4 /no-such/a\\040b xfs\nbad\n"
	for _, test := range []struct {
		name, mode, dir string
		mounted         []string
		want            string // a part of the error
	}{
		{"not in fstab", mountAuto, "/no-such/other", nil, ""},
		{"a name that only begins alike", mountAuto, "/no-such/database", nil, ""},
		{"above the mount point", mountAuto, "/no-such", nil, ""},
		{"the mount point, not mounted", mountAuto, "/no-such/data", nil, "/no-such/data"},
		{"below it, not mounted", mountAuto, "/no-such/data/etcd/a", nil, "is not mounted: mount it"},
		{"below it, mounted", mountAuto, "/no-such/data/etcd/a", []string{"/no-such/data"}, ""},
		{"only promised by an automounter", mountAuto, "/no-such/data", []string{"autofs:/no-such/data"}, "is not mounted"},
		{"a space in its name", mountAuto, "/no-such/a b/etcd", nil, "/no-such/a b"},
		{"ignored", mountIgnore, "/no-such/data", nil, ""},
		{"required, on the root file system", mountRequire, "/no-such/other", nil, "mounted at /"},
		{"required, on a file system of its own", mountRequire, "/no-such/other/x", []string{"/no-such/other"}, ""},
		{"required, one of two not mounted", mountRequire, "/no-such/data", []string{"/no-such"}, "is not mounted"},
	} {
		err := fakeMounts(t, fstab, test.mounted...).check(test.mode, test.dir)
		if test.want == "" && err != nil {
			t.Errorf("%s: got %v, want nil", test.name, err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}

func TestMountCheckFollowsLinks(t *testing.T) {
	dir := resolve(t.TempDir())
	disk := filepath.Join(dir, "disk")
	must(t, errors.Join(os.Mkdir(disk, 0o700), os.Symlink(disk, filepath.Join(dir, "link"))))
	m := fakeMounts(t, "UUID=1 "+disk+" ext4\n")
	if err := m.check(mountAuto, filepath.Join(dir, "link", "volumes")); err == nil {
		t.Error("got nil, want the error of the directory the link leads to")
	}
}

func TestMountCheckNeedsItsFacts(t *testing.T) {
	m := mounts{fstab: filepath.Join(t.TempDir(), "none"), units: func() units { return units{} }, now: func() ([]*mountinfo.Info, error) {
		return nil, errors.New("no /proc")
	}}
	if err := m.check(mountAuto, "/no-such"); err != nil {
		t.Errorf("without fstab: got %v, want nil", err)
	}
	if err := m.check(mountRequire, "/no-such"); err == nil {
		t.Error("without the mounts: got nil, want an error")
	}
	m.fstab = t.TempDir()
	if err := m.check(mountAuto, "/no-such"); err == nil {
		t.Error("unreadable fstab: got nil, want an error")
	}
}

func TestSystemMountsKnowRoot(t *testing.T) {
	points, err := systemMounts().mounted()
	if err != nil {
		t.Skip(err)
	}
	if !points["/"] {
		t.Errorf("got %v, want / among them", points)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`/a\040b\134c`: `/a b\c`, `/a\777`: `/a\777`, `/a`: `/a`} {
		if got := unescape(in); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestUnmountedIsNotBlank(t *testing.T) {
	for _, scope := range []string{ScopeHost, ScopeMachine} {
		root := resolve(t.TempDir())
		l := newLocal(t, root, "n1")
		l.cfg.Scope, l.cfg.Mount = scope, mountAuto
		l.mounts = fakeMounts(t, "UUID=1 "+root+"/a ext4\n")
		_, err := l.Claim(t.Context(), Want{Cluster: "c", Slots: []string{"a"}})
		if err == nil || errors.Is(err, ErrNoneFree) || !strings.Contains(err.Error(), "is not mounted") {
			t.Errorf("%s, volume: got %v, want the mount error", scope, err)
		}
		l.mounts = fakeMounts(t, "UUID=1 "+root+" ext4\n")
		if _, err := l.Claim(t.Context(), wantABC); err == nil || !strings.Contains(err.Error(), "is not mounted") {
			t.Errorf("%s, root: got %v, want the mount error", scope, err)
		}
		if entries, _ := os.ReadDir(root); len(entries) != 0 {
			t.Errorf("%s: got %v, want nothing written", scope, entries)
		}
		infos, err := l.List(t.Context(), wantABC)
		if err != nil || len(infos) != 3 || infos[0].State != StateUnknown || infos[0].Decision != DecisionWait {
			t.Errorf("%s, list: got %+v, %v, want unknown volumes to wait for", scope, infos, err)
		}
	}
}

func TestUnmountedSlotIsNotPassedOver(t *testing.T) {
	root := resolve(t.TempDir())
	l := newLocal(t, root, "n1")
	l.cfg.Scope, l.cfg.Mount = ScopeHost, mountAuto
	l.mounts = fakeMounts(t, "UUID=1 "+root+"/a ext4\n")
	want := wantABC
	want.Avoid = map[string]string{"a": "n9 has it"}
	if _, err := l.Claim(t.Context(), want); err == nil || !strings.Contains(err.Error(), "is not mounted") {
		t.Errorf("got %v, want the mount error: the host's data may lie on a", err)
	}
}
