package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/durable"
)

// ownName is the directory in a volume that is LocalConfig.Directory, for what lies beside a volume otherwise: its
// parent may be read-only, or another's. etcd and etcd-manager ignore it, and it is never set aside.
const ownName = ".holdfast"

// place is where a volume and what belongs to it lie.
type place struct {
	dir  string // the volume
	lock string
	tag  string
}

// place is that of a slot. root is what top returned.
func (l *Local) place(root, slot string) place {
	if l.cfg.Directory != "" {
		own := filepath.Join(root, ownName)
		return place{root, filepath.Join(own, "volume.lock"), filepath.Join(own, "volume.claim")}
	}
	return place{filepath.Join(root, slot), lockFile(root, slot), tagPath(root, slot)}
}

func lockFile(root, slot string) string { return filepath.Join(root, slot+".lock") }
func tagPath(root, slot string) string  { return filepath.Join(root, slot+".claim") }

// top is the absolute path of the directory below which the volumes lie, or of the one that is the volume.
func (l *Local) top() (string, error) {
	if l.cfg.Directory != "" {
		return filepath.Abs(l.cfg.Directory)
	}
	return filepath.Abs(l.cfg.Root)
}

// Missing returns what keeps every volume of this configuration from being claimed: a root that is not mounted, or a
// directory that is not there. Claim says the same; it changes nothing.
func (c LocalConfig) Missing() error {
	_, err := (&Local{cfg: c, mounts: systemMounts()}).there()
	return err
}

// there returns top, unless it should be mounted first, or is a volume that must be there and is not.
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
		return "", fmt.Errorf("volume.local.directory %s does not exist: mount its disk, or create it for a new volume", top)
	case err != nil:
		return "", cure(err)
	case !info.IsDir():
		return "", fmt.Errorf("volume.local.directory must be a directory, got %s", top)
	}
	return top, nil
}

// open returns top, ready for locks and claims. A root is created unless it should be mounted first.
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
	} else if !errors.Is(err, fs.ErrExist) { // a crash, or another process, may have been faster
		return "", cure(err)
	}
	return top, nil
}
