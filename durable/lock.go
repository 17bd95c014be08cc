package durable

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Flock calls flock(2), and again if a signal interrupts it. With LOCK_NB it does not wait: if another process has the
// lock, the error is EWOULDBLOCK.
func Flock(f *os.File, how int) error {
	return Uninterrupted(func() error { return unix.Flock(int(f.Fd()), how) })
}

// Uninterrupted repeats a system call that a signal interrupts.
func Uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
