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

// ThisMachine reads what the flags do not say from this machine.
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
			}
		}
	}
	if o.VolumeProvider == "external" && o.staticConfig == "" {
		found, err := os.ReadDir(o.seedsDir())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m, fmt.Errorf("look for the other machines: %w", err)
		}
		for _, f := range found {
			if _, err := netip.ParseAddr(f.Name()); err == nil && !f.IsDir() { // etcd-manager ignores other names, too
				m.Seeds = append(m.Seeds, f.Name())
			}
		}
	}
	if o.VolumeProvider == "" && o.DataDir != "" {
		for _, name := range []string{layout.State, layout.Data, volume.IdentityName} {
			has, err := layout.Exists(filepath.Join(o.DataDir, name))
			if err != nil {
				return m, fmt.Errorf("look for data in --data-dir: %w", err)
			}
			m.Volume = m.Volume || has
		}
	}
	return m, nil
}
