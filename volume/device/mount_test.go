package device

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"holdfast/volume/device/devicetest"
)

var filesystems = []string{"ext4", "xfs"}

// each runs a test with each filesystem on its own disk.
func each(t *testing.T, test func(t *testing.T, d *devicetest.Disk, fstype string)) {
	for _, fstype := range filesystems {
		t.Run(fstype, func(t *testing.T) { test(t, devicetest.New(t, devicetest.Small), fstype) })
	}
}

func format(t *testing.T, d *devicetest.Disk, fstype string) {
	t.Helper()
	must(t, Format(t.Context(), d.Path, Filesystem{Type: fstype, UUID: testUUID, Label: "holdfast"}))
}

func mounted(t *testing.T, d *devicetest.Disk, dir string, readonly bool) {
	t.Helper()
	must(t, Mount(t.Context(), d.Path, dir, readonly))
}

func unmounted(t *testing.T, dir string) {
	t.Helper()
	must(t, Unmount(t.Context(), dir))
}

func put(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func contains(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("read %s: got %q, %v, want %q", path, got, err, want)
	}
}

func TestFormatMountRemount(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		dir := filepath.Join(t.TempDir(), "made", "mount")
		format(t, d, fstype)
		c := probed(t, d)
		if want := (Content{Type: fstype, UUID: testUUID, Label: "holdfast", signed: true}); c != want {
			t.Errorf("got %+v, want %+v", c, want)
		}
		mounted(t, d, dir, false)
		if c := probed(t, d); !c.Busy || c.Type != fstype {
			t.Errorf("mounted: got %+v, want it busy, with its type", c)
		}
		m, err := at(dir)
		if err != nil || m == nil || isReadonly(m) || !has(m.Options, "noatime") || !has(m.Options, "nodev") {
			t.Errorf("got mount %+v, %v, want it writable and noatime", m, err)
		}
		put(t, filepath.Join(dir, "f"), "one")
		mounted(t, d, dir, false) // again
		mounted(t, d, dir, true)  // an existing mount stays
		if dirs, err := Mounted(d.Path); err != nil || !slices.Equal(dirs, []string{dir}) {
			t.Errorf("got mounts %v, %v, want %s once", dirs, err, dir)
		}
		unmounted(t, dir)
		unmounted(t, dir)
		if dirs, err := Mounted(d.Path); err != nil || len(dirs) > 0 {
			t.Errorf("got mounts %v, %v, want none", dirs, err)
		}
		mounted(t, d, dir, true)
		contains(t, filepath.Join(dir, "f"), "one")
		if err := os.WriteFile(filepath.Join(dir, "g"), nil, 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("write to a read-only mount: got %v, want %v", err, unix.EROFS)
		}
		mounted(t, d, dir, false)
		put(t, filepath.Join(dir, "f"), "two")
		contains(t, filepath.Join(dir, "f"), "two")
	})
}

// TestFormatGoesOnAfterACrash truncates a new filesystem where mkfs may have been killed.
func TestFormatGoesOnAfterACrash(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for _, cut := range []struct{ from, to int64 }{
		{0, 512}, {0, 4096}, {0, 1 << 20}, {512, devicetest.Small}, {4096, devicetest.Small}, {64 << 10, devicetest.Small},
		{8 << 20, devicetest.Small}, {1 << 20, devicetest.Small - 1<<20},
	} {
		each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
			format(t, d, fstype)
			d.Zero(t, cut.from, cut.to-cut.from)
			before := probed(t, d)
			format(t, d, fstype)
			dir := t.TempDir()
			mounted(t, d, dir, false)
			put(t, filepath.Join(dir, "f"), "one")
			unmounted(t, dir)
			if fstype == "ext4" {
				devicetest.Run(t, "e2fsck", "-f", "-n", d.Path)
			} else {
				devicetest.Run(t, "xfs_repair", "-n", d.Path)
			}
			t.Logf("without [%d,%d): %+v", cut.from, cut.to, before)
		})
	}
}

func TestFormatRefusesAnotherFilesystem(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		format(t, d, fstype)
		err := Format(t.Context(), d.Path, Filesystem{Type: fstype, UUID: uuid.NewString(), Label: "holdfast"})
		if err == nil || !strings.Contains(err.Error(), "not blank any more") {
			t.Errorf("got %v, want a refusal", err)
		}
		if c := probed(t, d); c.UUID != testUUID {
			t.Errorf("got %+v, want the filesystem as it was", c)
		}
	})
}

// small formats a disk, puts a file on the filesystem, and then makes the disk twice as large.
func small(t *testing.T, d *devicetest.Disk, fstype, dir string) {
	t.Helper()
	format(t, d, fstype)
	mounted(t, d, dir, false)
	if before, after, err := Grow(t.Context(), d.Path, dir); err != nil || before != after || before == 0 {
		t.Errorf("nothing to grow: got %d → %d, %v", before, after, err)
	}
	put(t, filepath.Join(dir, "f"), "one")
	unmounted(t, dir)
	d.Grow(t, 2*devicetest.Small)
	mounted(t, d, dir, false)
}

func TestGrow(t *testing.T) {
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		if fstype == "ext4" && !mayGrowExt4() {
			t.Skip("it needs CAP_SYS_RESOURCE")
		}
		dir := t.TempDir()
		small(t, d, fstype, dir)
		if before, after, err := Grow(t.Context(), d.Path, dir); err != nil || after < before*3/2 {
			t.Errorf("got %d → %d, %v, want it to double", before, after, err)
		}
		contains(t, filepath.Join(dir, "f"), "one")
	})
}

// TestGrowWithoutTheCapability runs again as a process without CAP_SYS_RESOURCE. The filesystem is mounted at its old
// size: nothing has grown it before it was mounted, which a kill would make unrepairable.
func TestGrowWithoutTheCapability(t *testing.T) {
	if os.Geteuid() == 0 && mayGrowExt4() {
		devicetest.Run(t, "setpriv", "--bounding-set", "-sys_resource", os.Args[0], "-test.run", "^"+t.Name()+"$")
		return
	}
	d, dir := devicetest.New(t, devicetest.Small), t.TempDir()
	small(t, d, "ext4", dir)
	before, err := capacity(dir)
	if err != nil || before > devicetest.Small {
		t.Errorf("mounted: got %d bytes, %v, want the old size", before, err)
	}
	_, _, err = Grow(t.Context(), d.Path, dir)
	if err == nil || !strings.Contains(err.Error(), "CAP_SYS_RESOURCE") {
		t.Errorf("got %v, want an error that names the capability", err)
	}
	if after, err := capacity(dir); err != nil || after != before {
		t.Errorf("refused: got %d bytes, %v, want %d", after, err, before)
	}
	contains(t, filepath.Join(dir, "f"), "one")
	put(t, filepath.Join(dir, "f"), "two")
	unmounted(t, dir)
	devicetest.Run(t, "e2fsck", "-f", "-n", d.Path)
}

func hash(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// TestReadonlyMountChangesNothing mounts a filesystem whose journal needs to be replayed.
func TestReadonlyMountChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	each(t, func(t *testing.T, d *devicetest.Disk, fstype string) {
		dir := t.TempDir()
		format(t, d, fstype)
		mounted(t, d, dir, false)
		put(t, filepath.Join(dir, "f"), "one")
		must(t, syncfs(dir))
		put(t, filepath.Join(dir, "g"), "two")
		g := NewGuard(EBS(d.Root))
		g.Mounted(d.Path)
		if err := g.Fence(dir); err != nil { // as after a crash
			t.Fatal(err)
		}
		before := hash(t, d.Image)
		mounted(t, d, dir, true)
		if _, err := os.ReadDir(dir); err != nil {
			t.Error(err)
		}
		_, _ = os.ReadFile(filepath.Join(dir, "f"))
		unmounted(t, dir)
		if got := hash(t, d.Image); got != before {
			t.Errorf("the image has changed")
		}
		mounted(t, d, dir, false)
		contains(t, filepath.Join(dir, "f"), "one")
		unmounted(t, dir)
		if got := hash(t, d.Image); got == before {
			t.Errorf("a writable mount has changed nothing: the test shows nothing")
		}
	})
}

func TestMountRefusals(t *testing.T) {
	d, other := devicetest.New(t, devicetest.Small), devicetest.New(t, devicetest.Small)
	dir, elsewhere := t.TempDir(), t.TempDir()
	want := func(what, dir, text string) {
		t.Helper()
		if err := Mount(t.Context(), d.Path, dir, false); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v, want %q", what, err, text)
		}
	}
	want("blank", dir, "it is blank")
	format(t, d, "ext4")
	format(t, other, "xfs")
	mounted(t, other, dir, false)
	want("another device there", dir, other.Path)
	mounted(t, d, elsewhere, false)
	unmounted(t, dir)
	want("mounted elsewhere", dir, elsewhere)
	unmounted(t, elsewhere)
	f, err := exclusive(d.Path, os.O_RDONLY)
	must(t, err)
	want("in use", dir, ErrBusy.Error())
	must(t, f.Close())
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(dir, link))
	want("a symbolic link", link, "not a directory")
	must(t, os.Truncate(d.Image, devicetest.Small/2))
	devicetest.Run(t, "losetup", "-c", d.Path)
	want("shrunk", dir, "run e2fsck -f "+d.Path)
}

func TestUnmountOfABusyMount(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	d, dir := devicetest.New(t, devicetest.Small), t.TempDir()
	format(t, d, "ext4")
	mounted(t, d, dir, false)
	f, err := os.Create(filepath.Join(dir, "f"))
	must(t, err)
	defer f.Close()
	if err := Unmount(t.Context(), dir); !errors.Is(err, unix.EBUSY) || !strings.Contains(err.Error(), "fuser -vm "+dir) {
		t.Errorf("got %v, want that it is busy, and what to look at", err)
	}
	below := filepath.Join(dir, "below")
	must(t, os.Mkdir(below, 0o700))
	must(t, unix.Mount("none", below, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(below, unix.MNT_DETACH) })
	must(t, f.Close())
	if err := Unmount(t.Context(), dir); err == nil || !strings.Contains(err.Error(), below) {
		t.Errorf("got %v, want the mount that is below", err)
	}
	must(t, unix.Unmount(below, 0))
	unmounted(t, dir)
}

// If the table of mounts omits a mount that exists, the mount is found nevertheless, or the result is an error.
func TestMountThatTheTableLeavesOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k"))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	for _, c := range []struct {
		name    string
		dir     string
		missing int // how many readings omit it
		there   bool
		wrong   bool
	}{
		{"at once", dir, 0, true, false},
		{"later", dir, 2, true, false},
		{"never", dir, 100, false, true},
		{"not mounted", t.TempDir(), 0, false, false},
		{"no directory", filepath.Join(dir, "none"), 0, false, false},
	} {
		reads := 0
		m, err := inTable(c.dir, func() ([]*mountinfo.Info, error) {
			if reads++; reads <= c.missing {
				return nil, nil
			}
			return mountinfo.GetMounts(nil)
		})
		if (m != nil) != c.there || (err != nil) != c.wrong {
			t.Errorf("%s: got %v, %v", c.name, m, err)
		}
	}
}
