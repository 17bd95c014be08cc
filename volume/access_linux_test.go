package volume

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Watching a volume must not wait for the file system's journal, as an update of the access time does.
func TestReadSmallLeavesTheAccessTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claim")
	must(t, os.WriteFile(path, []byte("held"), 0o600))
	old := time.Now().Add(-48 * time.Hour).Truncate(time.Second) // older than a day: relatime updates it
	must(t, os.Chtimes(path, old, old))
	if got, err := ReadSmall(path); err != nil || string(got) != "held" {
		t.Fatalf("read %q, %v", got, err)
	}
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Sys().(*syscall.Stat_t).Atim; got.Sec != old.Unix() {
		t.Errorf("access time: got %s, want %s", time.Unix(got.Sec, got.Nsec), old)
	}
}
