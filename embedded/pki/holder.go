package pki

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/durable"
)

// Holder is the kind of holder of a certificate that is kept on a machine without a node.
type Holder string

const (
	// Client talks to etcd. The clients' authority issues its certificate; the peers' authority issues those of the
	// others.
	Client Holder = "client"
	// Observer listens to the gossip.
	Observer Holder = "observer"
	// Operator signs what commands put into the backup store, and has no other part in the cluster.
	Operator Holder = "operator"
)

// OrderName is the DNS name in an operator's certificate. No slot has such a name, so the certificate is useless at a
// member's port.
func OrderName(zone string) string { return "operator.orders." + zone }

// profile returns what the holder's certificate says.
func (h Holder) profile(zone, name string) profile {
	p := profile{name: string(h), commonName: name, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	switch h {
	case Observer:
		p.dns, p.usages = []string{WatchName(zone)}, bothUsages // nodes also dial it
	case Operator:
		p.dns = []string{OrderName(zone)}
	}
	return p
}

// HolderOf returns the kind of holder for which a certificate of the peers' authority was issued. It fails for a
// node's.
func HolderOf(c *x509.Certificate, zone string) (Holder, error) {
	for _, h := range []Holder{Observer, Operator} {
		if c.Subject.CommonName != "" && h.profile(zone, c.Subject.CommonName).fits(c) {
			return h, nil
		}
	}
	return "", fmt.Errorf("the certificate is for %q (%s), and neither for an observer nor for an operator of %s",
		c.DNSNames, c.Subject, zone)
}

// signer returns the current signer for a holder, and all authorities that are trusted with it.
func (h Holder) signer(a Authorities) (by signer, bundle []*x509.Certificate, err error) {
	authority, whose, key := a.Peers, "peers", "tls.peer-ca-key-file"
	if h == Client {
		authority, whose, key = a.Clients, "clients", "tls.client-ca-key-file"
	}
	signers := authority.signers()
	if len(signers) == 0 {
		return by, nil, fmt.Errorf("the key of the %s' authority is not known here (%s)", whose, key)
	}
	return signers[0], authority.Bundle, nil
}

// IssuePaper issues what an observer or an operator needs, as the text of one file: a [Paper].
func IssuePaper(a Authorities, h Holder, zone, name string, life time.Duration, now time.Time) ([]byte, error) {
	by, bundle, err := h.signer(a)
	if err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	l, err := h.profile(zone, name).issue(by, key, life, now)
	if err != nil {
		return nil, err
	}
	text, err := l.encode()
	return append(text, EncodeCertificates(bundle...)...), err
}

// Paper is what an observer or an operator has: a certificate with its key, which is a secret, and the peers'
// authorities.
type Paper struct {
	tls.Certificate                     // only the leaf
	Authorities     []*x509.Certificate // the peers'
}

// ReadPaper reads a file with the text of [IssuePaper].
func ReadPaper(path string) (p Paper, err error) {
	text, err := durable.ReadSecret(path, maxFile)
	if err != nil {
		return p, err
	}
	if p.Certificate, err = tls.X509KeyPair(text, text); err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	for _, der := range p.Certificate.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return p, fmt.Errorf("%s: %w", path, err)
		}
		p.Authorities = append(p.Authorities, c)
	}
	p.Certificate.Certificate = p.Certificate.Certificate[:1]
	return p, nil
}

// Pool returns its authorities.
func (p Paper) Pool() *x509.CertPool { return Pool(p.Authorities...) }

// With returns the text of the paper's file with other authorities and, unless certificate is empty, another
// certificate, as PEM.
func (p Paper) With(certificate, authorities string) ([]byte, error) {
	key, ok := p.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", p.PrivateKey)
	}
	text, err := EncodeKeys(key)
	if certificate == "" {
		certificate = string(EncodeCertificates(p.Leaf))
	}
	return bytes.Join([][]byte{[]byte(certificate), text, []byte(authorities)}, nil), err
}

// Names says whose certificates of the peers' authority sign orders.
type Names struct {
	Zone string // CLUSTER.DOMAIN
	// Members and CommonNames identify members: a member's certificate has one of these DNS names, or one of these
	// common names.
	Members, CommonNames []string
}

// Member reports whether a certificate may be a member's.
func (n Names) Member(c *x509.Certificate) bool {
	// A certificate with a member's name as well gets the lesser right.
	if slices.Contains(c.DNSNames, WatchName(n.Zone)) || n.operator(c) {
		return false
	}
	return slices.Contains(n.CommonNames, c.Subject.CommonName) ||
		slices.ContainsFunc(n.Members, func(name string) bool { return c.VerifyHostname(name) == nil })
}

func (n Names) operator(c *x509.Certificate) bool {
	return slices.Contains(c.DNSNames, OrderName(n.Zone))
}

// Renewal tells a holder what it needs to keep its certificate fresh.
type Renewal struct {
	Bundle      []byte            // the authorities of its kind, as PEM
	Due         bool              // it is time for another certificate
	Certificate []byte            // PEM, for the same key; nil if none was issued
	Leaf        *x509.Certificate // the first of Certificate
	Authority   string            // fingerprint of the authority that signed it
}

// Due reports whether a certificate should be replaced by one of an authority, because two thirds of its life are over,
// or because another authority has signed it.
func Due(has, authority *x509.Certificate, now time.Time) bool {
	return now.After(has.NotBefore.Add(has.NotAfter.Sub(has.NotBefore)*2/3)) ||
		authority != nil && has.CheckSignatureFrom(authority) != nil
}

// KeyOf identifies the key of a certificate by the first 16 hex digits of the SHA-256 of the public key. It stays the
// same when the certificate is renewed.
func KeyOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:8])
}

// Renewal returns what a holder's certificate needs, and issues nothing.
func (k *Keeper) Renewal(ctx context.Context, h Holder, has *x509.Certificate, now time.Time) (r Renewal, err error) {
	by, bundle, err := k.signerFor(ctx, h)
	if err != nil {
		return r, err
	}
	return Renewal{Bundle: EncodeCertificates(bundle...), Due: Due(has, by.cert, now)}, nil
}

// Renew issues a holder's certificate with the content, key and validity of an earlier one, but for no longer than
// most. The caller has made sure that the holder has the key, and is allowed another certificate.
func (k *Keeper) Renew(ctx context.Context, h Holder, has *x509.Certificate, most time.Duration,
	now time.Time) (r Renewal, err error) {
	by, bundle, err := k.signerFor(ctx, h)
	switch {
	case err != nil:
		return r, err
	case has.Subject.CommonName == "":
		return r, errors.New("the certificate has no common name")
	case !now.Before(has.NotAfter):
		return r, fmt.Errorf("the certificate expired at %s", has.NotAfter.UTC().Format(time.RFC3339))
	case !Due(has, by.cert, now):
		return r, errors.New("it is not time yet: two thirds of its life are not over")
	}
	// This includes the time by which the old certificate was backdated, so that the life never grows.
	life := min(has.NotAfter.Sub(has.NotBefore), most)
	from, _ := lifeFrom(now, life)
	l, err := h.profile(k.id.Zone, has.Subject.CommonName).sign(by, has.PublicKey, from, from.Add(life), now)
	if err != nil {
		return r, err
	}
	return Renewal{Bundle: EncodeCertificates(bundle...), Due: true, Certificate: l.chain(), Leaf: l.Leaf,
		Authority: l.issuer}, nil
}
