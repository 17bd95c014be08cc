package pki

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Identity is whom the leaves name.
type Identity struct {
	Node     string   // node.name, which what the gossip shows names
	Observer bool     // that is no node's, but an observer's
	Zone     string   // CLUSTER.DOMAIN, of the members' host names
	PeerName string   // that every peer's certificate bears (R12)
	PeerHost string   // pattern with {slot} of the host names in the members' URLs; "" is {slot}.Zone
	Names    []string // host names and IP addresses at which clients reach this node
	// PeerAddress is the node's IP address, if the peer's certificate is to bear it; "" if not. Members that holdfast
	// does not run take an address for proof of where a connection comes from, and else look all the names up.
	PeerAddress string
	// Orders say whose certificates sign what the backup store holds as orders.
	Orders Names
	// Watched are the operator's files of ModeFiles.
	Watched []File
}

// Stance is what a node's member trusts and presents to the other members. Authorities are named by [Fingerprint].
type Stance struct {
	// Trusts are the authorities whose peers the running member accepts and will accept after its next start, too: what
	// [Keeper.trusts] makes of what the member loaded. nil: none runs.
	Trusts []string
	Issuer string // authority of the peer's leaf; "" if there is none
}

// Keeper keeps the certificates of one node. All methods may be called at any time by many goroutines at once.
type Keeper struct {
	cfg    Config
	id     Identity
	source Source
	lg     *zap.Logger
	series *series

	poke chan struct{} // look again

	looking sync.Mutex               // held by the one who looks: one at a time
	keys    map[string]crypto.Signer // of the leaves; of the one who looks
	late    chan answer              // of the source, to a question that nobody waits for any more; of the one who looks

	mu   sync.Mutex // of what follows; never held during I/O
	have state
}

// state is what a keeper knows and has; the values behind its pointers and slices are never changed.
type state struct {
	slot         string // "": nothing was prepared yet
	known        *Authorities
	server, peer *leaf
	mesh         *leaf                // what the gossip shows
	seen         map[string]time.Time // since when this process knows the peers' authorities of the bundle
	clients      []*x509.Certificate  // in the file of the clients' authorities
	trusted      []*x509.Certificate  // in the file of the peers' authorities
	stances      []Stance
	complete     bool
	failing      error
	failures     int // looks in a row that failed
	watched      []watched
}

// New returns a keeper that has done nothing yet. source may be nil unless [Config.Issues]. The error says that reg has
// its series already.
func New(cfg Config, id Identity, source Source, lg *zap.Logger, reg prometheus.Registerer) (*Keeper, error) {
	if cfg.Issues() && source == nil {
		return nil, fmt.Errorf("tls.mode %s: there is nothing that gives the authorities", cfg.Mode)
	}
	k := &Keeper{cfg: cfg, id: id, source: source, lg: lg, poke: make(chan struct{}, 1), keys: map[string]crypto.Signer{}}
	var err error
	k.series, err = newSeries(reg, k.Expiries)
	return k, err
}

// Prepare makes sure that there are good leaves for the member of a slot, before it starts: the files of
// [Config.Files]. What is good already is left alone. If the authorities cannot be had now, it is content with good
// leaves of before; the error says what is missing. Nothing is prepared in the modes files and off.
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
	k.again() // Run now has something to do
	now := time.Now()
	if have := k.now(); have.good(now, k.server(have.slot), k.peer(have.slot)) {
		return nil
	}
	return fmt.Errorf("prepare the certificates of slot %s in %s: %w", slot, k.cfg.Dir, err)
}

// Learn asks for the authorities, and issues what the gossip shows, which needs no slot. It does nothing in the modes
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

// trusts is the part of what our running member loaded at its start that its file still holds: what a node says of
// itself to the others, who rely on it. nil stays nil.
func (k *Keeper) trusts(loaded []string) []string {
	var file []string
	for _, c := range k.now().trusted {
		file = append(file, Fingerprint(c))
	}
	return lasting(loaded, file)
}

// See tells what the other nodes' members trust and present, and what our own running member loaded; complete says that
// nothing is missing: every member of the cluster runs and its node's stance is among them. A node that forgets one may
// issue what that one refuses. It is called with each observation.
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

// now is a copy of what we have.
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

// hosts are the names of a slot: the one that it has in any case, and the one in its peer URL.
func (k *Keeper) hosts(slot string) (own, host string) {
	own = slot + "." + k.id.Zone
	return own, cmp.Or(strings.ReplaceAll(k.id.PeerHost, "{slot}", slot), own)
}

// Issuer is the fingerprint of the authority of the present peer's leaf, "" without one.
func (k *Keeper) Issuer() string {
	if l := k.now().peer; l != nil {
		return l.issuer
	}
	return ""
}

// Client issues a certificate of the clients' authority for a user, as PEM. It never outlives the authority. The key is
// the one that the user has, or a new one where that is nil.
func (k *Keeper) Client(ctx context.Context, commonName string, has crypto.Signer,
	life time.Duration) (certificate, key []byte, err error) {
	by, _, err := k.signerFor(ctx, Client)
	if err != nil {
		return nil, nil, err
	}
	return issueClient(by, commonName, has, life, time.Now())
}

// signerFor is what signs for a holder at present, and all authorities that are trusted with it.
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
