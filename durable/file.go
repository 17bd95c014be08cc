package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Temporary is the pattern of the names of files that are being written, unless [File] has another. A crash may leave
// such files; the caller removes them.
const Temporary = ".new-*"

// File says how to replace a file. The zero value makes a file that only its owner may use, and allows several writers
// in the directory.
type File struct {
	// Temp is the path of the temporary file, in the same directory. With a fixed path a crash leaves at most one such
	// file, but only one process at a time may write.
	Temp string
	// Keep, if not 0, keeps the owner and mode of an existing file, and is the mode of a new one.
	Keep fs.FileMode
	// Step is called between the steps that a crash can separate, with what has been done.
	Step func(done string)
}

// WriteFile replaces a file as [File.Write] does. Only the owner may use the new file.
func WriteFile(path string, data []byte) error { return File{}.Write(path, data) }

// Write replaces the file at path atomically: a reader sees the old content or the new one. If it returns nil, the new
// content survives a crash. After an error the old content is there, unless only the last sync failed.
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
			_ = os.Remove(f.Name()) // fails if it was renamed
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

// create makes the temporary file. It removes an old one, which a crash left, or a link that someone put there.
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
	return f.Chmod(old.Mode().Perm()) // last, because a change of owner can clear bits
}

// SyncDir makes changes of names in a directory durable: files created, renamed and removed.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ReadSecret reads a file of at most max bytes that only its owner may use. An error names the file and the cure.
func ReadSecret(path string, max int) ([]byte, error) { return read(path, max, true) }

// Read reads a file of at most max bytes. An error names the file.
func Read(path string, max int) ([]byte, error) { return read(path, max, false) }

// Private returns the error of [ReadSecret] for a file that others than its owner may use. It does not read the file.
func Private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return private(path, info)
}

func read(path string, max int, secret bool) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if secret {
		info, err := f.Stat()
		if err == nil {
			err = private(path, info)
		}
		if err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(max)+1))
	if err == nil && len(text) > max {
		err = fmt.Errorf("%s: has more than %d bytes", path, max)
	}
	return text, err
}

func private(path string, info fs.FileInfo) error {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s: others may use it (mode %04o): run chmod 600 %s", path, mode, path)
	}
	return nil
}
