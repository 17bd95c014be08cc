package volume

import (
	"fmt"
	"os"
	"path/filepath"

	"holdfast/layout"
)

// made are names that only holdfast makes at the top of a volume. Where one of them lies, what lies beside it is not
// another program's cluster any more, even if the identity is gone.
var made = []string{layout.Own, "origin.json", "founding.json"}

// foreignEtcd returns the data directories of etcd that another program made, relative to the volume: data/TOKEN of
// etcd-manager, which keeps its file state beside data (kubernetes-sigs/etcd-manager, pkg/etcd/etcdserver.go), or . of
// plain etcd. It returns nothing where holdfast has left traces, where there is no data of etcd's, and where only a
// symbolic link leads to it, which may lead off the volume.
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

// noEtcd is nil while no etcd runs on a volume; else it wraps ErrBusy and says what to stop.
func noEtcd(dir string) error {
	switch locked, err := layout.Running(dir); {
	case err != nil:
		return cure(err)
	case locked != "":
		return fmt.Errorf("%w: etcd still runs on %s: stop etcd-manager, or that etcd, on this machine", ErrBusy, locked)
	}
	return nil
}
