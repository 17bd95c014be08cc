package integration_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
)

// seat is a machine of a cluster that moves from one program to another, and back. Either the other program or
// holdfast runs there, on the same data and at the same addresses.
type seat struct {
	t    *testing.T
	slot string
	url  string            // client URL of the member
	data string            // directory of the data, for this process
	node *integration.Node // holdfast
	// other starts the other program; elder is the process that it last started, or nil.
	other func() *program
	elder *program
	etcd  string         // the version of the other program, if its own files do not have it
	stop  syscall.Signal // the signal that stops the other program
}

// start starts the other program.
func (s *seat) start() {
	s.t.Helper()
	if s.elder.running() || s.node.Running() {
		s.t.Fatalf("something runs on %s already", s.slot)
	}
	s.elder = s.other()
}

// end stops whatever runs, as an operator does.
func (s *seat) end() {
	s.t.Helper()
	if s.elder.running() {
		s.elder.signal(s.stop)
		s.elder.exit(patience)
	}
	if s.node.Running() {
		s.node.Signal(syscall.SIGTERM)
		s.node.Exit(time.Minute)
	}
}

// cut kills whatever runs.
func (s *seat) cut() {
	s.t.Helper()
	s.elder.signal(syscall.SIGKILL)
	s.elder.exit(patience)
	s.node.Kill()
}

// handover is a cluster that moves between two programs.
type handover struct {
	*integration.Cluster
	t     *testing.T
	seats []*seat
	*traffic
}

// take lets holdfast take a seat over, and waits until its member serves.
func (h *handover) take(i int) {
	h.t.Helper()
	s := h.seats[i]
	s.end()
	s.node.Start()
	h.taken(i)
	h.t.Logf("slot %s was taken over; the longest gap meanwhile was %s", s.slot, h.longest())
}

// taken waits until holdfast runs the member of a seat.
func (h *handover) taken(i int) {
	h.t.Helper()
	s := h.seats[i]
	integration.Until(h.t, 2*time.Minute, "holdfast runs the member of slot "+s.slot, func() error {
		if !s.node.Running() {
			h.t.Fatalf("holdfast of slot %s has ended", s.slot)
		}
		self, err := s.node.Self()
		if err != nil {
			return err
		}
		if self.Etcd == nil || !self.Etcd.HasLead || !self.Etcd.Confirmed {
			return fmt.Errorf("it is %s: %s", self.State, self.Why)
		}
		return nil
	})
	h.serves(s.url)
}

// give gives a seat back to the other program, and waits until its member serves.
func (h *handover) give(i int) {
	h.t.Helper()
	s := h.seats[i]
	s.end()
	s.start()
	h.serves(s.url)
	h.t.Logf("slot %s was given back; the longest gap meanwhile was %s", s.slot, h.longest())
}

// release releases a seat as a careful operator does: it prepares the data, the store and the cluster for the other
// program, and drains the member.
func (h *handover) release(i int) {
	h.t.Helper()
	h.letGo(i)
	h.give(i)
}

// letGo is the first half of give.
func (h *handover) letGo(i int) {
	h.t.Helper()
	s := h.seats[i]
	args := []string{"takeover", "release", "--control.socket", s.node.Socket()}
	if s.etcd != "" {
		args = append(args, "--to-etcd", s.etcd)
	}
	if out := s.node.Holdfast(args...); out.Code != 0 {
		h.t.Fatalf("release slot %s: %+v", s.slot, out)
	} else if out.Err != "" {
		h.t.Logf("release of slot %s: %s", s.slot, out.Err)
	}
}

// healthy waits until all nodes say that the cluster is healthy: holdfast runs every voter, and nothing is frozen.
func (h *handover) healthy() {
	h.t.Helper()
	integration.Until(h.t, time.Minute, "all say that the cluster is healthy", func() error {
		for _, s := range h.seats {
			status, err := s.node.Status()
			if err != nil {
				return err
			}
			if status.Health != health.Healthy {
				return fmt.Errorf("%s says %s: %s", s.slot, status.Health, strings.Join(status.Reasons(), "; "))
			}
		}
		return nil
	})
}

// found starts the other program where it does not run yet, and starts the traffic once all members serve.
func (h *handover) found(begin func(urls ...string) *traffic) {
	h.t.Helper()
	var urls []string
	for _, s := range h.seats {
		if !s.elder.running() {
			s.start()
		}
		urls = append(urls, s.url)
	}
	h.traffic = begin(urls...)
	h.more(50)
	h.fill()
	h.longest()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.worst = 0 // a gap before the first write does not count
}

// program is a process of another program, in a process group of its own.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	log  string // file
	from int64  // the offset in the log at which this process began
	done chan struct{}
}

// launch starts a program, which ends with the test.
func launch(t *testing.T, cmd *exec.Cmd, log string, env ...string) *program {
	t.Helper()
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	p := &program{t: t, cmd: cmd, log: log, from: info.Size(), done: make(chan struct{})}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Dir(log), append(os.Environ(), env...), f, f
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	must(t, integration.Own(cmd, func() { close(p.done) }))
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
	})
	return p
}

func (p *program) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal to the whole group, including the etcd that the program has started.
func (p *program) signal(s syscall.Signal) {
	if p != nil {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // it is no error if the group has ended
	}
}

func (p *program) exit(within time.Duration) {
	if p == nil {
		return
	}
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("%s has not ended within %s", p.cmd.Path, within)
	}
}

// said returns the program's output.
func (p *program) said() string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, p.from, 1<<30))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// report prints the end of the programs' output if the test has failed.
func (h *handover) report() {
	if !h.t.Failed() {
		return
	}
	for _, s := range h.seats {
		if s.elder == nil {
			continue
		}
		lines := slices.Collect(strings.Lines(s.elder.said()))
		h.t.Logf("the other program of slot %s said last\n%s", s.slot, strings.Join(lines[max(0, len(lines)-25):], ""))
	}
}
