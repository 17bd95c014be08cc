package cmd

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"holdfast/cmd/config"
)

// restartAfter is how long a node that died stays away.
const restartAfter = time.Second

// demoChild is one node's `holdfast run` process, and those that follow it when it dies.
type demoChild struct {
	node demoNode
	// command makes the process that is started next.
	command func() (*exec.Cmd, error)

	// What follows is the demo's account of it, kept by [demo.heed] alone.
	process *os.Process // nil: none runs
	since   time.Time   // of the last start or death
	death   string      // how the last process ended
	deaths  []time.Time // the recent ones
}

// demoEvent is a start (process is set) or an end (err says which).
type demoEvent struct {
	child   *demoChild
	process *os.Process
	err     error
}

// run starts the process again and again until stop is closed and the process has ended. It ends the process
// by no means: that is for whoever closes stop.
func (c *demoChild) run(stop <-chan struct{}, events chan<- demoEvent) {
	// Linux sends the parent-death signal when the thread ends that started the child (prctl(2)), and Go ends
	// threads as it likes. So this one lives as long as the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		events <- demoEvent{child: c, err: c.once(events)}
		select {
		case <-stop:
			return
		case <-time.After(restartAfter):
		}
	}
}

// once runs the process to its end. The error says how it ended; it is never nil.
func (c *demoChild) once(events chan<- demoEvent) error {
	log, err := os.OpenFile(c.node.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open its log: %w", err)
	}
	defer log.Close()
	cmd, err := c.command()
	if err != nil {
		return err
	}
	cmd.Env = withoutOurs(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start it: %w", err)
	}
	events <- demoEvent{child: c, process: cmd.Process}
	_ = cmd.Wait() // the state says it all
	return fmt.Errorf("%s", strings.Replace(cmd.ProcessState.String(), "exit status", "exit code", 1))
}

// onThisMachine makes the process of a node that runs as any other does. It inherits the lock, see demoDir.
func onThisMachine(exe, config string, lock *os.File) *exec.Cmd {
	cmd := exec.Command(exe, "run", "--config", config)
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = orphanAttr()
	cmd.SysProcAttr.Setpgid = true // Ctrl-C on the terminal is for the demo, which stops the nodes in its own way
	return cmd
}

// withoutOurs leaves out the variables that would change the nodes' configuration behind the file's back.
func withoutOurs(environ []string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, config.VariablePrefix) {
			kept = append(kept, v)
		}
	}
	return kept
}

// tail returns the last lines of a log, at most n, without what is older than its last 16 KiB.
func tail(path string, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	const most = 16 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd) // failing that, the beginning is read
	}
	data, _ := io.ReadAll(io.LimitReader(f, most))
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[max(0, len(lines)-n):]
}
