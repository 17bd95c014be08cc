//go:build !linux

package child

import "syscall"

// EndWithParent asks for nothing: only Linux tells a process that its parent is gone. Nodes outlive a demo that
// was killed by kill -9, and the lock of its directory says so.
func EndWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
