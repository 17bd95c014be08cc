package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/durable"
)

// socketCheck is how often a node looks whether its socket is still at its path.
const socketCheck = time.Second

// socket is the control socket. It is made again when its file is gone, such as after a cleaner of temporary files:
// otherwise the node would run, and nobody could ask it. Only one goroutine accepts.
type socket struct {
	path string
	lg   *zap.Logger
	said string // the last error

	mu     sync.Mutex // for what Close needs
	listen *net.UnixListener
	file   fs.FileInfo // of listen, at path
	closed bool
}

func listenAt(path string, lg *zap.Logger) (*socket, error) {
	l, file, err := listenUnix(path)
	if err != nil {
		return nil, err
	}
	return &socket{path: path, lg: lg, listen: l, file: file}, nil
}

func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Accept waits for the next connection.
func (s *socket) Accept() (net.Conn, error) {
	for {
		if err := s.listen.SetDeadline(time.Now().Add(socketCheck)); err != nil {
			return nil, err
		}
		conn, err := s.listen.Accept()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return conn, err
		}
		s.repair()
	}
}

// repair listens again if another file than the socket is at the path, or none. It takes no other process's place.
func (s *socket) repair() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.atPath() {
		s.said = ""
		return
	}
	l, file, err := listenUnix(s.path)
	if err != nil {
		if s.said != err.Error() {
			s.lg.Error("the control socket is gone, and could not be made again: commands on this machine do not reach this "+
				"node", zap.Error(err))
		}
		s.said = err.Error()
		return
	}
	_ = s.listen.Close() // nobody can reach it any more
	s.listen, s.file = l, file
	s.lg.Warn("the control socket was gone, and was made again", zap.String("path", s.path))
}

// atPath reports whether the file at the path is this socket.
func (s *socket) atPath() bool {
	at, err := os.Lstat(s.path)
	return err == nil && os.SameFile(at, s.file)
}

// Close stops listening. It removes the file, unless that is another process's by now.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.atPath() {
		_ = os.Remove(s.path)
	}
	s.closed = true
	return s.listen.Close()
}

// lockWait bounds the wait for another process that makes its socket, which takes a moment.
const lockWait = 5 * time.Second

// lock takes the lock on a directory, which its closing releases.
func lock(dir *os.File) error {
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		err := durable.Flock(dir, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Since(begin) > lockWait {
			return err
		}
	}
}

// Served returns an error if another process serves the socket at path.
func Served(path string) error {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		_ = c.Close()
	}
	if err == nil || errors.Is(err, syscall.EAGAIN) { // the queue of a suspended process is full
		return fmt.Errorf("control.socket: another process serves %s: is holdfast running here already? (give each node "+
			"its own node.data-dir)", path)
	}
	return nil
}

// listenUnix listens on a socket. It replaces a socket that no process uses any more. The file outlives the listener.
// The directory is locked meanwhile: of two processes that find the same stale socket, the second would otherwise
// replace the one that the first has just made.
func listenUnix(path string) (*net.UnixListener, fs.FileInfo, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, nil, fmt.Errorf("control.socket: %w", err)
	}
	defer dir.Close()
	if err := lock(dir); err != nil {
		return nil, nil, fmt.Errorf("control.socket: lock the directory of %s: %w", path, err)
	}
	at := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", at)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err := Served(path); err != nil {
			return nil, nil, err
		}
		if err := config.PlaceOfSocket(path); err != nil {
			return nil, nil, err
		}
		if err = os.Remove(path); err == nil {
			l, err = net.ListenUnix("unix", at)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("control.socket: %w", err)
	}
	file, err := os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("control.socket: %w", err), l.Close())
	}
	l.SetUnlinkOnClose(false)
	return l, file, nil
}
