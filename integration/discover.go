package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// Observer is a process of `holdfast discover`, with a directory of its own.
type Observer struct {
	Dir     string
	Address string

	c       *Cluster
	args    []string
	process *process
}

// Observe makes an observer at the i-th address; nothing runs yet. args follow `holdfast discover`.
func (c *Cluster) Observe(i int, args ...string) *Observer {
	c.t.Helper()
	o := &Observer{Address: c.Address(i), c: c}
	o.Dir = filepath.Join(c.Dir, fmt.Sprintf("o%d", i))
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	o.args = append([]string{"discover", "--cluster.name", c.Name, "--node.name", fmt.Sprintf("o%d", i), "--node.address",
		o.Address, "--log.format", "json"}, args...)
	for _, n := range c.Nodes {
		o.args = append(o.args, "--gossip.seeds", n.Address)
	}
	return o
}

// Start starts the process.
func (o *Observer) Start() {
	o.c.t.Helper()
	p, err := start(exec.Command(o.c.binary, o.args...), o.Dir, o.c.env)
	if err != nil {
		o.c.t.Fatalf("start the observer at %s: %v", o.Address, err)
	}
	o.process = p
	o.c.t.Cleanup(o.Kill)
}

// Kill kills the process and waits until it is gone.
func (o *Observer) Kill() {
	if o.process != nil {
		o.process.signal(syscall.SIGKILL)
		<-o.process.done
	}
}

// Signal sends a signal to the process.
func (o *Observer) Signal(s syscall.Signal) { o.process.signal(s) }

// Exit waits for the process to end and returns its exit code, or -1 after a signal.
func (o *Observer) Exit(within time.Duration) int {
	o.c.t.Helper()
	select {
	case <-o.process.done:
		return o.process.code
	case <-time.After(within):
		o.c.t.Fatalf("the observer at %s has not ended within %s\n%s", o.Address, within, o.Log())
		return 0
	}
}

// Log returns what the process has written since its last start.
func (o *Observer) Log() string { return (&Node{process: o.process}).Log() }

var answering = regexp.MustCompile(`"msg":"answering DNS","address":"([^"]*)"`)

// DNS waits for the address at which the observer answers DNS, and returns it.
func (o *Observer) DNS() (address string) {
	o.c.t.Helper()
	o.c.Until(patience, "the observer answers DNS", func() error {
		m := answering.FindStringSubmatch(o.Log())
		if m == nil {
			return fmt.Errorf("it says\n%s", o.Log())
		}
		address = m[1]
		return nil
	})
	return address
}
