package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/durable"
)

// ownName is the directory for the lock and the tag, inside a volume that is LocalConfig.Directory: its parent
// directory may be read-only, or belong to another program. etcd and etcd-manager ignore ownName, and it is never set
// aside.
const ownName = ".holdfast"

// place has the paths of a volume and of the files that belong to it.
type place struct {
	dir  string // the volume
	lock string
	tag  string
}

// place returns the paths for a slot. root is what top returned.
func (l *Local) place(root, slot string) place {
	if l.cfg.Directory != "" {
		own := filepath.Join(root, ownName)
		return place{root, filepath.Join(own, "volume.lock"), filepath.Join(own, "volume.claim")}
	}
	return place{filepath.Join(root, slot), lockFile(root, slot), tagPath(root, slot)}
}

func lockFile(root, slot string) string { return filepath.Join(root, slot+".lock") }
func tagPath(root, slot string) string  { return filepath.Join(root, slot+".claim") }

// top returns the absolute path of the directory that contains the volumes, or that is the volume.
func (l *Local) top() (string, error) {
	if l.cfg.Directory != "" {
		return filepath.Abs(l.cfg.Directory)
	}
	return filepath.Abs(l.cfg.Root)
}

// Missing returns why no volume of this configuration can be claimed: a root that is not mounted, or a directory that
// does not exist. Claim returns the same error. Missing changes nothing.
func (c LocalConfig) Missing() error {
	_, err := (&Local{cfg: c, mounts: systemMounts()}).there()
	return err
}

// there returns top, unless top must be mounted first, or is a volume that does not exist.
func (l *Local) there() (string, error) {
	top, err := l.top()
	if err != nil {
		return "", err
	}
	if err := l.mounts.check(l.cfg.Mount, top); err != nil || l.cfg.Directory == "" {
		return top, err
	}
	switch info, err := os.Stat(top); {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("volume.local.directory %s does not exist: mount its disk, or create it for a new volume",
			top)
	case err != nil:
		return "", cure(err)
	case !info.IsDir():
		return "", fmt.Errorf("volume.local.directory must be a directory, got %s", top)
	}
	return top, nil
}

// open returns top, ready for locks and claims. It creates the root unless the root must be mounted first.
func (l *Local) open() (string, error) {
	if l.cfg.Root == "" && l.cfg.Directory == "" || l.node == "" {
		return "", errors.New("volume.local.root and node.name must be set")
	}
	top, err := l.there()
	if err != nil {
		return "", err
	}
	if l.cfg.Directory == "" {
		return top, MakeDirs(top)
	}
	if err := os.Mkdir(filepath.Join(top, ownName), 0o700); err == nil {
		return top, cure(durable.SyncDir(top))
	} else if !errors.Is(err, fs.ErrExist) { // it is left from before a crash, or another process made it
		return "", cure(err)
	}
	return top, nil
}
