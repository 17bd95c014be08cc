package embedded

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// This shows the reason for the check: on a directory with a v2 entry etcd panics in a goroutine of its own. The test
// runs it in a child process, with the check switched off by TrustWAL.
func TestOldWALPanicsUnchecked(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	const child = "EMBEDDED_TEST_OLD_WAL"
	if dir := os.Getenv(child); dir != "" {
		n := newNode(t, "a")
		n.spec.DataDir, n.spec.TrustWAL = dir, true
		n.lg = zap.Must(zap.NewProduction()) // with the test's log, the last message would be lost
		n.run(t).awaitReady(t)
		return
	}
	n := found(t, "a")[0]
	put(t, n.client(t), "k", "v")
	stop(t, n, 0)
	appendV2(t, n.spec.DataDir)

	if err := n.begin(t); !errors.Is(err, ErrOldWAL) {
		t.Fatalf("start: got %v, want ErrOldWAL", err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOldWALPanicsUnchecked$")
	cmd.Env = append(os.Environ(), child+"="+n.spec.DataDir, "TMPDIR="+t.TempDir()) // a panic cleans nothing up
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "unmarshal should never fail") {
		t.Errorf("etcd replayed a v2 entry: %v\n%s", err, out)
	}
}

// appendV2 appends a committed v2 entry to the WAL of a stopped member.
func appendV2(t *testing.T, dir string) {
	t.Helper()
	d, err := (Disk{}).Inspect(dir)
	if err != nil {
		t.Fatal(err)
	}
	w, err := wal.Open(nil, datadir.ToWALDir(dir), message(&walpb.Snapshot{}))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, _, _, err := w.ReadAll(); err != nil {
		t.Fatal(err)
	}
	save(t, w, entry(d.Log.Term, d.Log.Index+1, v2Request()))
}
