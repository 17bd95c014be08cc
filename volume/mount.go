package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// mounts answers whether a directory is the one it should be, or only a mount point on which nothing is mounted.
type mounts struct {
	fstab string // path of fstab(5)
	units func() units
	now   func() ([]*mountinfo.Info, error)
}

func systemMounts() mounts {
	return mounts{
		fstab: "/etc/fstab",
		units: systemUnits,
		now:   func() ([]*mountinfo.Info, error) { return mountinfo.GetMounts(nil) },
	}
}

// check returns an error if the directory, which need not exist, is not mounted as mode demands.
func (m mounts) check(mode, dir string) error {
	if mode == mountIgnore {
		return nil
	}
	// Looking up a path in the directory triggers an automounter.
	_, _ = os.Stat(dir + "/.")
	dir = resolve(dir)
	expected, err := m.expected(dir)
	if err != nil || mode == mountAuto && len(expected) == 0 {
		return err
	}
	mounted, err := m.mounted()
	if err != nil {
		return err
	}
	for _, p := range expected {
		if !mounted[p.path] {
			return fmt.Errorf("%s is below %s, which %s names but which is not mounted: "+
				"mount it, or set volume.local.mount to %s",
				dir, p.path, p.named, mountIgnore)
		}
	}
	if mode == mountRequire && nearest(dir, mounted) == "/" {
		return fmt.Errorf("%s is on the file system mounted at /, and volume.local.mount is %s: mount a disk there, or set "+
			"it to %s", dir, mountRequire, mountAuto)
	}
	return nil
}

// point is a path at which something should be mounted.
type point struct {
	path  string
	named string // the file that says so
}

// expected returns the mount points of fstab and of systemd at or above dir, except /.
func (m mounts) expected(dir string) ([]point, error) {
	all, err := m.inFstab()
	if err != nil {
		return nil, err
	}
	var expected []point
	for _, p := range all {
		if p.path = resolve(p.path); p.path != "/" && within(dir, p.path) {
			expected = append(expected, p)
		}
	}
	inUnits, err := m.units().points(dir)
	return append(expected, inUnits...), err
}

// inFstab returns the mount points of fstab, including those with noauto.
func (m mounts) inFstab() ([]point, error) {
	data, err := os.ReadFile(m.fstab)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, cure(err)
	}
	var points []point
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || !strings.HasPrefix(fields[1], "/") {
			continue // a comment, or swap, which is mounted on "none"
		}
		points = append(points, point{unescape(fields[1]), m.fstab})
	}
	return points, nil
}

func (m mounts) mounted() (map[string]bool, error) {
	list, err := m.now()
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	points := make(map[string]bool)
	for _, info := range list {
		if info.FSType != "autofs" { // an automounter's place-holder, not a file system
			points[info.Mountpoint] = true
		}
	}
	return points, nil
}

// nearest returns the mount point of the file system that dir is on.
func nearest(dir string, points map[string]bool) string {
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if points[dir] {
			return dir
		}
	}
	return dir
}

func within(dir, parent string) bool {
	return dir == parent || strings.HasPrefix(dir, parent+"/")
}

// resolve follows the symbolic links in the part of an absolute path that exists.
func resolve(path string) string {
	path = filepath.Clean(path)
	if path == "/" {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Join(resolve(filepath.Dir(path)), filepath.Base(path))
}

var octal = regexp.MustCompile(`\\[0-7]{3}`)

// unescape decodes a path of fstab, in which a space is written \040.
func unescape(path string) string {
	return octal.ReplaceAllStringFunc(path, func(s string) string {
		n, err := strconv.ParseUint(s[1:], 8, 8)
		if err != nil {
			return s // above \377: not a byte
		}
		return string([]byte{byte(n)})
	})
}

// units are the directories with the machine's unit files, in the order of systemd.unit(5): the first one that contains
// a name decides.
type units struct {
	// admin has the units of administrators and generators. Each counts, like a line of fstab, which may say noauto.
	admin []string
	// vendor has the units of packages. Such a unit counts only if another unit pulls it in: others are never mounted.
	vendor []string
}

// systemUnits are the directories of a machine that runs systemd. Elsewhere, as in a container, units mount nothing.
func systemUnits() units {
	if info, err := os.Stat("/run/systemd/system"); err != nil || !info.IsDir() { // sd_booted(3)
		return units{}
	}
	return units{
		admin: []string{
			"/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient",
			"/run/systemd/generator.early", "/etc/systemd/system", "/run/systemd/system", "/run/systemd/generator",
		},
		vendor: []string{
			"/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system", "/run/systemd/generator.late",
		},
	}
}

// points returns the mount points at or above dir that mount and automount units name.
func (u units) points(dir string) ([]point, error) {
	dirs := slices.Concat(u.admin, u.vendor)
	var all []point
	seen := map[string]bool{}
	for i, from := range dirs {
		entries, err := os.ReadDir(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, cure(err)
		}
		for _, e := range entries {
			name, file := e.Name(), filepath.Join(from, e.Name())
			path, ok := unitPath(name)
			if !ok || seen[name] || e.IsDir() {
				continue
			}
			if path = resolve(path); !within(dir, path) {
				continue
			}
			seen[name] = true
			if !masked(file) && (i < len(u.admin) || pulledIn(dirs, name)) {
				all = append(all, point{path, file})
			}
		}
	}
	return all, nil
}

// pulledIn reports whether another unit in these directories wants, requires or upholds this one.
func pulledIn(dirs []string, name string) bool {
	for _, dir := range dirs {
		for _, kind := range []string{"wants", "requires", "upholds"} {
			if found, _ := filepath.Glob(filepath.Join(dir, "*."+kind, escapeGlob(name))); len(found) > 0 {
				return true
			}
		}
	}
	return false
}

// escapeGlob returns the glob pattern of a unit's name, in which systemd escapes most non-letters with a backslash.
func escapeGlob(name string) string { return strings.ReplaceAll(name, `\`, `\\`) }

// masked reports whether a unit's file is empty or links to /dev/null: systemd then ignores the unit.
func masked(file string) bool {
	info, err := os.Stat(file)
	return err == nil && (info.Size() == 0 || !info.Mode().IsRegular())
}

// unitPath returns the path that the name of a mount or automount unit stands for. systemd loads no such unit whose
// name differs from its Where=, so the name is enough. go-systemd's UnitNamePathUnescape does not decode bytes above
// \x7f.
func unitPath(name string) (string, bool) {
	escaped, ok := strings.CutSuffix(name, ".mount")
	if !ok {
		escaped, ok = strings.CutSuffix(name, ".automount")
	}
	if !ok || escaped == "" || escaped == "-" {
		return "", false // / is always mounted
	}
	var path strings.Builder
	path.WriteByte('/')
	for i := 0; i < len(escaped); i++ {
		switch c := escaped[i]; {
		case c == '-':
			path.WriteByte('/')
		case c == '\\':
			if len(escaped) < i+4 || escaped[i+1] != 'x' {
				return "", false
			}
			b, err := strconv.ParseUint(escaped[i+2:i+4], 16, 8)
			if err != nil {
				return "", false
			}
			path.WriteByte(byte(b))
			i += 3
		default:
			path.WriteByte(c)
		}
	}
	return path.String(), true
}
