package cmd

import "syscall"

// orphanAttr makes the kernel stop a child when this process is gone, even by kill -9.
func orphanAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
