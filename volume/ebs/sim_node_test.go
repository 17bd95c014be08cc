package ebs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// simNode is a machine that the operator wants: one instance at a time, with one process at a time.
type simNode struct {
	w    *simWorld
	name string
	zone string
	box  *simBox
	proc *simProc

	refuse map[string]Meaning // how EC2 refuses its requests
}

// simProc is one process.
type simProc struct {
	w      *simWorld
	n      *simNode
	box    *simBox
	number int
	life   context.Context
	end    context.CancelFunc
	orders chan string // from the operator: "restart" or "drop"

	// Guarded by the world's mu.
	rng    *rand.Rand
	dead   bool
	asleep int // goroutines that a pause has stopped
	paused time.Time
	steps  int // dangerous calls so far
	dies   int // at which of them it dies; 0 for never
	calls  map[string]int
	claim  *claim
	open   *simMount // the mount on which its member has files open
	stuck  error     // the last error of Claim
}

func (x *simProc) name() string { return fmt.Sprintf("%s#%d", x.n.name, x.number) }

// start starts the process of a node if its instance runs. The world is locked.
func (n *simNode) start() {
	w := n.w
	if w.over || n.proc != nil || n.box.state != InstanceRunning {
		return
	}
	w.numbers++
	x := n.process()
	if w.faulty && w.chance(w.life.deadly) {
		x.dies = 1 + w.rng.IntN(60)
	}
	w.note("%s starts on %s", x.name(), n.box.id)
	go x.run()
}

// process makes the next process of a node.
func (n *simNode) process() *simProc {
	w := n.w
	x := &simProc{w: w, n: n, box: n.box, number: w.numbers, orders: make(chan string, 8), calls: map[string]int{}}
	x.life, x.end = context.WithCancel(context.Background())
	x.rng = rand.New(rand.NewPCG(w.rng.Uint64(), 3))
	n.proc = x
	return x
}

// kill ends a process at any point. The world is locked.
func (w *simWorld) kill(x *simProc, why string) {
	if x.dead {
		return
	}
	w.note("%s ends: %s", x.name(), why)
	x.dead, x.paused = true, time.Time{}
	w.quit(x)
	x.open = nil
	if x.box.lock == x {
		x.box.lock = nil
	}
	if x.n.proc == x {
		x.n.proc = nil
		w.after(w.between(100*time.Millisecond, 5*time.Second), x.n.start)
	}
	x.end()
}

// gate is where a process may die or be paused. danger says that it may die here.
func (x *simProc) gate(danger bool) {
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if danger && !x.dead && w.faulty {
		if x.steps++; x.steps == x.dies {
			w.tally.event("crash at a step")
			w.kill(x, "crash at a step")
		} else if w.chance(w.life.pause) {
			w.tally.event("pause at a step")
			w.pause(x)
		}
	}
	for {
		if x.dead || w.over {
			runtime.Goexit()
		}
		d := time.Until(x.paused)
		if d <= 0 {
			return
		}
		x.asleep++
		d += time.Duration(x.asleep) // they do not all continue at once, so that a life is reproducible
		w.mu.Unlock()
		_ = pause(x.life, d)
		w.mu.Lock()
		x.asleep--
	}
}

func (w *simWorld) pause(x *simProc) {
	d := w.between(time.Second, time.Minute)
	if until := time.Now().Add(d); until.After(x.paused) {
		w.note("%s is paused for %s", x.name(), d)
		x.paused = until
	}
}

// random is the process's own source of chance. It is separate, because a process may still use it after it has died.
func (x *simProc) random(n int64) int64 {
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	return x.rng.Int64N(n)
}

func (x *simProc) Identity(ctx context.Context) (Self, error) {
	if err := pause(ctx, time.Duration(1+x.random(int64(100*time.Millisecond)))); err != nil {
		return Self{}, err
	}
	return Self{Instance: x.box.id, Region: "eu-test-1", Zone: x.box.zone, Account: "1"}, nil
}

// Lifecycle implements [Metadata]: nothing is planned.
func (x *simProc) Lifecycle(context.Context, Lifecycle) (Lifecycle, error) { return Lifecycle{}, nil }

// provider returns the protocol under test, as in production except for its source of chance.
func (x *simProc) provider() *Provider {
	l := x.w.life
	cfg := Default()
	cfg.MountRoot, cfg.Takeover, cfg.TakeoverAfter = simRoot, l.takeover, l.after
	cfg.Settle, cfg.ScanEvery = l.settle, l.scanEvery
	node := Node{Name: x.n.name, Cluster: simCluster, Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), uint16(1000+x.number))}
	p := New(cfg, node, simCloud{x}, simHost{x}.host(), x, func(string) { x.gate(true) }, x.logger())
	p.random = x.random
	return p
}

// run is the loop of a node: claim, serve, and claim again.
func (x *simProc) run() {
	w, p := x.w, x.provider()
	for again := true; again; {
		c, err := p.Claim(x.life, simWant)
		switch {
		case x.life.Err() != nil:
			return
		case err == nil:
			again = x.serve(c.(*claim))
		default:
			again = x.wait(x.refused(err))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kill(x, "it was stopped")
}

// refused records why nothing could be claimed, and returns when to try again.
func (x *simProc) refused(err error) time.Duration {
	x.gate(false)
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trace != nil && (x.stuck == nil || x.stuck.Error() != err.Error()) {
		w.note("%s: %v", x.name(), err)
	}
	x.stuck = err
	if errors.Is(err, volume.ErrNoneFree) {
		return w.life.retry
	}
	w.tally.event("a claim fails")
	return 2 * w.life.retry
}

// wait waits until it is time to try again. It returns false if there is an order to stop.
func (x *simProc) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-x.life.Done():
		return false
	case order := <-x.orders:
		return order == "drop" // there is nothing to drop
	case <-t.C:
		return true
	}
}

// serve is the member on a held volume: it writes until the volume is lost or given up. It reports whether the process
// continues.
func (x *simProc) serve(c *claim) (again bool) {
	w := x.w
	x.gate(true)
	w.mu.Lock()
	w.join(x, c)
	w.mu.Unlock()
	watch, stop := context.WithCancel(x.life)
	defer stop()
	lost := make(chan error, 1)
	go func() { lost <- c.Watch(watch) }()
	for {
		w.mu.Lock()
		t := time.NewTimer(w.between(500*time.Millisecond, w.life.write))
		w.mu.Unlock()
		select { // the order must be deterministic
		case err := <-lost:
			t.Stop()
			return x.lose(c, err)
		default:
		}
		select {
		case <-x.life.Done():
			t.Stop()
			return false
		case err := <-lost:
			t.Stop()
			return x.lose(c, err)
		case order := <-x.orders:
			t.Stop()
			return x.release(c, order == "drop", lost)
		case <-t.C:
			x.write(c)
		}
	}
}

// release gives the volume up, as asked.
func (x *simProc) release(c *claim, drop bool, lost <-chan error) (again bool) {
	x.gate(true)
	w := x.w
	w.mu.Lock()
	w.quit(x)
	x.open = nil
	w.mu.Unlock()
	err := c.Release(x.life, drop)
	watched := <-lost
	x.gate(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s released (drop %v): %v", x.name(), drop, err)
	w.tally.event("release")
	if watched != nil && w.life.orderly() {
		w.fail("Watch says after the release: %v", watched)
	}
	return drop && err == nil // if it could not be given up, the process starts over
}

// write is one write of the member.
func (x *simProc) write(c *claim) {
	x.gate(true)
	w := x.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.open != nil && !x.dead && x.open.io() == nil {
		w.wrote(x, c)
	}
}

// lose is the end of a member whose volume is lost. Its further writes must not arrive.
func (x *simProc) lose(c *claim, err error) (again bool) {
	x.gate(false)
	w := x.w
	w.mu.Lock()
	w.lost(x, c, err)
	w.mu.Unlock()
	_ = c.Release(x.life, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chance(2)
}

func (x *simProc) logger() *zap.Logger {
	if x.w.trace == nil {
		return zap.NewNop()
	}
	return zap.New(simCore{x})
}
