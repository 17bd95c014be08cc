package control

import (
	"net"
	"syscall"
)

// peerKnown says that the system knows the user at the other end of a unix socket.
const peerKnown = true

// peerUID returns the user of the process at the other end of a unix socket.
func peerUID(conn net.Conn) (uid uint32, ok bool) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *syscall.Ucred
	if raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}) != nil || err != nil {
		return 0, false
	}
	return cred.Uid, true
}
