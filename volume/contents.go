package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Contents is what lies on a volume, for an operator who has to decide about it.
type Contents struct {
	// Names are the files and directories at its top, sorted, without what was set aside before.
	Names []string `json:"names,omitempty"`
	// EtcdManager are the paths, relative to the volume, by which etcd-manager's data is known; none if it is not its.
	EtcdManager []string `json:"etcdManager,omitempty"`
}

// Look returns what lies in the directory of a volume. It changes nothing.
func Look(dir string) (Contents, error) {
	names, err := movable(dir)
	if errors.Is(err, fs.ErrNotExist) { // of a volume that is missing there may be no directory
		return Contents{}, nil
	}
	if err != nil {
		return Contents{}, err
	}
	return Contents{Names: names, EtcdManager: managerData(dir)}, nil
}

// managerData returns by what etcd-manager's volume is known (kubernetes-sigs/etcd-manager, pkg/etcd/etcdserver.go):
// its file state, and a data directory of etcd below data/, of which each cluster's is named by its token.
func managerData(dir string) (found []string) {
	state, err := os.Stat(filepath.Join(dir, "state"))
	if err == nil && state.Mode().IsRegular() {
		found = append(found, "state")
	}
	data, _ := filepath.Glob(filepath.Join(dir, "data", "*", "member")) // only a bad pattern is an error
	for _, member := range data {
		found = append(found, filepath.Join("data", filepath.Base(filepath.Dir(member))))
	}
	if len(data) == 0 { // anyone may have a file of that name
		return nil
	}
	return found
}
