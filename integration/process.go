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
	from   int64  // where in it this process began
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

// Own starts a process from a thread that lives as long as it does, and calls ended when it has ended. Linux sends the
// parent-death signal when the thread ends that started the child (prctl(2)), and the runtime ends a thread with the
// goroutine that was locked to it: snapshot.Verify in this process would kill a node that was started from the same
// one.
func Own(cmd *exec.Cmd, ended func()) error {
	started := make(chan error)
	go func() { // ends with the process
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // what it says is in the state
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

// signal is for the whole group; a process that is gone is no error.
func (p *process) signal(s syscall.Signal) {
	if !p.ended() {
		_ = syscall.Kill(-p.cmd.Process.Pid, s)
	}
}
