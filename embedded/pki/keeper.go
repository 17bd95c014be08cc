package pki

import (
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/durable"
)

// Identity is what the leaves say of this node.
type Identity struct {
	Node     string   // node.name, which the gossip's leaf has
	Observer bool     // the gossip's leaf is an observer's, not a node's
	Zone     string   // CLUSTER.DOMAIN, of the members' host names
	PeerName string   // the name in every peer's certificate (R12)
	PeerHost string   // pattern with {slot} of the host names in the members' URLs; "" is {slot}.Zone
	Names    []string // host names and IP addresses at which clients reach this node
	// PeerAddress is the node's IP address, if the peer's certificate must have it; otherwise "". Members that holdfast
	// does not run accept an address as proof of a connection's origin. Without one, they look up all the names.
	PeerAddress string
	// Orders says whose certificates sign the orders in the backup store.
	Orders Names
	// Watched has the operator's files of ModeFiles.
	Watched []File
}

// Stance is what a node's member trusts and presents to the other members. Authorities are identified by [Fingerprint].
type Stance struct {
	// Trusts has the authorities whose peers the running member accepts, and will still accept after its next start
	// (see [Keeper.trusts]); nil if no member runs.
	Trusts []string
	Issuer string // authority of the peer's leaf; "" if there is no leaf
}

// Keeper keeps the certificates of one node. All methods are safe for concurrent use at any time.
type Keeper struct {
	cfg    Config
	id     Identity
	source Source
	lg     *zap.Logger
	series *series

	poke chan struct{} // requests a look

	looking sync.Mutex               // held during a look; guards keys and late
	keys    map[string]crypto.Signer // of the leaves, by name
	late    chan answer              // will receive the source's answer to a question that has timed out

	mu   sync.Mutex // guards have; never held during I/O
	have state
}

// state is what a keeper knows and has. The values behind its pointers and slices never change.
type state struct {
	looked
	slot     string // "": nothing was prepared yet
	stances  []Stance
	complete bool
	failing  error // of the last look
	watched  []watched
}

// looked is what a look finds and makes.
type looked struct {
	known        *Authorities
	server, peer *leaf
	mesh         *leaf                // the leaf for the gossip
	seen         map[string]time.Time // since when this process knows the peers' authorities of the bundle
	clients      []*x509.Certificate  // in the file of the clients' authorities
	trusted      []*x509.Certificate  // in the file of the peers' authorities
	failures     int                  // number of failed looks in a row
}

// New returns a keeper that has done nothing yet. source may be nil unless [Config.Issues]. It fails if reg already has
// the keeper's series.
func New(cfg Config, id Identity, source Source, lg *zap.Logger, reg prometheus.Registerer) (*Keeper, error) {
	if cfg.Issues() && source == nil {
		return nil, fmt.Errorf("tls.mode %s: there is nothing that gives the authorities", cfg.Mode)
	}
	k := &Keeper{cfg: cfg, id: id, source: source, lg: lg, poke: make(chan struct{}, 1), keys: map[string]crypto.Signer{}}
	var err error
	k.series, err = newSeries(reg)
	return k, err
}

// Prepare makes sure that there are good leaves for the member of a slot, in the files of [Config.Files], before it
// starts. It leaves good files alone. If the authorities are not available now, earlier good leaves suffice; otherwise
// the error says what is missing. In the modes files and off it prepares nothing.
func (k *Keeper) Prepare(ctx context.Context, slot string) error {
	switch k.cfg.Mode {
	case ModeFiles:
		k.watch()
		return nil
	case ModeOff:
		return nil
	}
	k.mu.Lock()
	k.have.slot = slot
	k.mu.Unlock()
	_, err := k.look(ctx, true)
	k.again() // there is a slot now, so Run has something to do
	now := time.Now()
	if have := k.now(); have.good(now, k.server(have.slot), k.peer(have.slot)) {
		return nil
	}
	return fmt.Errorf("prepare the certificates of slot %s in %s: %w", slot, k.cfg.Dir, err)
}

// Learn reads the authorities, and issues the leaf for the gossip, which needs no slot. It does nothing in the modes
// files and off.
func (k *Keeper) Learn(ctx context.Context) error {
	if !k.cfg.Issues() {
		return nil
	}
	_, err := k.look(ctx, false)
	return err
}

// Run renews the leaves and follows the authorities until ctx ends; then it returns nil.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.poke:
		case <-timer.C:
		}
		next := time.Now().Add(time.Minute)
		switch {
		case k.cfg.Mode == ModeFiles:
			k.watch()
		case k.cfg.Issues():
			next, _ = k.look(ctx, false) // the error is among the problems
		}
		timer.Reset(time.Until(next))
	}
}

// trusts returns those authorities that our running member loaded at its start and that its file still has. A node
// publishes only these, because other nodes rely on them. nil stays nil.
func (k *Keeper) trusts(loaded []string) []string {
	return lasting(loaded, Fingerprints(k.now().trusted))
}

// See records what the other nodes' members trust and present, and what our own running member loaded. complete means
// that every member of the cluster runs and its node's stance is among them. If a node leaves a stance out, it may
// issue a leaf that the missing member refuses. Call See with each observation.
func (k *Keeper) See(own Stance, others []Stance, complete bool) {
	own.Trusts = k.trusts(own.Trusts)
	stances := append([]Stance{own}, others...)
	k.mu.Lock()
	changed := complete != k.have.complete || !reflect.DeepEqual(stances, k.have.stances)
	k.have.stances, k.have.complete = stances, complete
	k.mu.Unlock()
	if changed {
		k.again()
	}
}

func (k *Keeper) again() {
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// now returns a copy of the state.
func (k *Keeper) now() state {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.have
}

func (k *Keeper) server(slot string) profile {
	own, host := k.hosts(slot)
	return serverProfile(slices.Concat(k.id.Names, k.cfg.Names, []string{own, host}))
}

func (k *Keeper) peer(slot string) profile {
	own, host := k.hosts(slot)
	return peerProfile(k.id.PeerName, own, host, k.id.PeerAddress)
}

// hosts returns the names of a slot: its fixed one, and the one in its peer URL.
func (k *Keeper) hosts(slot string) (own, host string) {
	own = slot + "." + k.id.Zone
	return own, cmp.Or(strings.ReplaceAll(k.id.PeerHost, "{slot}", slot), own)
}

// Issuer returns the fingerprint of the authority that issued the present peer's leaf, "" without a leaf.
func (k *Keeper) Issuer() string {
	if l := k.now().peer; l != nil {
		return l.issuer
	}
	return ""
}

// Client issues a certificate of the clients' authority for a user, as PEM. It never outlives the authority. It is for
// the key has, or for a new one if has is nil.
func (k *Keeper) Client(ctx context.Context, commonName string, has crypto.Signer,
	life time.Duration) (certificate, key []byte, err error) {
	by, _, err := k.signerFor(ctx, Client)
	switch {
	case err != nil:
		return nil, nil, err
	case commonName == "":
		return nil, nil, errors.New("a client's certificate needs a common name: it is the name of the user")
	case life <= 0:
		return nil, nil, fmt.Errorf("a client's certificate must be valid for more than %s", life)
	}
	if has == nil {
		if has, err = newKey(); err != nil {
			return nil, nil, err
		}
	}
	l, err := Client.profile("", commonName).issue(by, has, life, time.Now())
	if err != nil {
		return nil, nil, err
	}
	key, err = EncodeKeys(has)
	return l.chain(), key, err
}

// signerFor returns the current signer for a holder, and all authorities that are trusted with it.
func (k *Keeper) signerFor(ctx context.Context, h Holder) (by signer, bundle []*x509.Certificate, err error) {
	if !k.cfg.Issues() {
		return by, nil, fmt.Errorf("tls.mode %s: this node issues no certificates", k.cfg.Mode)
	}
	known := k.now().known
	if known == nil {
		a, err := k.source.Authorities(ctx)
		if err != nil {
			return by, nil, fmt.Errorf("read the authorities: %w", err)
		}
		known = &a
	}
	return h.signer(*known)
}

// series are the metrics of one Keeper.
type series struct {
	renewals *prometheus.CounterVec
	failures prometheus.Counter
}

func newSeries(reg prometheus.Registerer) (*series, error) {
	s := &series{
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_tls_renewals_total",
			Help: "Certificates issued to this node by itself, by name (server, peer).",
		}, []string{"name"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_tls_failures_total",
			Help: "Times that authorities could not be read, or a certificate not be read, issued or written.",
		}),
	}
	for _, name := range []string{serverLeaf, peerLeaf} {
		s.renewals.WithLabelValues(name)
	}
	return s, errors.Join(reg.Register(s.renewals), reg.Register(s.failures))
}

// File is one of the operator's files: a certificate with its chain to the authority, or a bundle of authorities.
type File struct {
	Name string // such as "server", "peer", "clients-ca", for series and messages; unique
	Path string
	Key  string // file of the private key; "" if it need not be checked
}

// watched is what was found in a file.
type watched struct {
	File
	certs []*x509.Certificate
	err   error
}

// watch reads the operator's files. It changes nothing.
func (k *Keeper) watch() {
	k.looking.Lock()
	defer k.looking.Unlock()
	before := k.now().watched
	var found []watched
	for _, f := range k.id.Watched {
		w := watched{File: f}
		if w.certs, w.err = f.read(); w.err != nil {
			k.series.failures.Inc()
		}
		said := slices.ContainsFunc(before, func(b watched) bool {
			return b.Name == w.Name && b.err != nil && w.err != nil && b.err.Error() == w.err.Error()
		})
		if w.err != nil && !said {
			k.lg.Warn("certificate could not be read", zap.String("name", w.Name), zap.Error(w.err))
		}
		found = append(found, w)
	}
	k.mu.Lock()
	k.have.watched = found
	k.mu.Unlock()
}

func (f File) read() ([]*x509.Certificate, error) {
	parse := ParseCertificates // etcd takes nothing else for authorities
	if f.Key != "" {
		parse = CertificatesIn
		if _, err := tls.LoadX509KeyPair(f.Path, f.Key); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", f.Path, f.Key, err)
		}
	}
	text, err := durable.Read(f.Path, maxFile)
	if err != nil {
		return nil, err
	}
	certs, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return certs, nil
}

// Expiry is when one certificate expires.
type Expiry struct {
	Name     string // such as "peer", "server", "peers-ca 1a2b3c4d"; unique
	NotAfter time.Time
	File     string // its file, if any
}

// Expiries returns when each certificate of this node expires, including its authorities, the first to expire first. An
// authority that was dropped from the bundle has none.
func (k *Keeper) Expiries() []Expiry {
	h, files := k.now(), k.cfg.Files()
	var all []Expiry
	add := func(name string, c *x509.Certificate, file string) {
		if !slices.ContainsFunc(all, func(e Expiry) bool { return e.Name == name }) {
			all = append(all, Expiry{name, c.NotAfter, file})
		}
	}
	if h.server != nil {
		add(serverLeaf, h.server.cert, files.Server)
	}
	if h.peer != nil {
		add(peerLeaf, h.peer.cert, files.Peer)
	}
	for file, trusted := range map[string][]*x509.Certificate{files.ClientsCA: h.clients, files.PeersCA: h.trusted} {
		for _, c := range trusted {
			add(filepath.Base(strings.TrimSuffix(file, ".crt"))+" "+Fingerprint(c)[:8], c, file)
		}
	}
	for _, w := range h.watched {
		for i, c := range w.certs {
			name := w.Name
			if i > 0 {
				name = fmt.Sprintf("%s %d", w.Name, i+1)
			}
			add(name, c, w.Path)
		}
	}
	slices.SortStableFunc(all, func(a, b Expiry) int {
		return cmp.Or(a.NotAfter.Compare(b.NotAfter), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Problems returns what could not be read, issued or written and why, in sentences for an operator without a secret.
// What expires is not among them, because package health judges the files.
func (k *Keeper) Problems() (all []string) {
	have := k.now()
	if have.failing != nil {
		all = append(all, fmt.Sprintf("certificates could not be kept: %v", have.failing))
	}
	for _, w := range have.watched {
		if w.err != nil {
			all = append(all, fmt.Sprintf("certificate %s could not be read: %v", w.Name, w.err))
		}
	}
	return all
}
