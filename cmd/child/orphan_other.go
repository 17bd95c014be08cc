//go:build !linux

package child

import "syscall"

// EndWithParent does nothing, because only Linux signals a process whose parent has ended. On other systems, nodes
// outlive a demo that was killed, and keep the lock of its directory.
func EndWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
