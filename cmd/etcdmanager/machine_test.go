package etcdmanager

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/cmd/config"
)

func TestTheMachineKnowsWhatDataDirIs(t *testing.T) {
	for name, want := range map[string]bool{"": false, "a": false, "state": true, "data": true, "identity.json": true} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); name != "" && err != nil {
			t.Fatal(err)
		}
		m, err := ThisMachine(Options{DataDir: dir})
		if err != nil || m.Volume != want {
			t.Errorf("%q: got %v, %v, want %v", name, m.Volume, err, want)
		}
	}
}

func TestTwoClustersOnOneDiskAreRefused(t *testing.T) {
	mnt := t.TempDir()
	cfg := config.Default()
	cfg.Volume.Local.Root = filepath.Join(mnt, rootName)
	if err := ForeignDirectory(cfg, Machine{Rooted: true}); err != nil {
		t.Errorf("holdfast's own: got %v", err)
	}
	if err := os.Mkdir(filepath.Join(mnt, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := ForeignDirectory(cfg, Machine{Rooted: true})
	if err == nil || !strings.Contains(err.Error(), mnt+" holds the data of etcd-manager's cluster, and volumes of holdfast's") {
		t.Errorf("both: got %v, want a refusal", err)
	}
	if err := ForeignDirectory(cfg, Machine{}); err != nil {
		t.Errorf("etcd-manager's alone: got %v", err)
	}
}
