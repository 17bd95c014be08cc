package volume

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"holdfast/durable"
)

// tempSuffix is appended to a file's name while it is written. The name is fixed, so that a crash leaves at most one
// such file and the next writer, which also holds the volume's lock, replaces it.
const tempSuffix = ".tmp"

// maxFile is the most that is read of this package's small files, in bytes.
const maxFile = 64 << 10

// ReplaceFile replaces a file: after a crash either the whole old or the whole new content is there. It calls step, if
// not nil, between the steps that a crash can separate. A crash may leave a file named path + [tempSuffix].
func ReplaceFile(path, content string, step func(string)) error {
	return cure(durable.File{Temp: path + tempSuffix, Step: step}.Write(path, []byte(content)))
}

// MakeDirs creates a directory and its parents durably.
func MakeDirs(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return cure(&fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR})
	case !errors.Is(err, fs.ErrNotExist):
		return cure(err)
	}
	parent := filepath.Dir(path)
	if err := MakeDirs(parent); err != nil {
		return err
	}
	// Another node of this machine may create the same root at the same time.
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return cure(err)
	}
	return cure(durable.SyncDir(parent))
}

// ReadSmall reads at most the first 64 KiB of a file; this package writes no larger ones. It does not update the access
// time: that would be a write, which waits for the file system's journal, and a slow disk would look like a lost one.
func ReadSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noAccessTime, 0)
	if errors.Is(err, fs.ErrPermission) { // only a file's owner may open it so
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return data, errors.Join(err, f.Close())
}

// readTag returns the tag at path, or nil if the file is missing or torn; torn then says why it is torn. err is a read
// error, or ErrNewer if a newer holdfast wrote the file.
func readTag(path string) (tag *claimTag, torn error, err error) {
	data, err := ReadSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, cure(err)
	}
	t, err := parseTag(data)
	if errors.Is(err, ErrNewer) {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err != nil {
		return nil, err, nil
	}
	return &t, nil, nil
}

// cure adds to a file-system error, which already names the path, what an operator can do about it.
func cure(err error) error {
	var hint string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = "make room on its file system"
	case errors.Is(err, syscall.EROFS):
		hint = "its file system is read-only: look for disk errors, then remount it"
	case errors.Is(err, fs.ErrPermission):
		hint = "let the user holdfast runs as read and write it"
	case errors.Is(err, syscall.ENOTDIR):
		hint = "a directory is needed there: move the file away or change volume.local.root"
	case errors.Is(err, syscall.EIO):
		hint = "the disk fails: see the kernel log"
	default:
		return err
	}
	return fmt.Errorf("%w (%s)", err, hint)
}
