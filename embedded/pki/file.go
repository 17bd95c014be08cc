package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"holdfast/durable"
)

// maxFile bounds a file that is read, in bytes; a bundle has a few kilobytes.
const maxFile = 1 << 20

// makeDir creates a directory if need be, makes it private, and removes what a crash left behind.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if info.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory
			return err
		}
	}
	return sweep(dir)
}

// abandoned is the age from which a temporary file counts as left by a crash. Younger ones may still be written, by
// this process or by a command.
const abandoned = time.Hour

// sweep removes temporary files that a crash has left: ours, and those of others that keep files here.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, durable.Temporary))
	errs := []error{err}
	for _, path := range left {
		info, err := os.Lstat(path)
		if err == nil && time.Since(info.ModTime()) > abandoned {
			err = os.Remove(path)
		}
		if !errors.Is(err, fs.ErrNotExist) { // it was renamed or removed meanwhile
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
