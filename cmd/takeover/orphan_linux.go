package takeover

import "syscall"

// endAtOnce makes the kernel kill a process when its parent is gone: nothing of a rehearsal is worth a hand-over.
func endAtOnce() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
