package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/cmd/config"
)

// lockWait is for the nodes of a demo that was killed. They need less to end.
const lockWait = 10 * time.Second

// ownName matches what the demo makes in its directory, and nothing else.
var ownName = regexp.MustCompile(`^(n[1-9](\.yaml|\.log)?|volumes|snapshots|demo\.json(\.new)?)$`)

// demoDir is the directory of a demo. Its lock is inherited by the nodes: while one of a former demo is still
// ending, nobody else begins.
type demoDir struct {
	path string // absolute
	lock *os.File
	plan demoPlan
}

// openDemoDir makes the directory this process's own, and empties it if that is wanted. The caller closes lock.
func openDemoDir(ctx context.Context, o demoOptions, say func(string, ...any)) (d *demoDir, err error) {
	if o.clean {
		if _, err := planDemo(o, nil); err != nil {
			return nil, err // before anything is removed
		}
	}
	path := config.Abs(o.dir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the demo's directory: %w", err)
	}
	lock, err := lockDir(ctx, path, o.dir, say)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	d = &demoDir{path: path, lock: lock}
	if err := d.own(o, say); err != nil {
		return nil, err
	}
	former, err := readPlan(path)
	if err != nil {
		return nil, err
	}
	if d.plan, err = planDemo(o, former); err != nil {
		return nil, err
	}
	return d, nil
}

// lockDir locks the directory itself, so that there is no lock file to be removed by anybody.
func lockDir(ctx context.Context, path, shown string, say func(string, ...any)) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the demo's directory: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for told := false; ; told = true {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", shown, err), f.Close())
		}
		if !told {
			say("waiting for the nodes of another demo in %s to end", shown)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another demo runs in %s: end it first, or choose another directory with --dir", shown), f.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wouldDemo says what a demo would do in its directory, without making it or taking its lock.
func wouldDemo(o demoOptions) (string, error) {
	path := config.Abs(o.dir)
	own, err := ownFiles(path, o)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var former *demoPlan
	would := ""
	if o.clean && len(own) > 0 {
		would = fmt.Sprintf("would remove from %s: %s\n", o.dir, strings.Join(own, ", "))
	} else if former, err = readPlan(path); err != nil {
		return "", err
	}
	p, err := planDemo(o, former)
	return fmt.Sprintf("%swould start %s; data, configurations and logs in %s", would, p, o.dir), err
}

// own makes sure that the directory is a demo's or empty, and removes what a former demo made if that is wanted.
func (d *demoDir) own(o demoOptions, say func(string, ...any)) error {
	own, err := ownFiles(d.path, o)
	if err != nil || !o.clean || len(own) == 0 {
		return err
	}
	for _, name := range own {
		if err := os.RemoveAll(filepath.Join(d.path, name)); err != nil {
			return fmt.Errorf("remove the former demo: %w", err)
		}
	}
	say("removed from %s: %s", o.dir, strings.Join(own, ", "))
	return nil
}

// ownFiles returns what a former demo made in its directory, in the order in which it may be removed, and an error if
// the directory is somebody else's, or may not be cleaned.
func ownFiles(path string, o demoOptions) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read the demo's directory: %w", err)
	}
	var own, other []string
	for _, e := range entries {
		if ownName.MatchString(e.Name()) {
			own = append(own, e.Name())
		} else {
			other = append(other, e.Name())
		}
	}
	switch {
	case len(entries) == 0:
		return nil, nil
	case !slices.Contains(own, planName):
		return nil, fmt.Errorf("%s is not empty, and no demo made it (it holds %s): choose another directory with --dir", o.dir, entries[0].Name())
	case o.clean && len(other) > 0:
		return nil, fmt.Errorf("%s holds what the demo did not make: %s; nothing was removed: move it away, or choose another directory with --dir",
			o.dir, strings.Join(other, ", "))
	}
	// The plan goes last: until then the rest is known to be the demo's, should this be interrupted.
	return append(slices.DeleteFunc(own, func(name string) bool { return name == planName }), planName), nil
}

// replaceFile writes a file that is there in whole or not at all, even after a power failure.
func replaceFile(path string, data []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
