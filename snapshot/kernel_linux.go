package snapshot

import (
	"os"

	"golang.org/x/sys/unix"
)

// lowerThread gives the calling thread a niceness. If a sandbox refuses it, the member is slower meanwhile.
func lowerThread(niceness int) { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness) }

// forget makes the kernel drop its cache of a file that is on the disk. It is advice, and may be refused.
func forget(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// readAhead makes the kernel read ahead in mapped data that is not in memory, until it finds that this misses. bbolt
// asks for the opposite, a page at a time, which takes fifteen times as long for a database that does not fit.
func readAhead(data []byte) { _ = unix.Madvise(data, unix.MADV_NORMAL) }

// willNeed makes the kernel begin to read mapped data that is not in memory.
func willNeed(data []byte) { _ = unix.Madvise(data, unix.MADV_WILLNEED) }
