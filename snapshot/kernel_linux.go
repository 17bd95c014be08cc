package snapshot

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// longTurn is longer than the kernel's own (at most 3 ms), so that any thread that wakes up interrupts a thread with it
// at once, where the kernel knows lengths (6.12). It must be short: of a busy core such a thread gets a tenth, so after
// one turn it waits for some ten, and Go stops the world, for the collector, only when each thread has had its turn.
const longTurn = 5 * time.Millisecond

// lowerThread gives the calling thread a niceness, and makes it one that computes (sched(7), SCHED_BATCH) in turns of
// longTurn. Measured on 2 cores with three such threads and turns of 100 ms, the p99 of how late another wakes from a
// sleep of 2 ms: 0.5 ms with the niceness alone, 0.1 ms with this. If a sandbox refuses both, the member is slower
// meanwhile.
func lowerThread(niceness int) {
	computes := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_BATCH, Nice: int32(niceness),
		Runtime: uint64(longTurn)}
	if unix.SchedSetAttr(0, &computes, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
	}
}

// forget makes the kernel drop its cache of a file that is on the disk. It is advice, and may be refused.
func forget(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// writeOut sends the bytes between from and at to the disk, and waits for those between before and from.
func writeOut(f *os.File, before, from, at int64) error {
	fd := int(f.Fd())
	err := unix.SyncFileRange(fd, from, at-from, unix.SYNC_FILE_RANGE_WRITE)
	if err == nil && from > before {
		err = unix.SyncFileRange(fd, before, from-before,
			unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
	// A file system or a sandbox that does not know it is no reason to fail: the sync at the end is what counts.
	if err != nil && !slices.Contains([]error{unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP}, err) {
		return os.NewSyscallError("sync_file_range", err)
	}
	return nil
}
