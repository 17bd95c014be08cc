package volume

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"holdfast/layout"
)

// ErrBusy means that another process, or another provider of this one, holds the lock.
var ErrBusy = errors.New("held by another process")

// lock is an open file or directory that is locked for as long as it is open. The open file also
// keeps its inode from being used again, so that comparing inodes is safe.
type lock struct {
	path string
	file *os.File
	info os.FileInfo
}

// LockFile locks a file, which it creates, until unlock is called or the process ends, however it ends. A symbolic link
// is not followed. The error wraps [ErrBusy] when another process has the lock.
func LockFile(path string) (unlock func(), err error) {
	l, err := lockPath(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(l.release), nil
}

// lockPath locks a file, which is created when flag says so, or a directory. Go opens every file
// O_CLOEXEC: a child process does not inherit the lock. ErrBusy when it is held.
func lockPath(path string, flag int) (*lock, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX)
	var info os.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		closeLock(f)
		return nil, err
	}
	l := &lock{path: path, file: f, info: info}
	// Between opening and locking the name may have been given to another file.
	if why := l.moved(); why != nil {
		closeLock(f)
		return nil, fmt.Errorf("%w: %w", ErrBusy, why)
	}
	return l, nil
}

// name tells the lock from every other one, a copy of its file on this machine or another one too, but for a clone of
// the machine with its memory: while the file is open nothing else has its inode. A kernel that names no boot may be
// that of another machine: "".
func (l *lock) name() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	st, ok := l.info.Sys().(*syscall.Stat_t)
	if err != nil || !ok {
		return ""
	}
	return fmt.Sprintf("%s/%d/%d", strings.TrimSpace(string(boot)), st.Dev, st.Ino)
}

// isLocked reports whether somebody holds the lock at path. It takes the lock for an instant, shared, so
// that two who look do not disturb each other; a Claim of that very instant sees it as held.
func isLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, cure(missing(err))
	}
	defer f.Close()
	return layout.Locked(f)
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// moved is nil while the path still leads to what was locked.
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

// release gives the lock up. It is safe to call on nil.
func (l *lock) release() {
	if l != nil {
		closeLock(l.file)
	}
}

// closeLock unlocks before it closes: a child process that was forked this instant and has not come
// to its exec holds a copy of the file, and with it the lock, which closing ours would not give up.
func closeLock(f *os.File) {
	_ = flock(f, unix.LOCK_UN)
	_ = f.Close()
}
