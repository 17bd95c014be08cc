package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"holdfast/embedded/plan"
)

// life is one run of etcd, from Start to its end. Its goroutine (live) owns etcd. All others only drop latches and
// wait.
type life struct {
	spec plan.Spec
	lg   *zap.Logger
	news func() // called when the leader changes or is confirmed, or clients are served

	abort *latch // no new snapshot opens, the open ones fail
	stop  *latch // etcd is to end
	// killed: the volume is lost, and the reason was logged. Whatever etcd logs from here on is a consequence.
	killed *latch
	gate   gate // admits snapshots, a defragmentation, or the shutdown

	cutStreams *latch // watches and other client calls without an end are to end
	cutCalls   *latch // all client calls are to end

	up       chan struct{} // closed when the start has succeeded or failed
	startErr error         // read after up
	etcd     *embed.Etcd   // read after up; nil if the start failed
	trust    *trust        // read after up
	leader   *confirmation // read after up; nil if the start failed

	done chan struct{} // closed at the very end
	err  error         // why etcd ended by itself; read after done

	retired    sync.Once
	severed    sync.Once
	hardStop   atomic.Bool            // end without etcd's own hand-over
	backend    sync.RWMutex           // locked while etcd defragments
	hung       atomic.Int32           // abandoned reads of the database that have not ended
	lastStored atomic.Pointer[stored] // what Status repeats while the database cannot be read
	keys       sync.Map               // what key repeats then: name -> storedKey
	pulse      pulse                  // of the leader
	answers    answers                // of the other members, while this one leads
	native     native                 // serves clients over TLS
}

func newLife(spec plan.Spec, lg *zap.Logger, news func()) *life {
	l := &life{
		spec: spec, lg: lg, news: news, abort: newLatch(), stop: newLatch(), killed: newLatch(), gate: newGate(),
		cutStreams: newLatch(), cutCalls: newLatch(), up: make(chan struct{}), done: make(chan struct{}),
	}
	l.native.streams, l.native.cut, l.native.end = l.cutStreams, l.cutCalls, newLatch()
	return l
}

// live runs etcd from the first check to the last close.
func (l *life) live(ec *embed.Config) {
	defer close(l.done)
	lock, err := lockDir(l.spec.DataDir)
	if err == nil {
		defer lock.Close()
		l.trust = newTrust(ec)
		err = l.launch(ec)
	}
	switch {
	case l.stop.dropped():
		l.startErr = errStopped
	case err != nil:
		l.startErr = err
	}
	close(l.up)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var asking, prewriting sync.WaitGroup
	asking.Go(func() { l.leader.run(ctx) })
	prewriting.Go(func() { prewrite(ctx, l.spec.DataDir, l.lg) })
	l.err = l.wait()
	cancel()
	asking.Wait() // returns at once, whatever the disk does
	l.shut()
	prewriting.Wait() // it has a file open
}

// launch makes sure that etcd can open the directory, because etcd itself would block forever or panic. Then it starts
// etcd.
func (l *life) launch(ec *embed.Config) error {
	if err := checkBackend(l.spec.DataDir); err != nil {
		return err
	}
	if err := fit(l.spec.DataDir, l.spec.TrustWAL); err != nil {
		return err
	}
	if l.stop.dropped() {
		return errStopped
	}
	if err := l.serveNatively(ec); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	e, err := embed.StartEtcd(ec)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	l.etcd, l.leader = e, newConfirmation(e.Server, l.news)
	return nil
}

// wait returns nil when etcd is to end, or the reason when it ends by itself. In etcd 3.7 only two things end its main
// loop: HardStop, which only we call, and errorc. That is written when the member sees its own removal, or when a peer
// answers 410 Gone (etcdserver/server.go, rafthttp/{stream,pipeline,snapshot_sender}.go).
func (l *life) wait() error {
	stopping := l.etcd.Server.StoppingNotify()
	select {
	case <-l.stop.Done():
		return nil
	case <-stopping:
		if l.stop.dropped() {
			return nil
		}
		return errRemoved
	case err := <-l.etcd.Err():
		select {
		case <-l.stop.Done(): // sever closed the listener
			return nil
		case <-stopping: // the main loop ended, and the listener with it
			return errRemoved
		default:
		}
		if err == nil {
			err = errors.New("a listener ended")
		}
		return fmt.Errorf("serve: %w", err)
	}
}

// shut closes etcd. Close waits forever on a member that is not ready, and always tries to hand the leadership over.
// Where either is unwanted, shut calls HardStop first.
func (l *life) shut() {
	l.abort.drop()
	l.cutStreams.drop()
	grace := time.AfterFunc(callGrace, func() {
		l.cutCalls.drop()
		l.native.end.drop()
	})
	defer grace.Stop()
	defer l.native.end.drop()
	l.native.drain()
	l.lastGlimpse()
	if l.hardStop.Load() || !l.ready() {
		end(l.etcd)
		return
	}
	closing, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { l.passOn(closing) })
	l.etcd.Close()
	cancel()
	watch.Wait()
}

// end stops an etcd that need not be ready. Close alone would wait forever for it.
func end(e *embed.Etcd) {
	e.Server.HardStop()
	e.Close()
}

// passOn stops a member that becomes the leader while it closes: it hands over once more, and then stops etcd. etcd's
// own hand-over would wait 7 s for an heir that is leaving as well. passOn returns when ctx ends, which is when etcd
// has closed.
func (l *life) passOn(ctx context.Context) {
	srv := l.etcd.Server
	for srv.Leader() != srv.MemberID() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(heirPoll):
		}
	}
	l.lg.Info("inherited the leadership while stopping", zap.String("slot", l.spec.Slot))
	handover, cancel := context.WithTimeout(ctx, passOnWait)
	defer cancel()
	if err := transferLeadership(handover, srv); err != nil && ctx.Err() == nil {
		l.lg.Warn("leadership was not handed over", zap.String("slot", l.spec.Slot), zap.Error(err))
	}
	srv.HardStop()
}

// retire does the graceful part of stopping, once: it takes the whole gate for good and hands the leadership over. It
// only logs what fails, because the member stops in any case.
func (l *life) retire(ctx context.Context, wait time.Duration) {
	l.retired.Do(func() {
		l.abort.drop()
		srv := l.server()
		if srv == nil || l.over() {
			return
		}
		drain, cancel := context.WithTimeout(ctx, drainWait)
		defer cancel()
		if err := l.gate.acquireAll(drain); err != nil {
			l.lg.Warn("stopped under an open snapshot or a defragmentation", zap.String("slot", l.spec.Slot), zap.Error(err))
		}
		l.hardStop.Store(true)
		if wait <= 0 || !l.ready() {
			return
		}
		handover, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if err := transferLeadership(handover, srv); err != nil {
			l.lg.Warn("leadership was not handed over", zap.String("slot", l.spec.Slot), zap.Error(err))
			return
		}
		// No longer the leader: etcd's own hand-over does nothing, so let requests in progress finish.
		l.hardStop.Store(srv.Leader() == srv.MemberID())
	})
}

// sever silences the member at once, without waiting for anything that may hang.
func (l *life) sever() {
	l.hardStop.Store(true)
	l.cutStreams.drop()
	l.cutCalls.drop()
	if l.server() == nil {
		return // not up yet: nothing is served, and live sees stop
	}
	l.severed.Do(func() {
		for _, ln := range l.etcd.Clients {
			ln.Close()
		}
		for _, ln := range l.etcd.Peers {
			ln.Close()
		}
		l.etcd.Server.PauseSending()
		// Nobody waits for HardStop. It returns when etcd's main loop has ended, and on a dead disk that never happens.
		go l.etcd.Server.HardStop()
	})
}

// server returns nil before etcd has started, and if the start failed.
func (l *life) server() *etcdserver.EtcdServer {
	if !closed(l.up) || l.etcd == nil {
		return nil
	}
	return l.etcd.Server
}

func (l *life) over() bool { return closed(l.done) }

func (l *life) ready() bool {
	srv := l.server()
	return srv != nil && !closed(srv.StoppingNotify()) && closed(srv.ReadyNotify())
}

// gateWidth is how many snapshots, ours and clients' together, may be open at once.
const gateWidth = 64

// gate admits either many snapshots, or one defragmentation, or one shutdown. A caller that waits for the whole gate
// goes before later callers, so a stream of snapshots cannot starve a stop.
type gate struct{ sem *semaphore.Weighted }

func newGate() gate { return gate{semaphore.NewWeighted(gateWidth)} }

func (g gate) acquire(ctx context.Context) error    { return g.sem.Acquire(ctx, 1) }
func (g gate) release()                             { g.sem.Release(1) }
func (g gate) acquireAll(ctx context.Context) error { return g.sem.Acquire(ctx, gateWidth) }
func (g gate) tryAll() bool                         { return g.sem.TryAcquire(gateWidth) }
func (g gate) releaseAll()                          { g.sem.Release(gateWidth) }
