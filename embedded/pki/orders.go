package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/durable"
)

// Orders signs orders to the cluster in the backup store, and checks those that others have put there. A signature
// counts if it is by the key of the peers' authority, or by a certificate that may be a member's. For what a command
// gives, an operator's certificate counts as well.
type Orders struct {
	// papers returns what to sign and check with. Its error says why nothing is known yet.
	papers func() (papers, error)
}

// papers are what orders are signed and checked with.
type papers struct {
	authorities []*x509.Certificate // the peers'
	key         crypto.Signer       // nil if nothing can be signed
	chain       [][]byte            // DER, the key's leaf first; empty: the key is the authority's
	names       Names
	file        string // the file of the operator's certificate, if that signs
}

// orderSignature is how a signature is stored.
type orderSignature struct {
	Chain [][]byte `json:"chain,omitempty"` // DER, the leaf first; empty: an authority has signed
	Value []byte   `json:"value"`
}

// Orders returns an Orders that uses what the keeper knows at the time of each call; nil in mode off.
func (k *Keeper) Orders() *Orders {
	switch k.cfg.Mode {
	case ModeOff:
		return nil
	case ModeFiles:
		paths := map[string]File{}
		for _, f := range k.id.Watched {
			paths[f.Name] = f
		}
		return FileOrders(paths["peer"].Path, paths["peer"].Key, paths["peers-ca"].Path, k.id.Orders)
	}
	return &Orders{func() (papers, error) {
		have := k.now()
		if have.known == nil {
			return papers{}, errors.Join(errors.New("the peers' authority is not known here yet"), have.failing)
		}
		p := papers{authorities: slices.Concat(have.known.Peers.Bundle, have.trusted), names: k.id.Orders}
		if p.key = have.known.Peers.Key; p.key == nil { // only the operator has it; the leaf in Dir signs
			p.signAs(k.cfg.Files().Peer)
		}
		return p, nil
	}}
}

// signAs makes the certificate in the file sign, if there is one.
func (p *papers) signAs(file string) {
	if l, err := loadLeaf(file, nil); err == nil {
		p.key, _ = l.PrivateKey.(crypto.Signer)
		p.chain = l.Certificate.Certificate
	}
}

// SourceOrders signs and checks with the peers' authority, for a command that runs beside a node. If only the operator
// has its key, the member's certificate in certFile signs; "" for none. The source is asked once.
func SourceOrders(source Source, names Names, certFile string) *Orders {
	return &Orders{sync.OnceValues(func() (papers, error) {
		ctx, cancel := context.WithTimeout(context.Background(), sourceWait)
		defer cancel()
		a, err := source.Authorities(ctx)
		if err != nil {
			return papers{}, fmt.Errorf("read the certificate authorities: %w", err)
		}
		p := papers{authorities: a.Peers.Bundle, key: a.Peers.Key, names: names}
		if p.key == nil && certFile != "" {
			p.signAs(certFile)
		}
		return p, nil
	})}
}

// OperatorOrders signs and checks with an operator's [Paper], which is read each time.
func OperatorOrders(file string, names Names) *Orders {
	return &Orders{func() (papers, error) {
		paper, err := ReadPaper(file)
		if err != nil {
			return papers{}, fmt.Errorf("tls.operator-file: %w", err)
		}
		p := papers{authorities: paper.Authorities, chain: paper.Certificate.Certificate, names: names, file: file}
		p.key, _ = paper.PrivateKey.(crypto.Signer)
		return p, nil
	}}
}

// FileOrders signs with a member's certificate and checks with its authorities. The files are read each time.
func FileOrders(certFile, keyFile, authorityFile string, names Names) *Orders {
	if authorityFile == "" {
		return nil
	}
	return &Orders{func() (papers, error) {
		text, err := durable.Read(authorityFile, maxFile)
		if err != nil {
			return papers{}, err
		}
		p := papers{names: names}
		if p.authorities, err = ParseCertificates(text); err != nil {
			return papers{}, fmt.Errorf("%s: %w", authorityFile, err)
		}
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return p, nil // this suffices to check; Sign says that there is no key
		}
		p.key, _ = pair.PrivateKey.(crypto.Signer)
		p.chain = pair.Certificate
		return p, nil
	}}
}

// Sign signs a text. command says that it is of a kind that commands give. An operator's certificate signs nothing
// else, and nothing that would not count.
func (o *Orders) Sign(text []byte, command bool) (signature []byte, err error) {
	p, err := o.papers()
	if err != nil {
		return nil, err
	}
	if p.key == nil {
		return nil, errors.New("neither the key of the peers' authority nor that of a member's certificate is known here: " +
			"run the command on a node, as root or holdfast's user, or set tls.operator-file (`holdfast tls operator`)")
	}
	s := orderSignature{Chain: p.chain}
	if s.Value, err = Sign(p.key, text); err != nil {
		return nil, err
	}
	if signature, err = json.Marshal(s); err != nil || p.file == "" {
		return signature, err
	}
	if err := p.check(text, signature, time.Time{}, command); err != nil {
		return nil, fmt.Errorf("tls.operator-file %s: %w", p.file, err)
	}
	return signature, nil
}

// Able says why nothing can be checked now; nil if signatures can be checked.
func (o *Orders) Able() error {
	_, err := o.papers()
	return err
}

// Check says why a signature does not count for a text that the store received at a time; nil if it counts. command
// says that the text is of a kind that commands give, which an operator's certificate may sign.
func (o *Orders) Check(text, signature []byte, at time.Time, command bool) error {
	p, err := o.papers()
	if err != nil {
		return err
	}
	return p.check(text, signature, at, command)
}

// Lasts reports whether a signature rests on an authority with which orders are signed here now. Such a signature still
// counts when the other authorities are dropped. If nothing can be signed here, all signatures last.
func (o *Orders) Lasts(text, signature []byte, at time.Time, command bool) bool {
	p, err := o.papers()
	if err != nil || p.key == nil {
		return true
	}
	p.authorities = slices.DeleteFunc(slices.Clone(p.authorities), func(c *x509.Certificate) bool { return !p.rests(c) })
	return p.check(text, signature, at, command) == nil
}

// rests reports whether what these papers sign rests on an authority.
func (p papers) rests(on *x509.Certificate) bool {
	if len(p.chain) == 0 {
		return Holds(p.key, on)
	}
	_, err := p.verify(p.chain, []*x509.Certificate{on}, time.Time{}, true)
	return err == nil
}

// check says why a signature does not count for a text that the store received at a time.
func (p papers) check(text, signature []byte, at time.Time, command bool) error {
	var s orderSignature
	if err := json.Unmarshal(signature, &s); err != nil {
		return fmt.Errorf("its signature cannot be read: %w", err)
	}
	if len(s.Chain) == 0 {
		if slices.ContainsFunc(p.authorities, func(c *x509.Certificate) bool { return Check(c, text, s.Value) == nil }) {
			return nil
		}
		return errors.New("it is not signed by the peers' authority")
	}
	leaf, err := p.verify(s.Chain, p.authorities, at, command)
	if err != nil {
		return err
	}
	if Check(leaf, text, s.Value) != nil {
		return errors.New("its signature is not that of the certificate beside it")
	}
	return nil
}

// verify returns the leaf of a chain to one of the authorities, if it was a member's at a time. For a command, an
// operator's is accepted too. The zero time is now.
func (p papers) verify(chain [][]byte, authorities []*x509.Certificate, at time.Time,
	command bool) (leaf *x509.Certificate, err error) {
	options := x509.VerifyOptions{Roots: Pool(authorities...), Intermediates: x509.NewCertPool(),
		CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for i, der := range slices.Backward(chain) {
		if leaf, err = x509.ParseCertificate(der); err != nil {
			return nil, fmt.Errorf("certificate %d of its signature: %w", i+1, err)
		}
		options.Intermediates.AddCert(leaf)
	}
	if _, err := leaf.Verify(options); err != nil {
		return nil, fmt.Errorf("it is signed with a certificate that is not a member's: %w", err)
	}
	switch operator := p.names.operator(leaf); {
	case p.names.Member(leaf), operator && command:
		return leaf, nil
	case operator:
		return nil, fmt.Errorf("it is signed with the operator's certificate of %s, which signs proposals and their "+
			"aborts, and nothing else", leaf.Subject)
	}
	return nil, fmt.Errorf("it is signed with a certificate that is not a member's, but for %q (%s)", leaf.DNSNames,
		leaf.Subject)
}

// Sign signs a text with a key, in the same way as certificates are signed.
func Sign(key crypto.Signer, text []byte) ([]byte, error) {
	if _, ok := key.Public().(ed25519.PublicKey); ok {
		return key.Sign(rand.Reader, text, crypto.Hash(0))
	}
	digest := sha256.Sum256(text)
	return key.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// Check checks a signature made by [Sign] with the key of a certificate.
func Check(by *x509.Certificate, text, signature []byte) error {
	switch by.PublicKey.(type) {
	case *ecdsa.PublicKey:
		return by.CheckSignature(x509.ECDSAWithSHA256, text, signature)
	case *rsa.PublicKey:
		return by.CheckSignature(x509.SHA256WithRSA, text, signature)
	case ed25519.PublicKey:
		return by.CheckSignature(x509.PureEd25519, text, signature)
	}
	return fmt.Errorf("%q has a key of type %T", by.Subject, by.PublicKey)
}
