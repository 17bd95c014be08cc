package gossip

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	unheardFor = 5 * time.Second        // the time without a connection after which an observer takes all nodes for lost
	dialEvery  = 200 * time.Millisecond // between dials to nodes that are tried together
)

// errEnded is no news for the log: an observer tries again, and other nodes meanwhile.
var errEnded = errors.New("it ended the connection: it stops, or has too much to do")

// Observer hears what the nodes of a cluster say, and says nothing. It is connected to one node at a time.
type Observer struct {
	parts
	*knowledge
	*prover
	*seeker

	self   Meta
	dialer net.Dialer
}

// NewObserver returns an observer of the named cluster. It dials from the address of cfg.Listen, if it can; seeds
// without a port get the port of cfg.Listen. The error names what is wrong in cfg, cluster or self.
func NewObserver(cfg Config, cluster string, self Meta, lg *zap.Logger, reg prometheus.Registerer) (*Observer, error) {
	p, err := newParts(cfg, cluster, self, newKnowledge(Meta{}, cfg.ForgetAfter, lg), lg, reg)
	if err != nil {
		return nil, err
	}
	at := netip.MustParseAddrPort(cfg.Listen) // newParts has parsed it
	return &Observer{parts: p, knowledge: p.known, prover: newProver(p, cfg.KeyFile),
		seeker: newSeeker(p, cfg, at.Port()), self: self,
		dialer: net.Dialer{LocalAddr: localAddr(at), Control: impatient}}, nil
}

// Run hears the nodes until ctx ends, and then returns nil. It returns an error only if the key file is unusable at the
// start. Run may be called once.
func (o *Observer) Run(ctx context.Context) error {
	if ready, err := o.ready(ctx); !ready {
		return err
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = joinFirst, joinAlone
	for heard := time.Now(); ctx.Err() == nil; {
		next := o.connect(ctx, o.live(), 0)
		if next == nil {
			next = o.connect(ctx, o.missing(ctx), 0)
		}
		for next != nil {
			next = o.hear(ctx, next)
			heard = time.Now()
			pause.Reset()
		}
		if time.Since(heard) >= unheardFor {
			o.known.follow(words{}, nil)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause.NextBackOff()): // random, so that the observers of a lost node do not return all at once
		}
	}
	return nil
}

// live returns nodes that count as live, as many as are tried together.
func (o *Observer) live() (all []target) {
	heard, _ := o.known.addresses()
	for at := range heard { // in random order, so a part of many is a random one
		all = append(all, target{at: at})
	}
	return all[:min(len(all), joinTargets)]
}

// line is a connection to a node.
type line struct {
	*peerConn
	at    netip.AddrPort
	shown []byte       // our certificate, as it was shown
	told  words        // the last words of the node
	live  atomic.Int32 // the number of live nodes in told
}

// Read fails after silence.
func (l *line) Read(p []byte) (int, error) {
	_ = l.SetReadDeadline(time.Now().Add(silence)) // if it cannot be set the read fails
	return l.Conn.Read(p)
}

// next waits for the node's next words.
func (l *line) next() error {
	var body []byte
	for body == nil { // a beat is empty
		var err error
		if body, err = readAnswer(l, maxStream); err != nil {
			return err
		}
	}
	told, err := decodeWords(body)
	live := int32(0)
	for i, e := range told.entries {
		if e.Lost > 0 {
			continue
		}
		live++
		if !e.Gossip.IsValid() { // the entry of the node itself
			told.entries[i].Gossip = l.at
		}
	}
	l.told = told
	l.live.Store(live)
	return err
}

// connect returns a connection to the first target that hears more live nodes than atLeast, or nil if none does. It
// dials the targets in random order, so that each node gets its share of observers. The dials start dialEvery apart,
// so that a silent node costs little time.
func (o *Observer) connect(ctx context.Context, targets []target, atLeast int32) *line {
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan *line, len(targets))
	var tries sync.WaitGroup
	rand.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
	for i, t := range targets {
		tries.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(i) * dialEvery):
			}
			l, err := o.dial(ctx, t)
			switch {
			case err == nil && l.live.Load() > atLeast:
				found <- l
				cancel()
			case err == nil:
				l.cut()
			case ctx.Err() == nil:
				o.joins.WithLabelValues("failed").Inc()
				if hungUp(err) {
					err = errEnded
				}
				blame(o.refused, t.at.String(), err)
				o.unjoined(t, err)
			}
		})
	}
	tries.Wait()
	cancel()
	close(found)
	first := <-found
	for l := range found {
		l.cut()
	}
	return first
}

// dial asks one node to be told, and returns when it has told what it knows, within writeTime.
func (o *Observer) dial(ctx context.Context, t target) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	own, err := o.papers.Certificate()
	if err != nil {
		return nil, err
	}
	conn, err := o.papers.dial(ctx, o.dialer, t.at.String(), forObserver, streamTimeout)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, conn.cut)()
	l := &line{peerConn: conn, at: t.at, shown: own.Certificate[0]}
	_ = write(conn, framed(encode(o.self)), streamTimeout) // if it fails so does what follows
	if err := l.next(); err != nil {
		conn.cut()
		return nil, o.papers.whyNot(cmp.Or(ctx.Err(), err))
	}
	o.settle(t.key())
	return l, nil
}

// hear follows a node's words until the connection ends, or another node hears more live nodes. Then hear returns
// the connection to that node.
func (o *Observer) hear(ctx context.Context, l *line) (better *line) {
	o.joins.WithLabelValues("joined").Inc()
	o.lg.Info("joined gossip", zap.Stringer("through", l.at))
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		for err := error(nil); err == nil; err = l.next() {
			o.known.follow(l.told, o.authentic(l.told.entries, l.Node))
		}
		o.lg.Info("gossip ended", zap.Stringer("through", l.at))
	})
	defer reader.Wait()
	defer l.cut()
	for better == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(joinSlow/2 + rand.N(joinSlow)):
			_, err := o.papers.check(l.ConnectionState().PeerCertificates, x509.ExtKeyUsageServerAuth)
			own, unknown := o.papers.Certificate()
			if err != nil || unknown == nil && !bytes.Equal(own.Certificate[0], l.shown) {
				return o.connect(ctx, o.live(), 0) // each side shows its present certificate
			}
			better = o.connect(ctx, o.missing(ctx), l.live.Load())
		}
	}
	return better
}

// follow applies everything that a node knows. The entries in counts are proven to be their speakers' own words. Which
// processes are live is known only by the node's word.
func (k *knowledge) follow(told words, counts []entry) {
	live := map[string]bool{}
	for _, e := range told.entries {
		live[e.process()] = e.Lost == 0
	}
	peers := look(k, func(v *view) map[string]*peer {
		clear(v.gone) // there is no memberlist to remember them
		return maps.Clone(v.peers)
	})
	for name, p := range peers {
		if !live[name] {
			k.left(p.meta, false)
		}
	}
	k.merge(told, counts)
	for _, e := range told.entries {
		if p := peers[e.process()]; e.Lost == 0 && (p == nil || p.gossip != e.Gossip) {
			k.joined(e.Meta, e.Gossip)
		}
	}
}
