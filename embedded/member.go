package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

const (
	// drainWait bounds how long Stop waits for the holders of aborted snapshots, and for a defragmentation in progress.
	drainWait = 5 * time.Second
	// closeWait bounds etcd's own Close, which waits at most 7 s for a client's request (ReqTimeout) and 1 s for peers.
	closeWait = 10 * time.Second
	// killWait bounds Kill.
	killWait = time.Second
)

var (
	// errStopped: the member is not running, or was stopped during the call.
	errStopped = errors.New("member is not running")
	// errStuck: etcd did not close in time. Its goroutines are still there and the data directory stays locked, so the
	// process must end.
	errStuck = errors.New("etcd did not close in time: its disk may hang, or a defragmentation lasts long")
	// errRemoved: etcd ended because the cluster has removed this member for good.
	errRemoved = errors.New("member was removed from its cluster")
)

// Member is one etcd member that can be started and stopped repeatedly in this process. All methods are safe for
// concurrent use at any time.
type Member struct {
	Cluster
	Keys
	Users
	Maintenance
	*present // shared by all of them

	cfg  Config
	lg   *zap.Logger
	note func(reason string)
	seen Seen
	news chan struct{} // State has something new
}

// present holds the current run of etcd, if any.
type present struct {
	mu   sync.Mutex
	life *life // the current run or the last one; nil before the first Start
}

// Config configures a member: the section `etcd`, valid and resolved, and what the cluster's members are called.
type Config struct {
	settings.Config
	Names Names
}

// New returns a member that is not running. note, if not nil, gets the reason right before etcd ends the process.
func New(cfg Config, lg *zap.Logger, note func(reason string)) *Member {
	p := new(present)
	return &Member{
		Cluster: Cluster{p, cfg.Names}, Keys: Keys{p}, Users: Users{p}, Maintenance: Maintenance{p}, present: p,
		cfg: cfg, lg: lg, note: note, news: make(chan struct{}, 1),
	}
}

// Changed receives when State has something new that clients notice: another leader, a leader's first answer, or
// clients being served here. Several changes may arrive as one message.
func (m *Member) Changed() <-chan struct{} { return m.news }

func (m *Member) notify() {
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// Start checks the data directory, starts etcd and returns when etcd runs. That is not when it is ready: without a
// quorum it never becomes ready (see Status). A founding waits up to one second for each peer whose name resolves and
// that does not serve. If ctx ends first, Start returns at once, and what was begun is undone in the background, until
// Done.
//
// The errors are errLocked (another process has the directory), errStopped (Stop was called meanwhile) and a
// [plan.Unfit]. That wraps ErrOldWAL (written by an etcd too old to be replayed) or errNewer (written by a newer etcd).
// A joiner is refused while the others cannot be reached or have no cluster version yet (for seconds after a founding).
// That leaves a database without a WAL, and Start may be repeated.
func (m *Member) Start(ctx context.Context, spec plan.Spec) error {
	l, err := m.begin(spec)
	if err != nil {
		return fmt.Errorf("start member %s: %w", spec.Slot, err)
	}
	select {
	case <-l.up:
		if err = l.startErr; err != nil && l.etcd == nil {
			<-l.done // this is soon; only then may Start be repeated
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

// begin starts a life. Its goroutine ends when etcd has ended; Stop and Kill wait for that.
func (m *Member) begin(spec plan.Spec) (*life, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life != nil && !m.life.over() {
		return nil, errors.New("it is running already, or still stopping")
	}
	l := newLife(spec, m.lg, m.notify)
	lg := etcdLogger(m.lg, m.cfg.LogLevel, spec, lastWord{killed: l.killed, note: m.note}, l.stop)
	ec, err := etcdConfig(m.cfg, spec, lg, append(m.seen.serverOptions(), l.serverOptions()...))
	if err != nil {
		return nil, err
	}
	m.life = l
	go l.live(ec)
	return l, nil
}

// Stop ends the member in the order that disturbs clients least. It refuses new snapshots and fails open ones, hands
// the leadership over for at most wait (0: not at all), ends watches, and closes. It returns nil when etcd has ended
// and the data directory is free, and also if the member was not running. It takes at most 15 s plus wait. On errStuck,
// or the cause of ctx, etcd still runs and the process should end. Stop may be called while Start waits.
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

// Kill is for a lost volume. Within a second, the member serves nothing and sends nothing to its peers. It does not
// hand the leadership over, nor wait for any disk. Done is closed when etcd has really ended. On a dead disk that may
// never happen, and Start fails until then: end the process.
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
		l.lg.Error("etcd has not ended yet; it no longer serves clients or peers", zap.String("slot", l.spec.Slot))
	}
}

// Done is closed when etcd has ended, for whatever reason, and the data directory is free. It belongs to the last
// Start; nil before the first.
func (m *Member) Done() <-chan struct{} {
	if l := m.current(); l != nil {
		return l.done
	}
	return nil
}

// Err returns why etcd ended by itself; nil while it runs, after a Start that failed, and after Stop or Kill. It wraps
// errRemoved if the cluster has removed this member.
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

// running returns the life of a started etcd that is not being stopped.
func (p *present) running() (*life, error) {
	l := p.current()
	if l == nil || l.server() == nil || l.abort.dropped() {
		return nil, errStopped
	}
	return l, nil
}

// asRoot asks the running etcd something as root. This process is the member's own, and with authentication on no other
// caller has a token to give. Errors begin with what.
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
