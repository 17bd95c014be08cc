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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/durable"
	"holdfast/embedded/plan"
	"holdfast/layout"
)

// asideDir is beside the data directory on its volume.
const asideDir = "aside"

// reasonWords each begin with a letter, so that no reason ends like the number that SetAside may add.
const reasonWords = `[a-z][a-z0-9]*(?:-[a-z][a-z0-9]*)*`

var validReason = regexp.MustCompile(`^` + reasonWords + `$`)

// SetAside moves the data directory to aside/<unix time>-<reason>[-n] beside it, and returns the new path once that is
// durable. Nothing is deleted. If there is nothing to move, it returns "" and no error, so it can be repeated after a
// crash. reason consists of words of lower-case letters and digits, joined by "-"; each begins with a letter. The error
// is errLocked while another process uses the directory.
func (Disk) SetAside(dir, reason string) (newPath string, err error) {
	defer during(&err, "set aside %s", dir)
	if !validReason.MatchString(reason) {
		return "", fmt.Errorf("reason must be lower-case words that begin with a letter, joined by -, got %q", reason)
	}
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", durable.SyncDir(filepath.Dir(dir)) // never there, or moved just before a crash
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := probeBackend(dir); err != nil {
		return "", err
	}
	to, err := nameAside(filepath.Dir(dir), reason)
	if err == nil {
		err = os.Rename(dir, to)
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(filepath.Dir(to)), durable.SyncDir(filepath.Dir(dir)))
	}
	if err != nil {
		return "", err
	}
	return to, nil
}

// nameAside makes the directory aside on a volume if need be, and returns an unused path in it. Only the holder of the
// volume creates names there, so there is no race.
func nameAside(volume, reason string) (string, error) {
	aside := filepath.Join(volume, asideDir)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(aside, strconv.FormatInt(time.Now().Unix(), 10)+"-"+reason)
	name := path
	for n := 2; ; n++ {
		if there, err := layout.Exists(name); err != nil || !there {
			return name, err
		}
		name = path + "-" + strconv.Itoa(n)
	}
}

// asideName matches the names that SetAside gives: the time, the reason, and a number if that name was taken.
var asideName = regexp.MustCompile(`^([0-9]{1,12})-(` + reasonWords + `)(?:-[0-9]+)?$`)

// Reclaim deletes for good what was set aside on a volume before a given time for one of the reasons, and returns it.
// It leaves other names, other reasons and anything but directories alone, and follows no symbolic link. An interrupted
// deletion continues at the next call, because the name stays until everything below it is gone. A directory that
// cannot be deleted does not hold up the others; the error names it.
func (d Disk) Reclaim(volume string, before time.Time, reasons []string) (removed []plan.Aside, err error) {
	aside := filepath.Join(volume, asideDir)
	if info, err := os.Lstat(aside); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil // nothing was set aside; a symbolic link is not ours
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

// Aside lists what was set aside on a volume, the oldest first. It leaves out names that SetAside does not give: they
// are not ours.
func (Disk) Aside(volume string) ([]plan.Aside, error) {
	entries, err := os.ReadDir(filepath.Join(volume, asideDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list what was set aside: %w", err)
	}
	var all []plan.Aside
	for _, e := range entries {
		parts := asideName.FindStringSubmatch(e.Name())
		if parts == nil || !e.IsDir() {
			continue
		}
		seconds, _ := strconv.ParseInt(parts[1], 10, 64) // 12 digits fit
		a := plan.Aside{Path: filepath.Join(volume, asideDir, e.Name()), Reason: parts[2], Since: time.Unix(seconds, 0)}
		if a.Bytes, err = bytesIn(a.Path); err != nil {
			return nil, fmt.Errorf("list what was set aside: %w", err)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b plan.Aside) int { return a.Since.Compare(b.Since) })
	return all, nil
}

// bytesIn returns how much space a directory takes. Files may disappear while it counts.
func bytesIn(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			total += st.Blocks * 512 // stat(2): in units of 512 bytes, whatever the file system's block size
		}
		return nil
	})
	return total, err
}

// roomBeside is what must stay free on a volume on which a second data directory is built. The logs of both directories
// take two files of 64 MB each (etcd's SegmentSizeBytes), and the member in use keeps writing.
const roomBeside = 512 << 20

// RoomToBuild returns how many bytes must be free on a volume to build a data directory there, beside the one in use.
// bytes is the size of the new database.
func RoomToBuild(bytes int64) int64 { return bytes + roomBeside }

// Room returns an error unless the volume has RoomToBuild(bytes) free.
func (Disk) Room(volume string, bytes int64) error {
	free, err := freeSpace(volume)
	if err == nil && free < RoomToBuild(bytes) {
		what := "what is not holdfast's"
		aside := filepath.Join(volume, asideDir)
		if all, _ := os.ReadDir(aside); len(all) > 0 { // if it cannot be read, the error does not name it
			what = "from " + aside + " what is not needed"
		}
		err = fmt.Errorf("the volume has %d MiB free, and %d MiB are needed beside the data in use: make the volume "+
			"larger, or delete %s", free>>20, RoomToBuild(bytes)>>20, what)
	}
	return err
}

// freeSpace returns how many bytes can be written to the volume.
func freeSpace(volume string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(volume, &st); err != nil {
		return 0, fmt.Errorf("check the free space of %s: %w", volume, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
