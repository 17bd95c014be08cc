package authorities

import (
	"crypto"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holdfast/durable"
	"holdfast/embedded/pki"
)

// Edition is one state of the authorities that holdfast has made for a cluster. A store has one object for each, which
// is never written again. The highest serial is current. The cache on a node's disk has the same form.
type Edition struct {
	Version int       `json:"version"` // editionVersion
	Cluster string    `json:"cluster"`
	ID      string    `json:"id"` // random; the same in all editions that follow from one first edition
	Serial  uint64    `json:"serial"`
	Time    time.Time `json:"time"` // when it was made
	Why     string    `json:"why"`
	Phase   phase     `json:"phase"`
	Cause   string    `json:"cause,omitempty"` // why the last rotation was begun, and who asked for it
	Hold    time.Time `json:"hold,omitzero"`   // while introduced: the new ones do not sign before, for the clients' sake
	Clients keyed     `json:"clients"`
	Peers   keyed     `json:"peers"`
	// Signatures are by the peers' authority's keys in the previous edition; those of the first are by its own.
	Signatures [][]byte `json:"signatures,omitempty"`

	open bool // read from the store, and not encrypted although there are recipients
}

// phase is how far a rotation is, in the order of its steps.
type phase string

const (
	phaseSettled    phase = "settled"    // no rotation is in progress
	phaseIntroduced phase = "introduced" // the old authorities sign, members begin to trust the new ones
	phaseIssuing    phase = "issuing"    // the new ones sign, the old ones are still trusted
)

// keyed is a certificate authority with its keys, and the other certificates that are trusted beside it.
type keyed struct {
	Trusted []pemCertificate `json:"trusted"`
	// The first of Keys signs. During a rotation there are two, so that the old one renews certificates until all
	// members trust the new one.
	Keys []signing `json:"keys"`
}

// signing is the key of a trusted certificate.
type signing struct {
	Key  pemKey    `json:"key"`
	Made time.Time `json:"made"` // when its certificate was made; that is backdated
}

const (
	editionVersion = 1
	maxEdition     = 256 << 10 // bytes of an object, and of the cache
	maxTrusted     = 16        // certificates in one authority
)

// pemCertificate is a certificate that is PEM in JSON.
type pemCertificate struct{ *x509.Certificate }

func (c pemCertificate) MarshalText() ([]byte, error) {
	return pki.EncodeCertificates(c.Certificate), nil
}

func (c *pemCertificate) UnmarshalText(text []byte) error {
	certs, err := pki.ParseCertificates(text)
	if err != nil || len(certs) != 1 {
		return errors.Join(errors.New("want one certificate in PEM"), err)
	}
	c.Certificate = certs[0]
	return nil
}

// pemKey is a private key that is PEM in JSON, and is never printed otherwise.
type pemKey struct{ crypto.Signer }

func (pemKey) String() string   { return "(secret)" }
func (pemKey) GoString() string { return "(secret)" }

func (k pemKey) MarshalText() ([]byte, error) { return pki.EncodeKeys(k.Signer) }

func (k *pemKey) UnmarshalText(text []byte) error {
	keys, err := pki.ParseKeys(text)
	if err != nil || len(keys) != 1 {
		return errors.Join(errors.New("want one private key in PEM"), err)
	}
	k.Signer = keys[0]
	return nil
}

// of returns the trusted certificate of a key, nil if there is none.
func (a keyed) of(s signing) *x509.Certificate {
	for _, c := range a.Trusted {
		if pki.Holds(s.Key.Signer, c.Certificate) {
			return c.Certificate
		}
	}
	return nil
}

// primary returns the certificate of the authority that signs.
func (a keyed) primary() *x509.Certificate { return a.of(a.Keys[0]) }

// other returns the certificate of the second authority in a rotation: the new one before the switch, the old one after
// it.
func (a keyed) other() *x509.Certificate { return a.of(a.Keys[1]) }

// retired returns the trusted certificates whose keys were dropped.
func (a keyed) retired() []*x509.Certificate {
	var all []*x509.Certificate
	for _, c := range a.Trusted {
		if !slices.ContainsFunc(a.Keys, func(s signing) bool { return a.of(s) == c.Certificate }) {
			all = append(all, c.Certificate)
		}
	}
	return all
}

// Authorities returns the edition in the form that [pki.Keeper] takes.
func (e Edition) Authorities() pki.Authorities {
	return pki.Authorities{Clients: e.Clients.given(), Peers: e.Peers.given()}
}

func (a keyed) given() pki.Authority {
	g := pki.Authority{Primary: a.primary(), Key: a.Keys[0].Key.Signer}
	for _, c := range a.Trusted {
		g.Bundle = append(g.Bundle, c.Certificate)
	}
	for _, k := range a.Keys[1:] {
		g.More = append(g.More, k.Key.Signer)
	}
	return g
}

// check says what is wrong with an edition of the cluster, beyond its syntax.
func (e Edition) check(cluster string) error {
	keys, known := map[phase]int{phaseSettled: 1, phaseIntroduced: 2, phaseIssuing: 2}[e.Phase]
	switch {
	case e.Version != editionVersion:
		return fmt.Errorf("its version is %d, and this holdfast knows %d only", e.Version, editionVersion)
	case e.Cluster != cluster:
		return fmt.Errorf("it is of cluster %q, not of %q", e.Cluster, cluster)
	case e.ID == "" || e.Serial == 0 || !known:
		return fmt.Errorf("it has the id %q, the serial %d and the phase %q", e.ID, e.Serial, e.Phase)
	}
	for name, a := range map[string]keyed{"clients": e.Clients, "peers": e.Peers} {
		if err := a.check(keys); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (a keyed) check(keys int) error {
	if len(a.Keys) != keys || len(a.Trusted) < keys || len(a.Trusted) > maxTrusted {
		return fmt.Errorf("it has %d keys and %d certificates", len(a.Keys), len(a.Trusted))
	}
	for _, c := range a.Trusted {
		if c.Certificate == nil || !c.IsCA {
			return errors.New("one of the certificates is not an authority's")
		}
	}
	seen := map[*x509.Certificate]bool{}
	for _, k := range a.Keys {
		c := a.of(k)
		if c == nil || seen[c] {
			return errors.New("one of the keys belongs to no certificate in it")
		}
		if k.Made.IsZero() || !k.Made.Before(c.NotAfter) {
			return fmt.Errorf("the certificate %s ends at %s and was made at %s", pki.Fingerprint(c),
				c.NotAfter.Format(time.RFC3339), k.Made.Format(time.RFC3339))
		}
		seen[c] = true
	}
	return nil
}

func (e Edition) encode() ([]byte, error) {
	text, err := json.MarshalIndent(e, "", "  ")
	return append(text, '\n'), err
}

// decodeEdition reads the text of an edition of a cluster. With the error of check it returns the edition too.
func decodeEdition(text []byte, cluster string) (*Edition, error) {
	var e Edition
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	return &e, e.check(cluster)
}

// errDamaged: the cached authorities cannot be read.
var errDamaged = errors.New("is damaged")

// readCache returns the authorities of a cluster that a node has cached, nil if it has none.
func readCache(path, cluster string) (*Edition, error) {
	text, err := durable.ReadSecret(path, maxEdition)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the keys of the cluster's authorities: %w", err)
	}
	e, err := decodeEdition(text, cluster)
	if e != nil && e.Cluster != "" && e.Cluster != cluster {
		return nil, fmt.Errorf("%s has the authorities of cluster %q, and cluster.name is %q: set cluster.name or tls.dir "+
			"right, or remove the directory if that cluster no longer exists", path, e.Cluster, cluster)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %w (%w)", path, errDamaged, err)
	}
	return e, nil
}

// writeCache replaces what a node has cached, durably and atomically.
func writeCache(path string, e Edition) error {
	text, err := e.encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}
