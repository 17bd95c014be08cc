package gossip

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"slices"
	"sync"
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
	pushPullInterval = 2 * time.Second
	streamTimeout    = 2 * time.Second
	leaveTimeout     = time.Second
	twinInterval     = 5 * time.Second
)

// Mesh is this node's part in the gossip of its cluster.
type Mesh struct {
	cfg     Config
	label   string
	self    Meta
	lg      *zap.Logger
	notices *notices
	series  *series
	calls   *calls
	sources []*source // not changed after Run has begun
	tls     *TLS      // nil: as Config.KeyFile says; not changed after Run has begun
	port    uint16    // of seeds that name none, 0 for our own; not changed after Run has begun

	started chan struct{} // closed once bound
	changed chan struct{} // capacity 1: Nodes() changed
	behind  chan struct{} // capacity 1: a peer lacks our newest state

	mu    sync.Mutex // guards what follows; never held while memberlist is called
	view  *view
	list  *memberlist.Memberlist // nil before Run
	bound netip.AddrPort

	transport carrier  // nil before Run
	keys      *keyring // nil before Run, and without keys
}

// New prepares a node of the named cluster. answer replies to the questions of other nodes' Ask, each
// within 10 s; several may run at once. The error names what is wrong in cfg, cluster or self, or that
// reg already has these series.
func New(cfg Config, cluster string, self Meta, answer func(ctx context.Context, question []byte) ([]byte, error),
	lg *zap.Logger, reg prometheus.Registerer) (*Mesh, error) {
	if err := invalid.Join(cfg.Validate); err != nil {
		return nil, err
	}
	if cfg.Listen == "" {
		return nil, fmt.Errorf("gossip.listen: must be host:port with an IP address without zone, got %q", cfg.Listen)
	}
	label := "holdfast/" + cluster
	if cluster == "" || len(label) > memberlist.LabelMaxSize {
		return nil, fmt.Errorf("cluster.name: must have 1–%d bytes, got %q", memberlist.LabelMaxSize-len("holdfast/"), cluster)
	}
	if err := self.check(); err != nil {
		return nil, fmt.Errorf("describe this node: %w", err)
	}
	m := &Mesh{
		cfg:     cfg,
		label:   label,
		self:    self,
		lg:      lg,
		notices: newNotices(lg, time.Now),
		calls:   newCalls(answer),
		started: make(chan struct{}),
		changed: make(chan struct{}, 1),
		behind:  make(chan struct{}, 1),
		view:    newView(self, time.Now()),
	}
	m.view.forgetAfter = cfg.ForgetAfter
	var err error
	if m.series, err = newSeries(reg, m.count); err != nil {
		return nil, fmt.Errorf("register gossip metrics: %w", err)
	}
	return m, nil
}

// Run listens, finds the other nodes and keeps finding them, until ctx ends; then it tells them so, for
// at most 1 s, and returns nil. It returns an error only if it cannot begin: the key file is not
// usable, or the address is taken. Run may be called once.
func (m *Mesh) Run(ctx context.Context) error {
	defer m.calls.close()
	var keys *keyring
	switch {
	case m.tls != nil:
		if !m.awaitCertificate(ctx) {
			return nil
		}
	case m.cfg.KeyFile != "":
		keys = &keyring{path: m.cfg.KeyFile}
		if _, err := keys.refresh(); err != nil {
			return err
		}
	}
	m.sign()
	streams, err := m.bind(ctx, keys != nil)
	if err != nil {
		return err
	}
	list, err := memberlist.Create(m.configure(streams, keys))
	if err != nil {
		return fmt.Errorf("start gossip: %w", errors.Join(err, streams.Shutdown()))
	}
	m.mu.Lock()
	m.list, m.keys = list, keys
	m.mu.Unlock()
	close(m.started)
	m.lg.Info("gossip started", zap.Stringer("address", m.Address()), zap.String("label", m.label),
		zap.Bool("tls", m.tls != nil), zap.Bool("encrypted", m.tls != nil || keys != nil))

	var work sync.WaitGroup
	work.Go(func() { m.disseminate(ctx, list) })
	work.Go(func() { m.rejoin(ctx, list) })
	if keys != nil {
		work.Go(func() { m.follow(ctx, keys) })
	}
	for range callWorkers {
		work.Go(func() { m.calls.work(ctx) })
	}
	m.watch(ctx)
	work.Wait()

	m.leave(list)
	if err := list.Shutdown(); err != nil {
		return fmt.Errorf("stop gossip: %w", err)
	}
	m.lg.Info("gossip stopped")
	return nil
}

// leave tells the others that this process leaves, for at most leaveTimeout, and only while anybody is there to be
// told: memberlist waits on when they have left as well. Anyone who is not told notices by itself, some seconds later.
func (m *Mesh) leave(list *memberlist.Memberlist) {
	told := make(chan error, 1)
	go func() { told <- list.Leave(leaveTimeout) }()
	tick := time.NewTicker(gossipInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-told:
			if err != nil {
				m.lg.Debug("left gossip without telling all", zap.Error(err))
			}
			return
		case <-tick.C:
			if list.NumMembers() == 0 { // this process counts until it has begun to leave
				return
			}
		}
	}
}

// bind opens the listeners.
func (m *Mesh) bind(ctx context.Context, keyed bool) (streams carrier, err error) {
	at := netip.MustParseAddrPort(m.cfg.Listen) // New validated it
	r := rules{label: m.label, keyed: keyed, known: m.knows, process: m.process, refused: m.refused}
	if m.tls != nil {
		streams, err = listenTLS(ctx, at, r, *m.tls)
	} else {
		streams, err = listen(ctx, at, r, m.logger())
	}
	if err != nil {
		return nil, fmt.Errorf("listen for gossip on %s: %w", at, err)
	}
	ip := at.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = m.self.Address
	}
	m.mu.Lock()
	m.transport = streams
	m.bound = netip.AddrPortFrom(ip, uint16(streams.GetAutoBindPort()))
	m.mu.Unlock()
	return streams, nil
}

// configure sets memberlist up for few nodes on a LAN; from its start on the delegate's methods are called.
func (m *Mesh) configure(streams carrier, keys *keyring) *memberlist.Config {
	d := delegate{m}
	conf := memberlist.DefaultLANConfig()
	conf.Name, conf.Label = m.self.process(), m.label
	conf.Transport = streams
	if keys != nil {
		conf.Keyring = &keys.ring
	}
	conf.AdvertiseAddr, conf.AdvertisePort = m.bound.Addr().String(), int(m.bound.Port())
	conf.BindPort = conf.AdvertisePort
	conf.Delegate, conf.Events, conf.Alive, conf.Merge = d, d, d, d
	conf.Logger = m.logger()
	conf.ProbeInterval, conf.ProbeTimeout = probeInterval, probeTimeout
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = suspicionProbes, 1
	conf.AwarenessMaxMultiplier = 2
	conf.GossipInterval, conf.PushPullInterval = gossipInterval, pushPullInterval
	conf.TCPTimeout = streamTimeout
	conf.EnableCompression = false // a few KiB among a few nodes; it would only cost CPU
	return conf
}

func (m *Mesh) logger() *log.Logger { return log.New(listener{m}, "", 0) }

// Twin returns the address of another live process with our node name. One of both is a copy, or wrongly
// configured, and the others listen to the one that they heard first. A process killed at another address counts
// for about 5 s.
func (m *Mesh) Twin() (netip.Addr, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view.twin(m.bound)
}

// Twins returns the live processes of other nodes that do not count for them, sorted: Ask takes them for nodes.
func (m *Mesh) Twins() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for process, p := range m.view.peers {
		if m.view.passedOver(p) {
			out = append(out, process)
		}
	}
	slices.Sort(out)
	return out
}

// watch looks for twins, and for lost nodes whose time is over, until ctx ends.
func (m *Mesh) watch(ctx context.Context) {
	tick := time.NewTicker(twinInterval)
	defer tick.Stop()
	shown := map[string]string{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			poke(m.behind) // our certificate may have been renewed
			m.mu.Lock()
			twins := m.view.twins(time.Now())
			gone := m.view.fade(time.Now())
			m.mu.Unlock()
			m.tellForgotten(gone)
			for process, text := range twins {
				m.notices.warn("twin/"+process, text)
			}
			for process := range shown {
				if twins[process] == "" {
					m.notices.settle("twin/" + process)
				}
			}
			shown = twins
		}
	}
}

// SeedPort sets the port that stands in for a seed's missing one, where it is not that of Config.Listen. Call it before
// Run.
func (m *Mesh) SeedPort(port uint16) { m.port = port }

// Publish replaces what the other nodes see as our state, at most MaxState bytes, and sends it to them
// at once; only the newest state counts. It never blocks and may be called before Run. A larger state
// is refused: the one before stays, an error is logged and shown among the Problems. An observer's goes nowhere.
func (m *Mesh) Publish(state []byte) {
	if len(state) > MaxState {
		m.notices.warn("publish",
			fmt.Sprintf("%s: this node's state was not published: it has %d bytes, at most %d are allowed", m.self.Node,
				len(state), MaxState))
		return
	}
	m.mu.Lock()
	changed := m.view.publish(state)
	m.mu.Unlock()
	if changed {
		poke(m.behind)
		poke(m.changed)
	}
}

// disseminate sends our newest state to anyone who lacks it. One send at most is under way to a peer, so a
// slow peer delays nobody else, and what was published meanwhile goes out as one. A failed send is not
// repeated: push/pull brings the state within seconds.
func (m *Mesh) disseminate(ctx context.Context, list *memberlist.Memberlist) {
	var sends sync.WaitGroup
	defer sends.Wait()
	for {
		m.sign()
		m.mu.Lock()
		peers, own := m.view.behind(), m.view.own
		word := encodeEntry(own)
		if own.proof != nil {
			word = encodeAll([]entry{own, m.view.aside(hearsay{proofs: []entry{own}})})
		}
		to := make([]*memberlist.Node, len(peers))
		for i, p := range peers {
			to[i] = destination(p.meta, p.gossip)
		}
		m.mu.Unlock()
		for i, p := range peers {
			sends.Go(func() {
				if err := list.SendReliable(to[i], word); err != nil {
					m.lg.Debug("state not sent", zap.String("process", to[i].Name), zap.Error(err))
				}
				m.mu.Lock()
				p.sending, p.sent = false, own.Seq
				m.mu.Unlock()
				poke(m.behind)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-m.behind:
		}
	}
}

// Nodes returns every node heard of, this one and the lost ones that are not forgotten included, sorted by name, and no
// observer; at most 256, beyond which the longest started of the lost ones are forgotten. The caller owns the result.
func (m *Mesh) Nodes() []Node {
	m.mu.Lock()
	gone := m.view.fade(time.Now())
	nodes := m.view.list()
	m.mu.Unlock()
	m.tellForgotten(gone)
	return nodes
}

// Observers returns the observers that are live, sorted by name; this process is not among them.
func (m *Mesh) Observers() []Meta {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view.observers()
}

// Changed yields a value after Nodes changed; several changes may yield one value.
func (m *Mesh) Changed() <-chan struct{} { return m.changed }

// Started is closed once the listener is bound.
func (m *Mesh) Started() <-chan struct{} { return m.started }

// Address is where the others reach our gossip. It is the zero value before Started.
func (m *Mesh) Address() netip.AddrPort {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bound
}

// Problems returns, sorted, what is wrong in the mesh right now, in sentences for an operator. Each
// disappears when it was not seen for a minute; at most 64 are kept.
func (m *Mesh) Problems() []Problem { return m.notices.current() }

func (m *Mesh) count(live bool) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, rec := range m.view.nodes {
		if rec.Live == live && !rec.faded {
			n++
		}
	}
	return float64(n)
}

// destination is where memberlist sends a message. Only name and address matter to it.
func destination(meta Meta, at netip.AddrPort) *memberlist.Node {
	return &memberlist.Node{Name: meta.process(), Addr: net.IP(at.Addr().AsSlice()), Port: at.Port()}
}

// poke says "look again" on a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
