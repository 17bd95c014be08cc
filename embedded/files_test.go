package embedded

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A process whose clients have all the files that it leaves them says so, and no longer when they are closed.
func TestCrowded(t *testing.T) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("only Linux tells: %v", err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &before)
	limit := before
	limit.Cur = uint64(len(entries)) + ownFiles + 20
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if got := Crowded(); got != nil {
		t.Errorf("with room for clients: got %q", got)
	}
	var clients []*os.File
	for range 30 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, f)
	}
	if got := Crowded(); len(got) != 1 {
		t.Errorf("without: got %q", got)
	}
	for _, f := range clients {
		f.Close()
	}
	if got := Crowded(); got != nil {
		t.Errorf("with room again: got %q", got)
	}
}
