package authorities

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holdfast/durable"
)

// errDamaged: the cached authorities cannot be read.
var errDamaged = errors.New("is damaged")

func cachePath(dir string) string { return filepath.Join(dir, cacheFile) }

// readCache returns the authorities of a cluster that a node has cached, nil if it has none.
func readCache(path, cluster string) (*Edition, error) {
	text, err := durable.ReadSecret(path, maxEdition)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the keys of the cluster's authorities: %w", err)
	}
	e, err := decodeEdition(text, cluster)
	if e != nil && e.Cluster != "" && e.Cluster != cluster {
		return nil, fmt.Errorf("%s has the authorities of cluster %q, and cluster.name is %q: set cluster.name or tls.dir "+
			"right, or remove the directory if that cluster no longer exists", path, e.Cluster, cluster)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %w (%w)", path, errDamaged, err)
	}
	return e, nil
}

// writeCache replaces what a node has cached, durably and atomically.
func writeCache(path string, e Edition) error {
	text, err := e.encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}
