package embedded

import (
	"fmt"
	"os"
	"path/filepath"

	"holdfast/layout"
)

// InUse returns the path of the database or log on a volume that a running etcd has locked, "" if there is none. It
// changes nothing and keeps nothing locked. Call it only while no Start, Fit or SetAside runs, because they would
// mistake the probe for another holdfast.
func (Disk) InUse(volume string) (by string, err error) {
	if by, err = layout.Running(volume); err == nil && by == "" {
		// holdfast locks the directory itself, even before etcd has created a database.
		by, err = lockedDir(filepath.Join(volume, layout.Own))
	}
	if err != nil {
		return "", fmt.Errorf("check what uses %s: %w", volume, err)
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
