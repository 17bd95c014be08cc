package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// asideDir stands beside the data directory on its volume.
const asideDir = "aside"

var validReason = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// SetAside moves the data directory away, to aside/<unix time>-<reason>[-n] beside it, and
// returns the new path once that is durable. Nothing is deleted. Where there is nothing to
// move it returns "" and no error, so it can be repeated after a crash. reason is words of
// lower-case letters and digits, joined by "-". ErrLocked while somebody uses the directory.
func SetAside(dir, reason string) (newPath string, err error) {
	if !validReason.MatchString(reason) {
		return "", fmt.Errorf("set aside %s: reason must be lower-case words joined by -, got %q", dir, reason)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", syncDir(filepath.Dir(dir)) // never there, or moved just before a crash
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	defer lock.Close()
	if err := probeBackend(dir); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	volume := filepath.Dir(dir)
	aside := filepath.Join(volume, asideDir)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	newPath, err = freeName(filepath.Join(aside, strconv.FormatInt(time.Now().Unix(), 10)+"-"+reason))
	if err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	if err := os.Rename(dir, newPath); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	if err := errors.Join(syncDir(aside), syncDir(volume)); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	return newPath, nil
}

// freeName returns path, or path-2, path-3 … which does not exist yet. Only the holder of
// the volume makes names there.
func freeName(path string) (string, error) {
	name := path
	for n := 2; ; n++ {
		_, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		name = path + "-" + strconv.Itoa(n)
	}
}

// syncDir makes renames in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
