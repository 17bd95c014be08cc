package pki

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/durable"
)

// Authority is a certificate authority: a bundle of trusted certificates, and the keys of some of them.
type Authority struct {
	Bundle  []*x509.Certificate // at least one
	Primary *x509.Certificate   // the certificate in Bundle to which Key belongs; nil without a key
	Key     crypto.Signer       // nil if nothing is to be signed
	// More has the keys of other certificates in Bundle. While not everyone trusts the primary, they sign renewals.
	More []crypto.Signer
}

// Authorities are the two authorities of a cluster.
type Authorities struct{ Clients, Peers Authority }

// signer is a certificate of an authority with its key.
type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Fingerprint identifies an authority by the first 16 hex digits of the SHA-256 of its certificate.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:8])
}

// longLived is the life from which an authority is valid since 1970. A shorter one is not, because its life is taken
// for NotAfter - NotBefore where somebody is told that it ends soon.
const longLived = 365 * 24 * time.Hour

// NewAuthority makes an authority of one certificate that is valid for life from now. If that is long, it is valid
// since 1970 as well: this machine's clock may be ahead, by any time, and be corrected afterwards. Until the authority
// begins, nothing that it signs is accepted, and nothing else can be signed.
func NewAuthority(commonName string, life time.Duration) (Authority, error) {
	key, err := newKey()
	if err != nil {
		return Authority{}, err
	}
	from, until := lifeFrom(time.Now(), life)
	if life >= longLived {
		from = time.Unix(0, 0)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	c, err := sign(template, template, key.Public(), key)
	if err != nil {
		return Authority{}, err
	}
	return Authority{Bundle: []*x509.Certificate{c}, Primary: c, Key: key}, nil
}

// backdate is how much earlier than its making a certificate begins, if it is long-lived. A machine may start with the
// time of another time zone, and have made the authorities before NTP corrects its clock. Nobody could use them for
// hours.
const backdate = 24 * time.Hour

// lifeFrom returns a certificate's validity in whole seconds. It begins before now, for clocks that are behind ours.
func lifeFrom(now time.Time, life time.Duration) (from, until time.Time) {
	from = now.Add(-min(backdate, life/10)).UTC().Truncate(time.Second)
	return from, now.Add(life + time.Second - 1).UTC().Truncate(time.Second)
}

// sign makes a certificate with a random serial number.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	template.SerialNumber = nil // a positive random one of 159 bits
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// ParseAuthority reads a bundle of authorities and private keys, the first of which belongs to the primary. Without
// keys, the authority only trusts. The error says what is wrong, without the name of a file.
func ParseAuthority(bundle, keys []byte) (Authority, error) {
	certs, err := ParseCertificates(bundle)
	if err != nil {
		return Authority{}, fmt.Errorf("certificates: %w", err)
	}
	a := Authority{Bundle: certs}
	for _, c := range certs {
		if !c.BasicConstraintsValid || !c.IsCA {
			return Authority{}, fmt.Errorf("certificates: %q (%s) is not that of an authority (no CA:TRUE)", c.Subject,
				Fingerprint(c))
		}
	}
	if len(keys) == 0 {
		return a, nil
	}
	signers, err := ParseKeys(keys)
	if err != nil {
		return Authority{}, fmt.Errorf("key: %w", err)
	}
	a.Key, a.More = signers[0], signers[1:]
	if a.Primary = certificateOf(certs, a.Key); a.Primary == nil {
		return Authority{}, errors.New("key: belongs to none of the certificates: a bundle must hold the certificate of " +
			"the key")
	}
	if u := a.Primary.KeyUsage; u != 0 && u&x509.KeyUsageCertSign == 0 {
		return Authority{}, fmt.Errorf("certificates: %q may not sign certificates (key usage)", a.Primary.Subject)
	}
	if until := a.Primary.NotAfter; time.Now().After(until) {
		return Authority{}, fmt.Errorf("certificates: %q (%s) expired at %s: give a new authority, with its key, and leave "+
			"the old one in the bundle",
			a.Primary.Subject, Fingerprint(a.Primary), until.Format(time.RFC3339))
	}
	return a, nil
}

// Holds reports whether a key is that of a certificate.
func Holds(key crypto.Signer, c *x509.Certificate) bool {
	if key == nil {
		return false
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.PublicKey)
}

// certificateOf returns the certificate that belongs to key, nil if there is none. If it was renewed, the one that
// expires last is returned.
func certificateOf(certs []*x509.Certificate, key crypto.Signer) *x509.Certificate {
	var found *x509.Certificate
	for _, c := range certs {
		if Holds(key, c) && (found == nil || c.NotAfter.After(found.NotAfter)) {
			found = c
		}
	}
	return found
}

// LoadAuthority reads an authority from files; keyFile may be empty. It refuses a key that others than its owner may
// read, and whatever ParseAuthority refuses.
func LoadAuthority(certFile, keyFile string) (Authority, error) {
	bundle, err := durable.Read(certFile, maxFile)
	if err != nil {
		return Authority{}, err
	}
	var key []byte
	if keyFile != "" {
		if key, err = durable.ReadSecret(keyFile, maxFile); err != nil {
			return Authority{}, err
		}
		if len(key) == 0 {
			return Authority{}, fmt.Errorf("%s is empty", keyFile)
		}
	}
	a, err := ParseAuthority(bundle, key)
	if err != nil {
		names := certFile
		if keyFile != "" {
			names += ", " + keyFile
		}
		return Authority{}, fmt.Errorf("%s: %w", names, err)
	}
	return a, nil
}

// Encode is the inverse of ParseAuthority. key is a secret; it is nil if the authority has none.
func (a Authority) Encode() (bundle, key []byte, err error) {
	if a.Key != nil {
		key, err = EncodeKeys(append([]crypto.Signer{a.Key}, a.More...)...)
	}
	return EncodeCertificates(a.Bundle...), key, err
}

// signers returns the certificates of the bundle that can sign, the primary first.
func (a Authority) signers() []signer {
	if a.Key == nil {
		return nil
	}
	all := []signer{{a.Primary, a.Key}}
	for _, k := range a.More {
		if c := certificateOf(a.Bundle, k); c != nil &&
			!slices.ContainsFunc(all, func(s signer) bool { return s.cert == c }) {
			all = append(all, signer{c, k})
		}
	}
	return all
}

// issue issues a leaf for a key. name is the fingerprint of the signer, which must be in the bundle with its key.
func (a Authority) issue(p profile, name string, key crypto.Signer, life time.Duration, now time.Time) (*leaf, error) {
	signers := a.signers()
	by := slices.IndexFunc(signers, func(s signer) bool { return Fingerprint(s.cert) == name })
	l, err := p.issue(signers[by], key, life, now)
	if err != nil {
		return nil, fmt.Errorf("issue the %s certificate: %w", p.name, err)
	}
	return l, nil
}

// after returns this authority with those keys of old that it was not given and whose certificates it has.
func (a Authority) after(old Authority) Authority {
	if a.Key == nil {
		return a
	}
	a.More = slices.Clone(a.More)
	known := a.signers()
	for _, s := range old.signers() {
		if slices.ContainsFunc(a.Bundle, s.cert.Equal) &&
			!slices.ContainsFunc(known, func(k signer) bool { return k.cert.Equal(s.cert) }) {
			a.More = append(a.More, s.key)
		}
	}
	return a
}

// all returns the certificates that may have issued a leaf, the primary first.
func (a Authority) all(before []*x509.Certificate) []*x509.Certificate {
	certs := slices.Concat(a.Bundle, before)
	if a.Primary != nil {
		certs = append([]*x509.Certificate{a.Primary}, certs...)
	}
	return certs
}

// Source returns the current authorities. It is asked repeatedly; after an error the known ones stay.
type Source interface {
	Authorities(ctx context.Context) (Authorities, error)
}

// FileSource reads the authorities from the files of a configuration each time.
type FileSource Config

// Authorities reads the four files. Without its key file, an authority only trusts, and cannot issue anything.
func (s FileSource) Authorities(context.Context) (Authorities, error) {
	clients, err := loadKeyed("client", s.ClientCAFile, s.ClientCAKeyFile)
	peers, err2 := loadKeyed("peer", s.PeerCAFile, s.PeerCAKeyFile)
	if err = errors.Join(err, err2); err != nil {
		return Authorities{}, err
	}
	for _, c := range clients.Bundle {
		if slices.ContainsFunc(peers.Bundle, c.Equal) {
			return Authorities{}, fmt.Errorf("tls.client-ca-file and tls.peer-ca-file: both hold %s (%s), so that any client "+
				"could be a member: they must be different authorities; `holdfast tls init` makes two",
				Fingerprint(c), c.Subject)
		}
	}
	return Authorities{Clients: clients, Peers: peers}, nil
}

// loadKeyed is LoadAuthority with the configuration keys in its errors.
func loadKeyed(whose, certFile, keyFile string) (Authority, error) {
	key := "tls." + whose + "-ca-file"
	if certFile == "" {
		return Authority{}, fmt.Errorf("%s is not set: give the certificate of the %ss' authority, or tls.ca-dir", key, whose)
	}
	a, err := LoadAuthority(certFile, keyFile)
	if err != nil {
		return Authority{}, fmt.Errorf("%s, tls.%s-ca-key-file: %w", key, whose, err)
	}
	return a, nil
}
