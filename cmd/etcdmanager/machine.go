package etcdmanager

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"holdfast/cmd/config"
	"holdfast/layout"
	"holdfast/volume"
)

// ThisMachine finds out what the flags do not say.
func ThisMachine(o Options) (m Machine, err error) {
	if ip, err := config.OwnAddress(); err == nil {
		m.Address = ip.String()
	}
	if prefix := o.prefix(); prefix != "" {
		found, err := filepath.Glob(filepath.Join(o.disksDir(), "*", "mnt"))
		if err != nil {
			return m, fmt.Errorf("look for volumes: %w", err)
		}
		for _, dir := range found {
			if name := filepath.Base(filepath.Dir(dir)); strings.HasPrefix(name, prefix) {
				m.Disks = append(m.Disks, name)
				if m.Rooted, err = layout.Exists(filepath.Join(dir, rootName)); err != nil {
					return m, fmt.Errorf("look for volumes: %w", err)
				}
			}
		}
	}
	if o.VolumeProvider == "external" && o.staticConfig == "" {
		found, err := os.ReadDir(o.seedsDir())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, fmt.Errorf("look for the other machines: %w", err)
		}
		for _, f := range found {
			if _, err := netip.ParseAddr(f.Name()); err == nil && !f.IsDir() { // etcd-manager ignores others as well
				m.Seeds = append(m.Seeds, f.Name())
			}
		}
	}
	if o.VolumeProvider == "" && o.DataDir != "" {
		for _, name := range append(managersNames, volume.IdentityName) {
			has, err := layout.Exists(filepath.Join(o.DataDir, name))
			if err != nil {
				return m, fmt.Errorf("look for data in --data-dir: %w", err)
			}
			m.Volume = m.Volume || has
		}
	}
	return m, nil
}

// ForeignDirectory refuses a disk that has both a volume of holdfast's own layout and the data of etcd-manager: only
// the operator knows which of the two is the cluster.
func ForeignDirectory(cfg config.Config, m Machine) error {
	if !m.Rooted || cfg.Volume.Provider != volume.ProviderLocal {
		return nil
	}
	root := cfg.Volume.Local.Root
	for _, name := range managersNames {
		switch has, err := layout.Exists(filepath.Join(filepath.Dir(root), name)); {
		case err != nil:
			return fmt.Errorf("look for data of etcd-manager: %w", err)
		case has:
			return fmt.Errorf("%s holds the data of etcd-manager's cluster, and volumes of holdfast's in %s: nothing is "+
				"touched; move away the one that is not the cluster's", filepath.Dir(root), root)
		}
	}
	return nil
}

// managersNames are by what etcd-manager itself tells whether a disk is in use.
var managersNames = []string{"state", "data"}
