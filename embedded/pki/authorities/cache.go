package authorities

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/embedded/pki"
)

// errDamaged says that the cached authorities cannot be read as such.
var errDamaged = errors.New("is damaged")

func cachePath(dir string) string { return filepath.Join(dir, cacheFile) }

// readCache returns the authorities of a cluster that a node has kept, nil if it has none.
func readCache(path, cluster string) (*Edition, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s holds the keys of the cluster's authorities, and others may use it (mode %04o): run chmod 600 %s, and ask who has read it", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxEdition+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	var e Edition
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("%s %w (%w)", path, errDamaged, err)
	}
	if e.Cluster != "" && e.Cluster != cluster {
		return nil, fmt.Errorf("%s has the authorities of cluster %q, and cluster.name is %q: set cluster.name or tls.dir right, or remove the directory if that cluster is no more", path, e.Cluster, cluster)
	}
	if err := e.check(cluster); err != nil {
		return nil, fmt.Errorf("%s %w (%w)", path, errDamaged, err)
	}
	return &e, nil
}

// writeCache replaces what a node has kept, durably and in one step.
func writeCache(path string, e Edition) error {
	text, err := e.encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return pki.WriteFile(path, text)
}
