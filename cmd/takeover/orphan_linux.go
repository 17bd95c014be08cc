package takeover

import "syscall"

// endAtOnce makes the kernel kill a process when its parent is gone. A rehearsal has nothing to save by a clean stop.
func endAtOnce() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
