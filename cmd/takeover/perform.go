package takeover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	etcdversion "go.etcd.io/etcd/api/v3/version"

	"holdfast/cmd/child"
	"holdfast/cmd/control"
	"holdfast/embedded/health"
)

const (
	stepTime = 2 * time.Minute // the limit of each step, which takes seconds
	stopTime = 30 * time.Second
	pollTime = 100 * time.Millisecond
	// settled is how many writes must be acknowledged between two steps.
	settled = 20
)

// stage is a rehearsal that is running.
type stage struct {
	*script
	*writer
	result   Rehearsal
	progress io.Writer
	running  map[string]*process // by slot
}

// perform runs the whole rehearsal and returns its result.
func (s *script) perform(ctx context.Context, progress io.Writer) Rehearsal {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st := &stage{script: s, progress: progress, running: map[string]*process{}, result: s.Result}
	st.result.Etcd = etcdversion.Version
	err := st.acts(ctx)
	if st.writer != nil {
		st.writer.end(&st.result)
	}
	for _, p := range st.running {
		p.kill()
	}
	if err != nil {
		st.result.Stopped = err.Error()
	}
	return st.result
}

// acts performs the steps of the rehearsal in their order, until one fails.
func (st *stage) acts(ctx context.Context) (err error) {
	if err := st.checkHosts(ctx); err != nil {
		return err
	}
	if err := st.makeVolumes(ctx); err != nil {
		return fmt.Errorf("make the volumes: %w", err)
	}
	var urls []string
	for _, a := range st.Cast {
		urls = append(urls, a.client())
	}
	if st.writer, err = newWriter(urls); err != nil {
		return err
	}
	err = st.step("", "etcd serves on all volumes, without holdfast", func() error {
		for _, a := range st.Cast {
			if err := st.play(a); err != nil {
				return err
			}
		}
		return st.serve(ctx, st.Cast...)
	})
	if err != nil {
		return err
	}
	st.write(ctx)
	for _, a := range st.leaderLast(ctx, st.Cast) {
		if err := st.step(a.Slot, "holdfast took over the member", func() error { return st.take(ctx, a) }); err != nil {
			return err
		}
	}
	err = st.step("", "the freeze ended", func() error {
		return st.wait(ctx, func() error {
			var t health.Takeover
			err := control.Local(st.socket(st.Cast[0])).Get(ctx, "GET /takeover", &t)
			if err == nil && t.Phase != health.TakeoverOver {
				err = fmt.Errorf("the takeover is %s: %s", t.Phase, t.Frozen)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, a := range st.leaderLast(ctx, st.Cast) {
		if err := st.step(a.Slot, "holdfast gave the member back", func() error { return st.give(ctx, a) }); err != nil {
			return err
		}
	}
	return st.step("", "all members were compared", func() error { return st.verify(ctx, st.Cast, &st.result) })
}

// step runs do, and records how long it took and the longest gap in acknowledged writes.
func (st *stage) step(slot, text string, do func() error) error {
	begun, where := time.Now(), ""
	if slot != "" {
		where = "slot " + slot + ": "
	}
	st.longest() // discards the gap before this step
	if err := do(); err != nil {
		return fmt.Errorf("before this was done: %s%s: %w", where, text, err)
	}
	s := Step{Text: text, Slot: slot, Took: time.Since(begun).Round(time.Millisecond), Gap: st.longest()}
	st.result.Steps = append(st.result.Steps, s)
	fmt.Fprintf(st.progress, "%s%s, in %s\n", where, text, s.Took.Round(pollTime))
	return nil
}

// wait calls done until it returns nil, for at most stepTime.
func (st *stage) wait(ctx context.Context, done func() error) error {
	end := time.Now().Add(stepTime)
	for {
		err := done()
		if err == nil {
			return nil
		}
		for slot, p := range st.running {
			if p.over() {
				return fmt.Errorf("the process of slot %s has ended: %s", slot, p.words())
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %s: %w", stepTime, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollTime):
		}
	}
}

// serve waits until the members answer linearizable reads, and until settled more writes are acknowledged.
func (st *stage) serve(ctx context.Context, cast ...actor) error {
	for _, a := range cast {
		if err := st.wait(ctx, func() error { return st.writer.answers(ctx, a.client()) }); err != nil {
			return err
		}
	}
	want := st.writer.count() + settled
	return st.wait(ctx, func() error {
		if st.writer.began() && st.writer.count() < want {
			return errors.New("writes are not acknowledged")
		}
		return nil
	})
}

// play starts etcd without holdfast on a volume.
func (st *stage) play(a actor) error {
	order, err := json.Marshal(st.plain(a))
	if err != nil {
		return err
	}
	return st.launch(a, bytes.NewReader(order), plainCommand)
}

// take stops a member's etcd and starts a node, which takes the member over.
func (st *stage) take(ctx context.Context, a actor) error {
	if err := st.running[a.Slot].stop(); err != nil {
		return err
	}
	if err := st.launch(a, nil, "run", "--config", st.config(a)); err != nil {
		return err
	}
	err := st.wait(ctx, func() error {
		var s health.ClusterStatus
		if err := control.Local(st.socket(a)).Get(ctx, "GET /status", &s); err != nil {
			return err
		}
		switch self := s.Self(); {
		case self == nil:
			return errors.New("the node does not know itself")
		case self.Etcd == nil || !self.Etcd.HasLead || !self.Etcd.Confirmed:
			return fmt.Errorf("the node is %s: %s", self.State, self.Why)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return st.serve(ctx, a)
}

// give has the node release a member, and starts etcd without holdfast on it.
func (st *stage) give(ctx context.Context, a actor) error {
	// A cluster's only voter goes down only by force.
	args := control.Args{"to": etcdversion.Version, "by": "the rehearsal", "force": len(st.Cast) == 1}
	refused := ""
	err := st.wait(ctx, func() error {
		var r health.Release
		if err := control.Local(st.socket(a)).Get(ctx, "POST /takeover/release", &r, args); err != nil {
			return err
		}
		if r.Soon && len(r.Why) == 1 {
			return errors.New(strings.Join(r.Why, "; "))
		}
		if refused = strings.Join(r.Why, "; "); refused != "" || r.Released {
			return nil
		}
		return errors.New(r.Risk)
	})
	if err != nil {
		return err
	}
	if refused != "" {
		return errors.New("it was refused: " + refused)
	}
	if err := st.running[a.Slot].stop(); err != nil {
		return err
	}
	if err := st.play(a); err != nil {
		return err
	}
	return st.serve(ctx, a)
}

// process is the process of a member: a node, or etcd without holdfast.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// launch starts this program for a member. The started process ends when this process does.
func (st *stage) launch(a actor, in io.Reader, args ...string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{cmd: exec.Command(exe, args...), log: st.path(a.Slot + "/log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, log, log
	p.cmd.SysProcAttr = child.EndWithParent(syscall.SIGKILL) // a rehearsal has nothing to save by a clean stop
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel kills the child when the thread that started it ends
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // the log has the reason
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	st.running[a.Slot] = p
	return nil
}

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop ends the process with SIGTERM, or kills it after stopTime.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTime):
		p.kill()
		return fmt.Errorf("it has not stopped within %s", stopTime)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// words returns the last line of the process's log.
func (p *process) words() string {
	text, _ := os.ReadFile(p.log) // on an error the line is empty
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
