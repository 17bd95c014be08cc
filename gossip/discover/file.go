package discover

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"holdfast/durable"
)

// fileMode is that of a file that was not there: what it holds is for every client on the machine.
const fileMode = 0o644

// outputFile is a file that is kept up to date.
type outputFile struct {
	Path string
	// edit returns what the file should hold for what it holds, nil when there is none; the note is what was wrong with
	// it.
	edit func(old []byte) (data []byte, note string)
}

// Sync brings the file to what edit makes of it, and does not touch one that is so already. It reports whether it
// wrote, and what was wrong in the file. Only one process at a time is in here for a file, whichever cluster it serves.
func (f outputFile) Sync() (wrote bool, note string, err error) {
	path, err := filepath.EvalSymlinks(f.Path) // a link stays one: its target is what is replaced
	if errors.Is(err, fs.ErrNotExist) {
		path, err = f.Path, nil
	}
	if err != nil {
		return false, "", fmt.Errorf("find %s: %w", f.Path, err)
	}
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return false, "", fmt.Errorf("lock the directory of %s: %w", path, err)
	}
	defer unlock()
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, "", err
	}
	data, note := f.edit(old)
	if err == nil && bytes.Equal(old, data) || err != nil && len(data) == 0 {
		return false, note, nil
	}
	if err := replace(path, data); err != nil {
		if !impossible(err) {
			return false, note, fmt.Errorf("replace %s: %w", path, err)
		}
		if inPlace := overwrite(path, old, data); inPlace != nil {
			return false, note, fmt.Errorf("write %s in place, for it cannot be replaced (%w): %w", path, err, inPlace)
		}
	}
	return true, note, nil
}

// lock takes the flock of a directory. It ends with the process, however that ends.
func lock(dir string) (func(), error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := durable.Flock(d, syscall.LOCK_EX); err != nil {
		d.Close()
		return nil, err
	}
	return func() { d.Close() }, nil
}

// impossible reports whether a rename can never succeed: onto a mount point, or in a directory that is not ours.
func impossible(err error) bool {
	for _, e := range []error{syscall.EBUSY, syscall.EXDEV, syscall.EROFS, syscall.EPERM, syscall.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// replace puts a new file in the place of path, with its mode and owner. A kill leaves one hidden file at most.
func replace(path string, data []byte) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".holdfast")
	return durable.File{Temp: temporary, Keep: fileMode}.Write(path, data)
}

// overwrite writes data over old where it differs. What is longer is blanked by the same write and cut off then, so
// that a reader never sees an end of the old content after the new one.
func overwrite(path string, old, data []byte) error {
	same := 0
	for same < min(len(old), len(data)) && old[same] == data[same] {
		same++
	}
	changed := bytes.Clone(data[same:])
	if n := len(old) - len(data); n > 0 {
		changed = append(changed, bytes.Repeat([]byte("\n"), n)...)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(changed, int64(same))
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
