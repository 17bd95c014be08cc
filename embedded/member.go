package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

const (
	// drainWait bounds how long Stop waits for the holders of aborted snapshots, and
	// for a defragmentation under way.
	drainWait = 5 * time.Second
	// closeWait bounds etcd's own Close. It may wait 7 s for a client's request
	// (ReqTimeout) and 1 s for peers, no more.
	closeWait = 10 * time.Second
	// killWait bounds Kill.
	killWait = time.Second
)

var (
	// errStopped: the member is not running, or was stopped while the call was under way.
	errStopped = errors.New("member is not running")
	// errStuck: etcd did not close in time. Its goroutines are still there and the data
	// directory stays locked: end the process.
	errStuck = errors.New("etcd did not close in time")
	// errRemoved: etcd ended because the cluster has removed this member for good.
	errRemoved = errors.New("member was removed from its cluster")
)

// Member is one etcd member that can be started and stopped, again and again, in this process. All methods may be
// called at any time and by many goroutines at once.
type Member struct {
	Cluster
	Keys
	Users
	Maintenance
	*present // of all of them

	cfg  Config
	lg   *zap.Logger
	note func(reason string)
	seen Seen
	news chan struct{} // there is something new to see in State
}

// present is the run of etcd that is there, if any.
type present struct {
	mu   sync.Mutex
	life *life // the present or the last one; nil before the first Start
}

// Config is what a member is told: the section `etcd`, valid and resolved, and what the cluster's members are called.
type Config struct {
	settings.Config
	Names Names
}

// New returns a member that is not running. note, if any, is told why etcd ends the process, right before it does.
func New(cfg Config, lg *zap.Logger, note func(reason string)) *Member {
	p := new(present)
	return &Member{
		Cluster: Cluster{p, cfg.Names}, Keys: Keys{p}, Users: Users{p}, Maintenance: Maintenance{p}, present: p,
		cfg: cfg, lg: lg, note: note, news: make(chan struct{}, 1),
	}
}

// Changed is sent to when State has something new that clients notice: another leader, one that has answered, or that
// they are served here. Two changes may be one message.
func (m *Member) Changed() <-chan struct{} { return m.news }

func (m *Member) stir() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// Start checks the data directory, starts etcd and returns when it runs, not when it is ready: without a quorum it
// never is (see Ready). Founding waits up to one second for each peer whose name is known and that does not
// serve. When ctx ends first, Start returns at once and what was begun is undone in the background, until Done. Errors:
// errLocked (another process has the directory),
// a [plan.Unfit] (ErrOldWAL, written by an etcd too old to be replayed, or errNewer, by one newer than this),
// errStopped (Stop came between). A joiner is refused while the others have no cluster version yet (seconds after
// founding) or cannot be reached; that leaves a database without a WAL, and Start may be repeated.
func (m *Member) Start(ctx context.Context, spec plan.Spec) error {
	l, err := m.begin(spec)
	if err != nil {
		return fmt.Errorf("start member %s: %w", spec.Slot, err)
	}
	select {
	case <-l.up:
		if err = l.startErr; err != nil && l.etcd == nil {
			<-l.done // at once; only then may it be tried again
		}
	case <-ctx.Done():
		l.abort.drop()
		l.stop.drop()
		err = context.Cause(ctx)
	}
	if err != nil {
		return unfit(fmt.Errorf("start member %s: %w", spec.Slot, err))
	}
	return nil
}

// begin makes a life and sets it going. Its goroutine ends when etcd has ended, which is
// what Stop and Kill wait for.
func (m *Member) begin(spec plan.Spec) (*life, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil && !m.life.over() {
		return nil, errors.New("it is running already, or still stopping")
	}
	l := newLife(spec, m.lg, m.stir)
	lg := etcdLogger(m.lg, m.cfg.LogLevel, spec, lastWord{killed: l.killed, note: m.note}).
		WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core { return newCalm(c, l.stop, l.killed) }))
	ec, err := etcdConfig(m.cfg, spec, lg, append(m.seen.serverOptions(), l.serverOptions()...))
	if err != nil {
		return nil, err
	}
	m.life = l
	go l.live(ec)
	return l, nil
}

// Stop ends the member in the order that hurts clients least: refuse new snapshots and
// fail open ones, hand the leadership over for at most wait (0: not at all), end watches,
// close. It returns nil when etcd has ended and the data directory is free, also when the
// member was not running. It takes at most 15 s plus wait. errStuck, or the cause of ctx:
// etcd still runs, the process should end. Calling it while Start waits is right.
func (m *Member) Stop(ctx context.Context, wait time.Duration) error {
	l := m.current()
	if l == nil {
		return nil
	}
	l.retire(ctx, wait)
	l.stop.drop()

	timeout := time.NewTimer(closeWait)
	defer timeout.Stop()
	var err error
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timeout.C:
		err = errStuck
	}
	l.sever()
	return fmt.Errorf("stop member %s: %w", l.spec.Slot, err)
}

// Kill is for a lost volume: within a second nothing is served and no peer hears from this
// member any more. Leadership is not handed over and no disk is waited for. Done tells
// when etcd has really ended; with a dead disk that may be never, and a Start after it
// fails: end the process.
func (m *Member) Kill() {
	l := m.current()
	if l == nil {
		return
	}
	l.killed.drop()
	l.abort.drop()
	l.stop.drop()
	l.sever()

	timeout := time.NewTimer(killWait)
	defer timeout.Stop()
	select {
	case <-l.done:
	case <-timeout.C:
		l.lg.Error("etcd did not end at once; it serves nothing any more", zap.String("slot", l.spec.Slot))
	}
}

// Ready reports whether the member has joined its cluster and answers clients.
func (m *Member) Ready() bool {
	l := m.current()
	return l != nil && l.ready()
}

// Done is closed when etcd has ended, whatever ended it, and the data directory is free.
// It belongs to the last Start; nil before the first.
func (m *Member) Done() <-chan struct{} {
	if l := m.current(); l != nil {
		return l.done
	}
	return nil
}

// Err says why etcd ended by itself; nil while it runs, after a Start that failed, and after
// Stop or Kill. errors.Is(err, errRemoved): the cluster has removed this member.
func (m *Member) Err() error {
	l := m.current()
	if l == nil || !l.over() || l.stop.dropped() {
		return nil
	}
	return l.err
}

func (p *present) current() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// running returns the life of a started etcd that nobody has asked to stop.
func (p *present) running() (*life, error) {
	l := p.current()
	if l == nil || l.server() == nil || l.abort.dropped() {
		return nil, errStopped
	}
	return l, nil
}

// asRoot has the running etcd asked something as root: this is the member's own process, and with etcd's authentication
// switched on nobody else has a token to give. what begins the error.
func (p *present) asRoot(ctx context.Context, what string, ask func(context.Context, *life) error) error {
	l, err := p.running()
	if err == nil {
		err = ask(l.etcd.Server.AuthStore().WithRoot(ctx), l)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
