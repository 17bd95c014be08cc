package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"holdfast/durable"
)

// asideName is the directory of the volume that holds what was set aside.
const asideName = "aside"

// moveAside moves everything on the volume into a new directory below aside/.
func (c *localClaim) moveAside() error { return SetAside(c.Path(), c.local.step) }

// SetAside moves everything in a directory into a new directory below its aside/, durably, but for what was
// set aside before and a lost+found. It calls step, if not nil, between the steps a crash can separate.
func SetAside(dir string, step func(string)) error {
	names, err := movable(dir)
	if err != nil || len(names) == 0 {
		return err
	}
	aside := filepath.Join(dir, asideName)
	n, err := nextAside(aside)
	if err != nil {
		return err
	}
	target := filepath.Join(aside, fmt.Sprintf("%d-by-operator", n))
	if err := MakeDirs(target); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(target, name)); err != nil {
			return cure(err)
		}
		if step != nil {
			step("set aside " + name)
		}
	}
	return cure(errors.Join(durable.SyncDir(target), durable.SyncDir(dir)))
}

// movable are the entries of a volume that SetAside moves. What was set aside before stays where it
// is, and lost+found belongs to the file system.
func movable(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, cure(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != asideName && e.Name() != "lost+found" {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// nextAside is one more than the highest number a name below aside/ begins with.
func nextAside(aside string) (int, error) {
	entries, err := os.ReadDir(aside)
	if err := missing(err); err != nil {
		return 0, cure(err)
	}
	next := 1
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.Atoi(number); err == nil && n >= next {
			next = n + 1
		}
	}
	return next, nil
}
