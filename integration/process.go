package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// process is a started program in a process group of its own. It dies with the test.
type process struct {
	cmd    *exec.Cmd
	log    string // file
	from   int64  // the offset in the log at which this process began
	paused bool
	done   chan struct{}
	code   int // read after done
}

func start(cmd *exec.Cmd, dir string, env []string) (*process, error) {
	p := &process{cmd: cmd, log: filepath.Join(dir, "node.log"), done: make(chan struct{})}
	f, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	p.from = info.Size()
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	if err := Own(p.cmd, func() {
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// Own starts a process from a thread that lives as long as the process, and calls ended when the process has ended.
// Linux sends the parent-death signal when the thread that started the child ends (prctl(2)), and the runtime ends a
// thread with the goroutine that is locked to it. Without Own, snapshot.Verify in this process could kill a node.
func Own(cmd *exec.Cmd, ended func()) error {
	started := make(chan error)
	go func() { // ends when the process does
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ProcessState has the result
			ended()
		}
	}()
	return <-started
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process group, if the process runs.
func (p *process) signal(s syscall.Signal) {
	if !p.ended() {
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}
