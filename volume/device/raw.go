package device

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrBusy is wrapped by errors that say that a device is in use: it is mounted, perhaps in another mount namespace, or
// another program has opened it exclusively.
var ErrBusy = errors.New("it is mounted, or another program has opened it for itself: see lsblk, and fuser -v or " +
	"grep its number in /proc/*/mountinfo")

// edge is how much at the beginning and at the end of a device must be zero for the device to count as never used.
const edge = 1 << 20

// number identifies a device in the kernel. Paths are not compared, because there are links and aliases.
type number struct{ major, minor int }

func (n number) String() string { return fmt.Sprintf("%d:%d", n.major, n.minor) }

func numberOf(dev uint64) number {
	return number{int(unix.Major(dev)), int(unix.Minor(dev))}
}

func numberAt(device string) (number, error) {
	var st unix.Stat_t
	if err := unix.Stat(device, &st); err != nil {
		return number{}, &os.PathError{Op: "stat", Path: device, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return number{}, fmt.Errorf("%s is not a block device", device)
	}
	return numberOf(st.Rdev), nil
}

func open(device string, flags int) (*os.File, error) {
	if _, err := numberAt(device); err != nil {
		return nil, err
	}
	return os.OpenFile(device, flags, 0)
}

// exclusive opens a device so that nobody else can open it so, or mount it, until it is closed. The error is ErrBusy if
// someone has. A program that has opened the device without O_EXCL goes unnoticed.
func exclusive(device string, flags int) (*os.File, error) {
	f, err := open(device, flags|unix.O_EXCL)
	if errors.Is(err, unix.EBUSY) {
		return nil, fmt.Errorf("%s is in use: %w", device, ErrBusy)
	}
	return f, err
}

// notInUse returns nil if nobody has the device mounted or open exclusively at this moment.
func notInUse(device string) error {
	f, err := exclusive(device, os.O_RDONLY)
	if err != nil {
		return err
	}
	return f.Close()
}

// dropCache drops the kernel's cache of a device, so that a program that reads without O_DIRECT, such as blkid, reads
// the device itself.
func dropCache(f *os.File) error {
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("drop the cache of %s: %w", f.Name(), err)
	}
	return nil
}

// aligned returns memory that O_DIRECT can read into.
func aligned(size int) (buffer []byte, free func(), err error) {
	buffer, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("get memory for a block: %w", err)
	}
	return buffer, func() { _ = unix.Munmap(buffer) }, nil
}

// edges returns the offset and the length of the first and of the last MiB.
func edges(size int64) [][2]int64 {
	n := min(size, edge)
	return [][2]int64{{0, n}, {size - n, n}}
}

// firstData returns the offset of the first byte in a device's edges that is not zero, or -1.
func firstData(r io.ReaderAt, size int64, buffer []byte) (int64, error) {
	for _, e := range edges(size) {
		part := buffer[:e[1]]
		if n, err := r.ReadAt(part, e[0]); n < len(part) {
			return -1, fmt.Errorf("read %d bytes at %d: %w", len(part), e[0], err)
		}
		for i, b := range part {
			if b != 0 {
				return e[0] + int64(i), nil
			}
		}
	}
	return -1, nil
}

func wipe(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	zero, free, err := aligned(edge)
	if err != nil {
		return err
	}
	defer free()
	for _, e := range edges(size) {
		if _, err := f.WriteAt(zero[:e[1]], e[0]); err != nil {
			return err
		}
	}
	return f.Sync()
}
