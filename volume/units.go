package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

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
