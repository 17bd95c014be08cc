package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"holdfast/durable"
)

// These are the names of the leaves in series, messages and, with .pem, files.
const (
	serverLeaf = "server"
	peerLeaf   = "peer"
)

var bothUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// profile is what a leaf says about its bearer.
type profile struct {
	name       string
	commonName string
	dns        []string // sorted, without duplicates
	ips        []net.IP
	usages     []x509.ExtKeyUsage
}

// serverProfile has no common name. With etcd's authentication a client's common name is the user, and etcd's gRPC
// gateway presents the server's certificate as a client (server/auth/store.go, AuthInfoFromTLS). Without a common name
// it is no user.
func serverProfile(names []string) profile {
	p := profile{name: serverLeaf, usages: bothUsages}
	for _, name := range slices.Concat(names, []string{"localhost", "127.0.0.1", "::1"}) {
		ip := net.ParseIP(name)
		switch {
		case ip == nil:
			p.dns = append(p.dns, strings.ToLower(name))
		case !ip.IsUnspecified():
			p.ips = append(p.ips, ip.To16())
		}
	}
	p.dns = sorted(p.dns)
	slices.SortFunc(p.ips, func(a, b net.IP) int { return bytes.Compare(a, b) })
	p.ips = slices.CompactFunc(p.ips, net.IP.Equal)
	return p
}

// peerProfile has no node's address unless one is given, so that the slot may move. With an address, a move needs
// another certificate. host is the name in the member's URL, own is the slot's fixed name.
func peerProfile(peerName, own, host, address string) profile {
	p := profile{name: peerLeaf, commonName: own, dns: sorted([]string{peerName, own, host}), usages: bothUsages}
	if ip := net.ParseIP(address); ip != nil {
		p.ips = []net.IP{ip.To16()}
	}
	return p
}

func sorted(names []string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" })
	slices.Sort(names)
	return slices.Compact(names)
}

// names returns all names and addresses, for a log.
func (p profile) names() []string {
	all := slices.Clone(p.dns)
	for _, ip := range p.ips {
		all = append(all, ip.String())
	}
	return all
}

// fits reports whether a certificate says exactly what the profile wants.
func (p profile) fits(c *x509.Certificate) bool {
	ips := make([]net.IP, len(c.IPAddresses))
	for i, ip := range c.IPAddresses {
		ips[i] = ip.To16()
	}
	slices.SortFunc(ips, func(a, b net.IP) int { return bytes.Compare(a, b) })
	return c.Subject.CommonName == p.commonName && slices.Equal(sorted(c.DNSNames), p.dns) &&
		slices.EqualFunc(ips, p.ips, net.IP.Equal)
}

// leaf is a certificate of ours with its key.
type leaf struct {
	tls.Certificate
	cert   *x509.Certificate
	issuer string // fingerprint; "" if it is unknown
}

// issue signs a certificate for a key of ours.
func (p profile) issue(by signer, key crypto.Signer, life time.Duration, now time.Time) (*leaf, error) {
	from, until := lifeFrom(now, life)
	l, err := p.sign(by, key.Public(), from, until, now)
	if err != nil {
		return nil, err
	}
	l.PrivateKey = key
	return l, nil
}

// sign signs a certificate, and verifies that those who trust the signer will accept it.
func (p profile) sign(by signer, key crypto.PublicKey, from, until, now time.Time) (*leaf, error) {
	if end := by.cert.NotAfter; end.Before(until) {
		until = end
		if start, _ := lifeFrom(now, end.Sub(now)); start.After(from) { // a short life has little of it behind it
			from = start
		}
	}
	if !now.Before(until) {
		return nil, fmt.Errorf("the authority %q (%s) expired at %s", by.cert.Subject, Fingerprint(by.cert),
			until.Format(time.RFC3339))
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: p.commonName}, DNSNames: p.dns, IPAddresses: p.ips,
		NotBefore: from, NotAfter: until, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: p.usages,
	}
	c, err := sign(template, by.cert, key, by.key)
	if err != nil {
		return nil, err
	}
	roots := Pool(by.cert)
	for _, usage := range p.usages {
		options := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := c.Verify(options); err != nil {
			return nil, fmt.Errorf("what the authority %q (%s) signs is refused: %w", by.cert.Subject, Fingerprint(by.cert), err)
		}
	}
	l := &leaf{cert: c, issuer: Fingerprint(by.cert)}
	l.Leaf, l.Certificate.Certificate = c, [][]byte{c.Raw}
	if !bytes.Equal(by.cert.RawIssuer, by.cert.RawSubject) { // for those that trust only a higher authority
		l.Certificate.Certificate = append(l.Certificate.Certificate, by.cert.Raw)
	}
	return l, nil
}

// encode returns the text of one file with the certificate, its chain to the authority, and the key.
func (l *leaf) encode() ([]byte, error) {
	key, err := EncodeKeys(l.PrivateKey.(crypto.Signer))
	return append(l.chain(), key...), err
}

// chain returns the certificate and its chain to the authority, as PEM.
func (l *leaf) chain() (text []byte) {
	for _, der := range l.Certificate.Certificate {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})...)
	}
	return text
}

// loadLeaf reads what encode wrote. known has the authorities that may have issued it, in order of preference.
func loadLeaf(path string, known []*x509.Certificate) (*leaf, error) {
	text, err := durable.ReadSecret(path, maxFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, ok := pair.PrivateKey.(crypto.Signer); !ok {
		return nil, fmt.Errorf("%s: the key cannot sign", path)
	}
	l := &leaf{Certificate: pair, cert: pair.Leaf}
	for _, c := range known {
		if l.cert.CheckSignatureFrom(c) == nil {
			l.issuer = Fingerprint(c)
			break
		}
	}
	return l, nil
}

// held returns what a decision needs to know of a leaf; nil if the leaf cannot be used.
func (l *leaf) held(p profile) *held {
	if l == nil || l.issuer == "" || !p.fits(l.cert) {
		return nil
	}
	sum := sha256.Sum256(l.cert.Raw)
	return &held{From: l.cert.NotBefore, Until: l.cert.NotAfter, Issuer: l.issuer, Spread: float64(sum[0]) / 255}
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}
