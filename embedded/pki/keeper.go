package pki

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// Authority is a certificate authority: a bundle of certificates that are trusted, and the key of one of them.
type Authority struct {
	Bundle  []*x509.Certificate // at least one
	Primary *x509.Certificate   // of Bundle, that Key belongs to; nil without a key
	Key     crypto.Signer       // nil in mode files
}

// Authorities are those of a cluster.
type Authorities struct{ Clients, Peers Authority }

// Source gives the authorities as they are now. It is asked again and again; an error leaves those that are known.
type Source interface {
	Authorities(ctx context.Context) (Authorities, error)
}

// Identity is whom the leaves name.
type Identity struct {
	Cluster  string   // of the configuration
	Zone     string   // CLUSTER.DOMAIN, of the members' host names
	PeerName string   // that every peer's certificate bears (R12)
	Names    []string // host names and IP addresses at which clients reach this node
}

// Stance is what a node's member trusts and presents to the other members. Authorities are named by [Fingerprint].
type Stance struct {
	Trusts []string // authorities whose peers the running member accepts; nil: none runs
	Issuer string   // authority of the peer's leaf; "" if there is none
}

// Expiry is when one certificate ends.
type Expiry struct {
	Name     string    // such as "peer", "server", "peers-ca 1a2b3c4d"
	NotAfter time.Time //
	File     string    // where it lies, if anywhere
}

// Keeper keeps the certificates of one node. All methods may be called at any time by many goroutines at once.
type Keeper struct {
	cfg    Config
	id     Identity
	source Source
	lg     *zap.Logger
}

// New returns a keeper that has done nothing yet. The error says that reg has its series already.
func New(cfg Config, id Identity, source Source, lg *zap.Logger, reg prometheus.Registerer) (*Keeper, error) {
	return &Keeper{cfg: cfg, id: id, source: source, lg: lg}, nil
}

// Prepare makes sure that there are good leaves for the member of a slot, before it starts. The files are those that
// cmd has told etcd: server.crt, server.key, clients-ca.crt, peer.crt, peer.key and peers-ca.crt in Config.Dir.
func (k *Keeper) Prepare(ctx context.Context, slot string) error { return errors.New("not built yet") }

// Run renews the leaves and follows the authorities until ctx ends.
func (k *Keeper) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// See tells what the other nodes' members trust and present, and what our own running member trusts; complete says that
// nothing is known to be missing. It is called with each observation.
func (k *Keeper) See(own Stance, others []Stance, complete bool) {}

// Issuer is the fingerprint of the authority of the present peer's leaf, "" without one.
func (k *Keeper) Issuer() string { return "" }

// Expiries are the ends of all certificates that matter to this node, its authorities included, the earliest first.
func (k *Keeper) Expiries() []Expiry { return nil }

// Problems are what is wrong, in sentences for an operator: what expires soon, what could not be renewed and why.
func (k *Keeper) Problems() []string { return nil }

// Secrets derive one secret of 32 bytes for a purpose from the key of each peers' authority that is known here, the
// primary first: nodes with the same key have the same secret, and it was never on a wire. nil in mode files and off.
func (k *Keeper) Secrets(purpose string) [][]byte { return nil }

// ServerTLS is for a server of ours beside etcd's: the server's leaf, renewed as it is, and clients of the clients'
// authority only. nil in mode off.
func (k *Keeper) ServerTLS() *tls.Config { return nil }

// Client issues a certificate of the clients' authority for a user, as PEM.
func (k *Keeper) Client(ctx context.Context, commonName string, life time.Duration) (certificate, key []byte, err error) {
	return nil, nil, errors.New("not built yet")
}

// Fingerprint names an authority: the first 16 hex digits of the SHA-256 of the certificate.
func Fingerprint(c *x509.Certificate) string { return "" }
