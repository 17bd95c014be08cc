package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// asideDir stands beside the data directory on its volume.
const asideDir = "aside"

// reasonWords begin with a letter each, so that no reason ends like the number that SetAside may add.
const reasonWords = `[a-z][a-z0-9]*(?:-[a-z][a-z0-9]*)*`

var validReason = regexp.MustCompile(`^` + reasonWords + `$`)

// SetAside moves the data directory away, to aside/<unix time>-<reason>[-n] beside it, and returns the new path once
// that is durable. Nothing is deleted. Where there is nothing to move it returns "" and no error, so it can be repeated
// after a crash. reason is words of lower-case letters and digits, each beginning with a letter, joined by "-".
// errLocked while somebody uses the directory.
func (Disk) SetAside(dir, reason string) (newPath string, err error) {
	if !validReason.MatchString(reason) {
		return "", fmt.Errorf("set aside %s: reason must be lower-case words that begin with a letter, joined by -, got %q",
			dir, reason)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", durable.SyncDir(filepath.Dir(dir)) // never there, or moved just before a crash
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	defer lock.Close()
	if err := probeBackend(dir); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	if newPath, err = nameAside(filepath.Dir(dir), reason); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	if err := os.Rename(dir, newPath); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	if err := errors.Join(durable.SyncDir(filepath.Dir(newPath)), durable.SyncDir(filepath.Dir(dir))); err != nil {
		return "", fmt.Errorf("set aside %s: %w", dir, err)
	}
	return newPath, nil
}

// nameAside returns a new name for what is set aside on a volume, in a directory that is there.
func nameAside(volume, reason string) (string, error) {
	aside := filepath.Join(volume, asideDir)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return "", err
	}
	return freeName(filepath.Join(aside, strconv.FormatInt(time.Now().Unix(), 10)+"-"+reason))
}

// asideName is what SetAside names: the time, the reason, and a number where that was taken.
var asideName = regexp.MustCompile(`^([0-9]{1,12})-(` + reasonWords + `)(?:-[0-9]+)?$`)

// Reclaim deletes for good what was set aside on a volume before a time, for one of the reasons, and returns it. Other
// names, other reasons and what is no directory stay, and no symbolic link is followed. A deletion that was cut short
// continues at the next call: the name stays until all below it is gone. One that cannot be deleted does not keep the
// others; the error names it.
func (d Disk) Reclaim(volume string, before time.Time, reasons []string) (removed []plan.Aside, err error) {
	aside := filepath.Join(volume, asideDir)
	if info, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil // nothing was set aside, and a link to elsewhere is not ours
	}
	all, err := d.Aside(volume)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range all {
		if !a.Since.Before(before) || !slices.Contains(reasons, a.Reason) {
			continue
		}
		if err := os.RemoveAll(a.Path); err != nil {
			errs = append(errs, fmt.Errorf("reclaim %s: %w", a.Path, err))
			continue
		}
		removed = append(removed, a)
	}
	if len(removed) > 0 {
		errs = append(errs, durable.SyncDir(aside))
	}
	return removed, errors.Join(errs...)
}

// parseAside takes apart a name that SetAside has given.
func parseAside(name string) (since time.Time, reason string, ok bool) {
	parts := asideName.FindStringSubmatch(name)
	if parts == nil {
		return time.Time{}, "", false
	}
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	return time.Unix(seconds, 0), parts[2], err == nil
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
