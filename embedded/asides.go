package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"holdfast/embedded/plan"
)

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
		since, reason, ok := parseAside(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		a := plan.Aside{Path: filepath.Join(volume, asideDir, e.Name()), Reason: reason, Since: since}
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
