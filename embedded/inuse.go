package embedded

import (
	"fmt"
	"os"
	"path/filepath"

	"holdfast/layout"
)

// InUse returns what an etcd works on among the data on a volume, "" for nothing: the database or the log that is
// locked. It changes nothing and keeps nothing locked. Call it where no Start, Fit or SetAside runs: they would take
// the probe for another holdfast.
func (Disk) InUse(volume string) (by string, err error) {
	if by, err = layout.Running(volume); err == nil && by == "" {
		// holdfast's own lock, from before etcd has made a database
		by, err = lockedDir(filepath.Join(volume, layout.Own))
	}
	if err != nil {
		return "", fmt.Errorf("look who uses %s: %w", volume, err)
	}
	return by, nil
}

// lockedDir returns the path of a directory that is locked, "" if it is not.
func lockedDir(path string) (string, error) {
	f, err := os.Open(path)
	if layout.Absent(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if is, err := layout.Locked(f); !is || err != nil {
		return "", err
	}
	return path, nil
}
