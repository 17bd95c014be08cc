package gossip

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// impatient has the kernel give a connection up when what was sent is not acknowledged for as long as a stream may
// take. Otherwise it would repeat ever more slowly, and a connection stand still long after a partitioned network
// has healed.
func impatient(_, _ string, c syscall.RawConn) error {
	var err error
	return errors.Join(c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(streamTimeout.Milliseconds()))
	}), err)
}
