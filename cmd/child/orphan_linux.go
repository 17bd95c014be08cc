package child

import "syscall"

// EndWithParent puts a child into a process group of its own, and makes the kernel send it a signal when this process
// ends, even by kill -9.
func EndWithParent(signal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: signal}
}
