package gossip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/invalid"
)

// Timings; doc.go says what they add up to.
const (
	probeInterval    = 500 * time.Millisecond
	probeTimeout     = 300 * time.Millisecond
	suspicionProbes  = 5
	gossipInterval   = 100 * time.Millisecond
	pushPullInterval = 10 * time.Second
	streamTimeout    = 2 * time.Second
	resendPause      = time.Second // after a send that failed
	leaveTimeout     = time.Second
	twinInterval     = 5 * time.Second
)

// maxCluster is what the name of a protocol leaves room for, in bytes.
const maxCluster = 200

// Mesh is this node's part in the gossip of its cluster. What it is made of has a file each, and a lock where it needs
// one.
type Mesh struct {
	parts
	*knowledge
	*prover   // whose word counts
	*seeker   // seeds and lost nodes
	*audience // observers

	self    Meta
	answer  func(ctx context.Context, question []byte) ([]byte, error)
	started chan struct{} // closed once bound; what follows is there then
	streams *transport
	list    *memberlist.Memberlist
}

// parts are what all others need.
type parts struct {
	label    string     // of the cluster
	known    *knowledge // what is known of the mesh
	*notices            // what is wrong
	joins    *prometheus.CounterVec
}

// New prepares a node of the named cluster. answer replies to the questions of other nodes' Ask, each
// within 10 s; several may run at once. The error names what is wrong in cfg, cluster or self.
func New(cfg Config, cluster string, self Meta, answer func(ctx context.Context, question []byte) ([]byte, error),
	lg *zap.Logger, reg prometheus.Registerer) (*Mesh, error) {
	p, err := newParts(cfg, cluster, self, newKnowledge(self, cfg.ForgetAfter, lg), lg, reg)
	if err != nil {
		return nil, err
	}
	m := &Mesh{parts: p, knowledge: p.known, self: self, started: make(chan struct{})}
	m.prover = newProver(p, cfg.KeyFile)
	m.audience = &audience{prover: m.prover, there: map[*peerConn]Meta{}}
	m.answer = func(ctx context.Context, question []byte) ([]byte, error) {
		if a, ok, err := m.ordered(question); ok {
			return a, err
		}
		return answer(ctx, question)
	}
	m.seeker = newSeeker(p, cfg, 0)
	return m, nil
}

// newParts makes the parts of a process of the named cluster, or says what is wrong in cfg, cluster or self.
func newParts(cfg Config, cluster string, self Meta, known *knowledge, lg *zap.Logger,
	reg prometheus.Registerer) (p parts, err error) {
	if err := invalid.Join(cfg.Validate); err != nil {
		return p, err
	}
	if cfg.Listen == "" {
		return p, fmt.Errorf("gossip.listen: must be host:port with an IP address without zone, got %q", cfg.Listen)
	}
	label := "holdfast/" + cluster
	if cluster == "" || len(cluster) > maxCluster {
		return p, fmt.Errorf("cluster.name: must have 1–%d bytes, got %q", maxCluster, cluster)
	}
	if err := self.check(); err != nil {
		return p, fmt.Errorf("describe this node: %w", err)
	}
	rejected, joins := newCounters(reg, known.count)
	return parts{label: label, known: known, notices: newNotices(lg, rejected), joins: joins}, nil
}

// Run listens, finds the other nodes and keeps finding them, until ctx ends; then it tells them so, for
// at most 1 s, and returns nil. It returns an error only if it cannot begin: the key file is not
// usable, or the address is taken. Run may be called once.
func (m *Mesh) Run(ctx context.Context) error {
	if ready, err := m.ready(ctx); !ready {
		return err
	}
	m.sign()
	if err := m.bind(ctx); err != nil {
		return err
	}
	var err error
	if m.list, err = memberlist.Create(m.configure()); err != nil {
		return fmt.Errorf("start gossip: %w", errors.Join(err, m.streams.Shutdown()))
	}
	close(m.started)
	m.lg.Info("gossip started", zap.Stringer("address", m.Address()), zap.String("label", m.label),
		zap.Bool("certificates", m.papers.Sign != nil), zap.Bool("keys", m.papers.Sign == nil && m.cfg.KeyFile != ""))

	var work sync.WaitGroup
	work.Go(func() { m.disseminate(ctx, m.list.SendReliable) })
	work.Go(func() { m.rejoin(ctx, m.list) })
	m.watch(ctx)
	work.Wait()

	leave(m.list, m.lg)
	if err := m.list.Shutdown(); err != nil {
		return fmt.Errorf("stop gossip: %w", err)
	}
	m.lg.Info("gossip stopped")
	return nil
}

// bind opens the listeners.
func (m *Mesh) bind(ctx context.Context) (err error) {
	at := netip.MustParseAddrPort(m.cfg.Listen) // New validated it
	r := rules{papers: m.papers, known: m.knowledge.knows, refused: m.refused, observed: m.serve, asked: m.asked}
	switch m.streams, err = listen(ctx, at, r); {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen for gossip on %s: %w: stop the program that uses this port, such as etcd-manager, or set "+
			"gossip.listen", at, err)
	case err != nil:
		return fmt.Errorf("listen for gossip on %s: %w", at, err)
	}
	ip := at.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = m.self.Address
	}
	m.knowledge.listens(netip.AddrPortFrom(ip, uint16(m.streams.GetAutoBindPort())))
	return nil
}

// configure sets memberlist up for few nodes on a LAN; from its start on the delegate's methods are called.
func (m *Mesh) configure() *memberlist.Config {
	d, at := delegate{m}, m.Address()
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Transport = m.self.process(), m.streams
	conf.AdvertiseAddr, conf.AdvertisePort = at.Addr().String(), int(at.Port())
	conf.BindPort = conf.AdvertisePort
	conf.Delegate, conf.Events, conf.Alive = d, d, d
	conf.Logger, _ = zap.NewStdLogAt(m.lg, zap.DebugLevel) // the level is one
	conf.ProbeInterval, conf.ProbeTimeout = probeInterval, probeTimeout
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = suspicionProbes, 1
	conf.AwarenessMaxMultiplier = 2
	conf.GossipInterval, conf.PushPullInterval = gossipInterval, pushPullInterval
	conf.TCPTimeout = streamTimeout
	conf.EnableCompression = false // a few KiB among a few nodes; it would only cost CPU
	return conf
}

// Publish replaces what the other nodes see as our state, at most maxState bytes, and sends it to them
// at once; only the newest state counts. It never blocks and may be called before Run. A larger state
// is refused: the one before stays, an error is logged and shown among the Problems.
func (m *Mesh) Publish(state []byte) {
	if len(state) > maxState {
		m.warn("publish", fmt.Sprintf("%s: this node's state was not published: it has %d bytes, at most %d are allowed",
			m.self.Node, len(state), maxState))
		return
	}
	m.publish(state)
}

// Twin returns the address of another live process with our node name. One of both is a copy, or wrongly
// configured, and the others listen to the one that they heard first. A process killed at another address counts
// for about 5 s.
func (m *Mesh) Twin() (netip.Addr, bool) {
	m.known.mu.Lock()
	defer m.known.mu.Unlock()
	return m.view.twin()
}

// Started is closed once the listener is bound.
func (m *Mesh) Started() <-chan struct{} { return m.started }

// leave tells the others that this process leaves, for at most leaveTimeout. It returns as soon as nobody is left to be
// told, for which memberlist would wait. A node that is not told notices some seconds later.
func leave(list *memberlist.Memberlist, lg *zap.Logger) {
	told := make(chan error, 1)
	go func() { told <- list.Leave(leaveTimeout) }()
	tick := time.NewTicker(gossipInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-told:
			if err != nil {
				lg.Debug("left gossip without telling all", zap.Error(err))
			}
			return
		case <-tick.C:
			if list.NumMembers() == 0 { // this process counts until it has begun to leave
				return
			}
		}
	}
}

// disseminate sends our newest state to anyone who lacks it, until ctx ends. One send at most is under way to a peer,
// so a slow peer delays nobody else, and what was published meanwhile goes out as one. A failed send is repeated.
func (m *Mesh) disseminate(ctx context.Context, send func(to *memberlist.Node, word []byte) error) {
	var sends sync.WaitGroup
	defer sends.Wait()
	for {
		m.sign()
		word, due := m.due()
		for p, to := range due {
			sends.Go(func() {
				err := send(to, word)
				if err != nil {
					m.lg.Debug("state not sent", zap.String("process", to.Name), zap.Error(err))
					select {
					case <-ctx.Done():
					case <-time.After(resendPause):
					}
				}
				m.sent(p, err == nil)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-m.behind:
		}
	}
}

// watch looks for twins, and for lost nodes whose time is over, until ctx ends.
func (m *Mesh) watch(ctx context.Context) {
	tick := time.NewTicker(twinInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			poke(m.behind) // our certificate may have been renewed
			m.warnOnly(ProblemTwin+"/", m.twins())
		}
	}
}
