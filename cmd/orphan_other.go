//go:build !linux

package cmd

import "syscall"

// orphanAttr asks for nothing: only Linux tells a process that its parent is gone. Nodes outlive a demo that
// was killed by kill -9, and the lock of its directory says so.
func orphanAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
