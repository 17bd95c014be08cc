package volume

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"holdfast/durable"
	"holdfast/layout"
)

// ErrBusy means that another process, or another provider in this process, holds the lock.
var ErrBusy = errors.New("held by another process")

// lock is a file or directory that is locked for as long as it is open. While it is open, its inode is not reused, so
// that inodes can safely be compared.
type lock struct {
	path string
	file *os.File
	info os.FileInfo
}

// LockFile creates a file and locks it until unlock is called or the process ends in any way. It does not follow a
// symbolic link. The error wraps [ErrBusy] if another process has the lock.
func LockFile(path string) (unlock func(), err error) {
	l, err := lockPath(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(l.release), nil
}

// lockPath locks a directory, or a file, which it creates if flag says so. Go opens every file O_CLOEXEC: a child
// process does not inherit the lock. The error is ErrBusy if the lock is held.
func lockPath(path string, flag int) (*lock, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	var info os.FileInfo
	switch err = durable.Flock(f, unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrBusy
	case err != nil:
		err = fmt.Errorf("lock %s: %w", path, err)
	default:
		info, err = f.Stat()
	}
	if err != nil {
		closeLock(f)
		return nil, err
	}
	l := &lock{path: path, file: f, info: info}
	// The name may have been given to another file between opening and locking.
	if why := l.moved(); why != nil {
		closeLock(f)
		return nil, fmt.Errorf("%w: %w", ErrBusy, why)
	}
	return l, nil
}

// bootID is the kernel's, which lasts as long as this process may.
var bootID = sync.OnceValues(func() ([]byte, error) { return os.ReadFile("/proc/sys/kernel/random/boot_id") })

// name identifies the lock by the kernel's boot ID and the file's device and inode, which stays unique while the file
// is open. No other lock has this name, on this machine or another, except on a clone of the machine with its memory.
// Where the boot ID cannot be read, the name could be that of another machine's lock, so it is "".
func (l *lock) name() string {
	boot, err := bootID()
	st, ok := l.info.Sys().(*syscall.Stat_t)
	if err != nil || !ok {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", strings.TrimSpace(string(boot)), st.Dev, st.Ino)
}

// isLocked reports whether another process holds the lock at path. It takes a shared lock for a moment, so that two
// processes that look do not disturb each other. A Claim at exactly that moment sees the lock as held.
func isLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, cure(missing(err))
	}
	defer f.Close()
	return layout.Locked(f)
}

// moved returns nil while the path still leads to the locked file.
func (l *lock) moved() error {
	info, err := os.Stat(l.path)
	if err != nil {
		return err
	}
	if !os.SameFile(info, l.info) {
		return fmt.Errorf("%s was replaced", l.path)
	}
	return nil
}

// release gives up the lock. It does nothing on nil.
func (l *lock) release() {
	if l != nil {
		closeLock(l.file)
	}
}

// closeLock unlocks before it closes. A child process that was just forked has a copy of the open file, and with it the
// lock, until its exec. So closing ours would not give up the lock.
func closeLock(f *os.File) {
	_ = durable.Flock(f, unix.LOCK_UN)
	_ = f.Close()
}
