package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Temporary is the pattern of the names that files have while they are written, unless a [File] says another. What a
// crash leaves bears such a name, and is the caller's to remove.
const Temporary = ".new-*"

// File says how a file is replaced. The zero value makes one that only its owner may use, in a directory where others
// write, too.
type File struct {
	// Temp is the path, in the same directory, at which it is written. A fixed one lets a crash leave one such file at
	// most, and demands that nobody else writes the file at the same time.
	Temp string
	// Keep, if it is not 0, lets a file that is there keep its owner and mode, and gives a new one this mode.
	Keep fs.FileMode
	// Step is called between the steps that a crash can separate, with what has been done.
	Step func(done string)
}

// WriteFile replaces a file, which only its owner may use, in one step: a reader sees the old content or the new one.
func WriteFile(path string, data []byte) error { return File{}.Write(path, data) }

// Write replaces the file at path in one step: a reader sees the old content or the new one. When it returns nil the
// new one survives a crash. After an error the old one is there, but for an error of the last sync.
func (w File) Write(path string, data []byte) (err error) {
	step := w.Step
	if step == nil {
		step = func(string) {}
	}
	f, err := w.create(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // it is renamed, or of no use
		}
	}()
	step("created " + filepath.Base(f.Name()))
	_, err = f.Write(data)
	if err == nil && w.Keep != 0 {
		err = w.dress(f, path)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	step("wrote " + filepath.Base(f.Name()))
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	step("renamed " + filepath.Base(path))
	return SyncDir(filepath.Dir(path))
}

// create makes the temporary file, which is new: what a crash has left, or a link that somebody put there, is removed.
func (w File) create(dir string) (*os.File, error) {
	if w.Temp == "" {
		return os.CreateTemp(dir, Temporary) // with mode 0600
	}
	if err := syscall.Unlink(w.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &fs.PathError{Op: "unlink", Path: w.Temp, Err: err}
	}
	return os.OpenFile(w.Temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// dress gives f the owner and mode of the file that it will replace.
func (w File) dress(f *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.Chmod(w.Keep)
	}
	if err != nil {
		return err
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	owner, _ := old.Sys().(*syscall.Stat_t)
	mine, _ := now.Sys().(*syscall.Stat_t)
	if owner != nil && mine != nil && (owner.Uid != mine.Uid || owner.Gid != mine.Gid) {
		if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
			return fmt.Errorf("keep its owner: %w", err)
		}
	}
	return f.Chmod(old.Mode().Perm()) // after the owner, of which a change can take bits away
}

// SyncDir makes the names in a directory durable: files made, renamed and removed there.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
