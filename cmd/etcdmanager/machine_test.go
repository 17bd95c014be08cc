package etcdmanager

import (
	"os"
	"path/filepath"
	"testing"
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
