package volume

import (
	"fmt"
	"os"
	"path/filepath"

	"holdfast/layout"
)

// made are names that only holdfast creates at the top of a volume. Data beside one of them no longer belongs to
// another program's cluster, even if the identity is gone.
var made = []string{layout.Own, "origin.json", "founding.json"}

// foreignEtcd returns the etcd data directories of another program, relative to the volume: data/TOKEN for
// etcd-manager, which has a state file beside data (kubernetes-sigs/etcd-manager, pkg/etcd/etcdserver.go), or "." for
// plain etcd. It ignores data beside files of holdfast, and data behind a symbolic link, which may lead off the volume.
func foreignEtcd(dir string) (found []string, err error) {
	for _, name := range made {
		if has, err := layout.Exists(filepath.Join(dir, name)); has || err != nil {
			return nil, cure(err)
		}
	}
	all, err := layout.Directories(dir)
	if err != nil {
		return nil, cure(err)
	}
	state, err := os.Lstat(filepath.Join(dir, layout.State))
	managed := err == nil && state.Mode().IsRegular()
	for _, d := range all {
		if d.Whole && (managed || d.Path == ".") {
			found = append(found, d.Path)
		}
	}
	return found, cure(missing(err))
}

// noEtcd returns nil while no etcd runs on a volume. Otherwise the error wraps ErrBusy and says what to stop.
func noEtcd(dir string) error {
	switch locked, err := layout.Running(dir); {
	case err != nil:
		return cure(err)
	case locked != "":
		return fmt.Errorf("%w: etcd still runs on %s: stop etcd-manager, or that etcd, on this machine", ErrBusy, locked)
	}
	return nil
}
