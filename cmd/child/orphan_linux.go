package child

import "syscall"

// EndWithParent makes the kernel stop a child when this process is gone, even by kill -9.
func EndWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
