package control

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// listenElse listens as another process does, whose socket is left behind when it ends.
func listenElse(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	must(t, err)
	l.SetUnlinkOnClose(false)
	return l
}

// A node whose socket was removed can be asked again.
func TestSocketIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listenAt(path, zap.NewNop())
	must(t, err)
	t.Cleanup(func() { // runs after that of serveTest
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the end: %v", err)
		}
	})
	serveTest(t, &Server{}, l)
	for range 2 {
		must(t, os.Remove(path))
		var who string
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if err = Local(path).Get(t.Context(), "GET /status", &who); err == nil || time.Now().After(end) {
				break
			}
		}
		must(t, err)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info, err)
		}
	}
}

// A socket that another process serves is neither replaced nor removed; one that it has left is.
func TestSocketOfAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	path := filepath.Join(dir, "s")
	must(t, os.Mkdir(dir, 0o700))
	core, logged := observer.New(zapcore.DebugLevel)
	s, err := listenAt(path, zap.New(core))
	must(t, err)
	defer s.Close()
	must(t, os.Remove(path))
	other := listenElse(t, path)
	theirs, err := os.Lstat(path)
	must(t, err)
	s.repair()
	s.repair()
	if at, err := os.Lstat(path); err != nil || !os.SameFile(at, theirs) {
		t.Fatalf("the socket of the other process: %v, %v", at, err)
	}
	if n := logged.FilterMessageSnippet("could not be made again").Len(); n != 1 {
		t.Errorf("said %d times that it is gone", n)
	}
	must(t, other.Close())
	s.repair()
	if !s.atPath() {
		t.Error("the socket that the other process left was not replaced")
	}
	must(t, os.RemoveAll(dir))
	s.repair()
	if n := logged.FilterMessageSnippet("could not be made again").Len(); n != 2 {
		t.Errorf("said %d times that it is gone", n)
	}
	must(t, os.Mkdir(dir, 0o700))
	s.repair()
	if !s.atPath() {
		t.Error("the socket was not made again in a directory that is back")
	}
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	s.repair()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file in its place: %q, %v", text, err)
	}
}

// A suspended process accepts nothing, and once its queue is full the kernel refuses others. The socket is still its.
func TestSocketOfASuspendedProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	defer syscall.Close(fd)
	must(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)))
	for range 8 {
		if conn, err := net.Dial("unix", path); err == nil {
			defer conn.Close()
		}
	}
	if _, err := listenAt(path, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "another process serves") {
		t.Errorf("got %v", err)
	}
}

// Of processes that start at once on one stale socket, exactly one gets it, and the others say so.
func TestStaleSocketHasOneHeir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holdfast.sock")
	for round := range 50 {
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		must(t, err)
		stale.SetUnlinkOnClose(false)
		must(t, stale.Close())
		const processes = 4
		got := make(chan *socket, processes)
		errs := make(chan error, processes)
		for range processes {
			go func() {
				s, err := listenAt(path, zap.NewNop())
				got <- s
				errs <- err
			}()
		}
		won := 0
		var heir *socket
		for range processes {
			if s := <-got; s != nil {
				won, heir = won+1, s
			}
			if err := <-errs; err != nil && !strings.Contains(err.Error(), "another process serves") {
				t.Errorf("round %d: %v", round, err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d of %d serve", round, won, processes)
		}
		must(t, heir.Close())
	}
}
