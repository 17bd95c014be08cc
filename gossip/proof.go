package gossip

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	"go.uber.org/zap"
)

// A word is what a process says of itself: its entry. With TLS it counts if it came from its speaker, over a connection
// with that node's certificate, or, passed on by another node, if it has a proof: a signature of the certificate's key,
// and the certificate. The first needs no proof, so that nodes of a version without proofs are heard by all nodes they
// reach.

const (
	maxProof  = 4 << 10 // bytes, of which a certificate of ours takes 600
	perEntry  = 12      // proofs in an entry of a push/pull, whose state they fit (maxState)
	maxProofs = (maxNodes + perEntry - 1) / perEntry
	maxForged = 8 // proofs that do not hold, after which no more of a message are looked at: each costs CPU
)

var errProof = errors.New("it tells of another node what that node's certificate has not signed: that does not count")

// text is what is signed: the cluster, so that no other one takes it for its own, and the word.
func (e entry) text(label string) []byte {
	return appendEntry(appendText([]byte("holdfast gossip word 1\n"), label), e)
}

// prove signs a word of this process. The chain is the certificate and what leads to its authority, as DER.
func (t TLS) prove(label string, e entry) (proof []byte, chain [][]byte, err error) {
	pair, err := t.Certificate()
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, errors.New("the key of this node's certificate cannot sign")
	}
	signature, err := t.Sign(key, e.text(label))
	if err != nil {
		return nil, nil, err
	}
	proof = appendBytes(nil, signature)
	for _, der := range pair.Certificate {
		proof = appendBytes(proof, der)
	}
	if len(proof) > maxProof {
		return nil, nil, fmt.Errorf("this node's certificates are too large: a proof has %d bytes, at most %d are allowed",
			len(proof), maxProof)
	}
	return proof, pair.Certificate, nil
}

// proves returns why a word is not its speaker's, nil if it is.
func (t TLS) proves(label string, e entry) error {
	r := reader{rest: e.proof}
	signature := r.bytes(maxProof)
	var chain []*x509.Certificate
	for r.err == nil && len(r.rest) > 0 {
		c, err := x509.ParseCertificate(r.bytes(maxProof))
		r.fail(err)
		chain = append(chain, c)
	}
	if r.err != nil {
		return r.err
	}
	from, err := t.check(chain, x509.ExtKeyUsageClientAuth)
	if err == nil && !from.speaksFor(e.Node) {
		err = fmt.Errorf("it is signed with a certificate of %q", from.Node)
	}
	if err != nil {
		return err
	}
	return t.Check(chain[0], e.text(label), signature)
}

// prover signs this process's words, and decides which words that others pass on count. Without TLS all do.
type prover struct {
	tls      *TLS // nil: as Config.KeyFile says; not changed after Run has begun
	label    string
	known    *knowledge
	refusals refusals
	lg       *zap.Logger
}

// sign proves our newest word, and again when our certificate was renewed: that makes it a new word, which all nodes
// hear.
func (p *prover) sign() {
	if p.tls == nil {
		return
	}
	pair, err := p.tls.Certificate()
	var certificate []byte
	if err == nil {
		certificate = pair.Certificate[0]
	}
	own, unsigned := p.known.unsigned(certificate)
	if !unsigned {
		return
	}
	proof, chain, err := p.tls.prove(p.label, own)
	if err != nil {
		p.lg.Debug("state not signed", zap.Error(err))
		return
	}
	p.known.signed(own, proof, chain[0])
}

// authentic returns which words of a message count. A word that is no news is not checked.
func (p *prover) authentic(entries []entry, from Speaker) (counts []entry) {
	forged := 0
	for _, e := range entries {
		switch {
		case e.Observer:
		case p.tls == nil, from.speaksFor(e.Node):
			counts = append(counts, e)
		case e.proof == nil || forged == maxForged || !p.known.news(e):
		default:
			if err := p.tls.proves(p.label, e); err != nil {
				forged++
				p.refusals.reject(reasonCertificate, "proof/"+e.Node,
					fmt.Sprintf("%s, told by %q: %v: %v", e.Node, from.Node, errProof, err))
				continue
			}
			counts = append(counts, e)
		}
	}
	return counts
}
