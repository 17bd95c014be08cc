package cmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"holdfast/cmd/control"
	"holdfast/embedded/health"
)

const (
	stopWait  = 15 * time.Second // from SIGTERM to SIGKILL
	askWait   = 3 * time.Second  // a node itself waits 2 s for the others
	tooOften  = 5                // deaths in deathSpan, before the cluster was ever healthy
	deathSpan = time.Minute
	maxEvents = 4 // that are shown
)

// demo runs the nodes and shows them. All of its state belongs to the goroutine of run.
type demo struct {
	dir      string // as the user named it
	children []*demoChild
	beside   []*demoChild // run, and not shown
	view     demoView
	say      func(string, ...any)
	hints    func(demoScene) []string // nil: those of the nodes on this machine
	passing  bool                     // nothing is kept

	started time.Time
	healthy time.Duration // from the start until it was; 0: never yet
	status  health.ClusterStatus
	events  []string
}

// run lives until ctx ends or a signal comes, which is a success, or until a node cannot be started.
func (d *demo) run(ctx context.Context) error {
	// Signals are ours from here on: the process must not end before the nodes, not even at the second Ctrl-C.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	d.started = time.Now()
	stop, events := make(chan struct{}), make(chan demoEvent)
	var running sync.WaitGroup
	for _, c := range d.all() {
		c.since = d.started
		running.Go(func() { c.run(stop, events) })
	}
	err := d.watch(ctx, events, signals)
	d.view.close()
	close(stop)
	go func() { running.Wait(); close(events) }() // ends with the loop in stopAll, which waits for it
	return errors.Join(err, d.stopAll(events, signals))
}

// watch shows what happens until ctx ends or a signal comes.
func (d *demo) watch(ctx context.Context, events <-chan demoEvent, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan health.ClusterStatus)
	var polling sync.WaitGroup
	polling.Go(func() { d.poll(ctx, answers) })
	defer polling.Wait()
	defer cancel()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		d.view.show(d.scene(time.Now()))
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			return nil
		case e := <-events:
			if err := d.heed(e); err != nil {
				return err
			}
		case d.status = <-answers:
			if d.healthy == 0 && d.status.Health == health.Healthy && d.allRun() {
				d.healthy = time.Since(d.started)
				d.event(fmt.Sprintf("cluster is healthy after %.1f s", d.healthy.Seconds()))
			}
		case <-resized:
		case <-tick.C:
		}
	}
}

// heed takes note of a start or a death.
func (d *demo) heed(e demoEvent) error {
	c := e.child
	c.process, c.since = e.process, time.Now()
	if e.process != nil {
		if c.death != "" {
			d.event(fmt.Sprintf("%s was started again as process %d", c.node.name, e.process.Pid))
		}
		return nil
	}
	c.death = e.err.Error()
	if last := tail(c.node.log, 1); len(last) > 0 && !strings.HasPrefix(c.death, "signal") { // of a signal the log knows nothing
		c.death += ": " + last[0]
	}
	c.deaths = slices.DeleteFunc(append(c.deaths, c.since), func(t time.Time) bool { return c.since.Sub(t) > deathSpan })
	if d.healthy == 0 && len(c.deaths) >= tooOften {
		text := fmt.Sprintf("node %s died %d times before the cluster was healthy; the end of %s:", c.node.name, len(c.deaths), c.node.log)
		for _, l := range tail(c.node.log, 10) {
			text += "\n  " + clean(l)
		}
		return errors.New(text)
	}
	d.event(fmt.Sprintf("%s died (%s), starting it again in %s", c.node.name, c.death, restartAfter))
	return nil
}

func (d *demo) event(text string) {
	d.view.event(text)
	d.events = append(d.events, time.Now().Format(time.TimeOnly)+"  "+text)
	d.events = d.events[max(0, len(d.events)-maxEvents):]
}

func (d *demo) allRun() bool {
	return !slices.ContainsFunc(d.children, func(c *demoChild) bool { return c.process == nil })
}

// poll asks for the status of the cluster, more often until it is healthy, and the node that answered last first.
func (d *demo) poll(ctx context.Context, answers chan<- health.ClusterStatus) {
	var clients []*control.Client
	for _, c := range d.children {
		clients = append(clients, control.Local(c.node.cfg.Control.Socket))
	}
	for {
		var status health.ClusterStatus
		for i, c := range clients {
			asking, cancel := context.WithTimeout(ctx, askWait)
			var s health.ClusterStatus
			err := c.Get(asking, http.MethodGet, "/status", &s)
			cancel()
			if err == nil {
				status, clients[0], clients[i] = s, c, clients[0]
				break
			}
		}
		pause := time.Second
		if status.Health != health.Healthy {
			pause = 200 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return
		case answers <- status:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// stopAll ends all nodes: with SIGTERM, and with SIGKILL those that do not heed it, or when a second signal
// asks for it. It returns when all have ended, which closes events.
func (d *demo) stopAll(events <-chan demoEvent, again <-chan os.Signal) error {
	d.say("stopping the nodes; Ctrl-C again kills them")
	begun, how := time.Now(), syscall.SIGTERM
	d.signal(how)
	late := time.NewTimer(stopWait)
	defer late.Stop()
	var result error
	for {
		select {
		case e, open := <-events:
			if !open {
				kept := fmt.Sprintf("; the data is kept: `%s demo --dir %s` resumes it, --clean begins anew", quote(os.Args[0]), quote(d.dir))
				if d.passing {
					kept = ""
				}
				d.say("stopped after %.1f s%s", time.Since(begun).Seconds(), kept)
				return result
			}
			e.child.process = e.process
			if e.process != nil { // it was being started when we began
				_ = e.process.Signal(how)
			}
			continue
		case <-late.C:
			d.say("killing what did not stop within %s: %s", stopWait, d.running())
		case <-again:
			if time.Since(begun) <= bounce {
				continue
			}
			d.say("killing: %s", d.running())
			result = exitCode(130)
		}
		how = syscall.SIGKILL
		d.signal(how)
	}
}

// all are the nodes that run, shown or not.
func (d *demo) all() []*demoChild { return slices.Concat(d.children, d.beside) }

// signal signals all that run. One that has just ended is not there to be told, which is what was wanted.
func (d *demo) signal(s os.Signal) {
	for _, c := range d.all() {
		if c.process != nil {
			_ = c.process.Signal(s)
		}
	}
}

func (d *demo) running() string {
	var names []string
	for _, c := range d.all() {
		if c.process != nil {
			names = append(names, c.node.name)
		}
	}
	return strings.Join(names, ", ")
}
