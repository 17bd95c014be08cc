package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holdfast/layout"
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

// managerData returns the paths that show a volume to be etcd-manager's: its file state, and the data directories of
// its clusters.
func managerData(dir string) (found []string) {
	all, _ := layout.Directories(dir) // what cannot be read is not known
	for _, d := range all {
		if d.Path != "." {
			found = append(found, d.Path)
		}
	}
	state, err := os.Stat(filepath.Join(dir, layout.State))
	if len(found) > 0 && err == nil && state.Mode().IsRegular() { // anyone may have a file of that name
		found = slices.Insert(found, 0, layout.State)
	}
	return found
}
