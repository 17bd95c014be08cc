package child

import "syscall"

// EndWithParent makes the kernel send SIGTERM to a child when this process ends, even by kill -9.
func EndWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }
