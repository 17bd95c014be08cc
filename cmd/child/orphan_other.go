//go:build !linux

package child

import "syscall"

// EndWithParent puts a child into a process group of its own. Only Linux signals a process whose parent has ended. On
// other systems, nodes outlive a demo that was killed, and keep the lock of its directory.
func EndWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
