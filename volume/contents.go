package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holdfast/layout"
)

// Contents describes a volume to an operator who has to decide about it.
type Contents struct {
	// Names are the files and directories at its top, sorted, without aside/ and lost+found.
	Names []string `json:"names,omitempty"`
	// EtcdManager are the paths, relative to the volume, that show that etcd-manager made the data; none if it did not.
	EtcdManager []string `json:"etcdManager,omitempty"`
}

// Look returns the content of a volume's directory. It changes nothing.
func Look(dir string) (Contents, error) {
	names, err := movable(dir)
	if errors.Is(err, fs.ErrNotExist) { // a volume that is missing may have no directory
		return Contents{}, nil
	}
	if err != nil {
		return Contents{}, err
	}
	return Contents{Names: names, EtcdManager: managerData(dir)}, nil
}

// managerData returns the paths that identify a volume of etcd-manager: its state file and its clusters' data
// directories.
func managerData(dir string) (found []string) {
	all, _ := layout.Directories(dir) // what cannot be read is left out
	for _, d := range all {
		if d.Path != "." {
			found = append(found, d.Path)
		}
	}
	state, err := os.Stat(filepath.Join(dir, layout.State))
	if len(found) > 0 && err == nil && state.Mode().IsRegular() { // "state" alone is too common a name
		found = slices.Insert(found, 0, layout.State)
	}
	return found
}
