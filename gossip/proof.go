package gossip

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

const (
	maxProof  = 8 << 10 // bytes, of which a certificate of ours takes 600, and three of an operator's with RSA-4096 4,700
	maxForged = 8       // invalid proofs, after which the others of a message are not checked: each costs CPU
)

var errProof = errors.New("it tells of another node what that node's certificate has not signed: that does not count")

// text is what is signed: the cluster, so that no other one takes it for its own, and the word.
func (e entry) text(label string) []byte {
	return fmt.Appendf(nil, "holdfast gossip word 2\n%q %q %d %s %q %d\n%s", label, e.Node, e.Boot, e.Address, e.Version,
		e.Seq, e.State)
}

// proof is made by the key of the first certificate; the others lead to its authority.
type proof struct {
	Signature []byte
	Chain     [][]byte // DER
}

// prove signs a word of this process with its certificate.
func (t TLS) prove(e entry, pair *tls.Certificate) (text []byte, err error) {
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key of this node's certificate cannot sign")
	}
	signature, err := t.Sign(key, e.text(t.label))
	if err != nil {
		return nil, err
	}
	err = codec.NewEncoderBytes(&text, msgpack).Encode(proof{signature, pair.Certificate})
	if len(text) > maxProof {
		return nil, fmt.Errorf("this node's certificates are too large: a proof has %d bytes, at most %d are allowed",
			len(text), maxProof)
	}
	return text, err
}

// proves returns why a word is not its speaker's, nil if it is.
func (t TLS) proves(e entry) error {
	var p proof
	if err := codec.NewDecoderBytes(e.Proof, msgpack).Decode(&p); err != nil {
		return err
	}
	chain, err := x509.ParseCertificates(slices.Concat(p.Chain...))
	if err != nil {
		return err
	}
	from, err := t.check(chain, x509.ExtKeyUsageClientAuth)
	if err == nil && !from.speaksFor(e.Node) {
		err = fmt.Errorf("it is signed with a certificate of %q", from.Node)
	}
	if err != nil {
		return err
	}
	return t.Check(chain[0], e.text(t.label), p.Signature)
}

// prover has what this process shows to others, signs its words, and decides which words that others pass on count.
// Without certificates of its own (TLS.Sign) all do.
type prover struct {
	papers TLS // not changed after Run has begun
	parts
}

// newProver shows what the keys of a file make, until UseTLS.
func newProver(p parts, keyFile string) *prover {
	keys := &keyring{path: keyFile, notices: p.notices}
	papers := keys.tls()
	papers.label = p.label
	return &prover{papers, p}
}

// UseTLS has each process show a certificate of its own, and only facts of a node count that its certificate tells.
// Call it before Run.
func (p *prover) UseTLS(t TLS) {
	t.label = p.label
	p.papers, p.known.view.strict = t, true
}

// sign proves our newest word, and again when our certificate was renewed: that makes it a new word, which all nodes
// hear.
func (p *prover) sign() {
	pair, err := p.papers.Certificate() // a key file is read again, no matter how rarely anyone connects
	if p.papers.Sign == nil {
		return
	}
	if err == nil {
		err = p.known.signOwn(pair.Certificate[0], func(own entry) ([]byte, error) { return p.papers.prove(own, pair) })
	}
	if err != nil {
		p.warn(ProblemTLS, fmt.Sprintf("this node cannot sign what it says, so the other nodes ignore it: %v", err))
		return
	}
	p.settle(ProblemTLS)
}

// ready waits until there is what this process shows to others, or returns false when ctx ends. A file of keys is there
// from the start, or its error is returned.
func (p *prover) ready(ctx context.Context) (bool, error) {
	if p.papers.Sign != nil {
		return p.papers.await(ctx, p.notices), nil
	}
	_, err := p.papers.Certificate()
	return err == nil, err
}

// authentic returns which words count of a message of the node from. A word that is no news is not checked.
func (p *prover) authentic(entries []entry, from string) (counts []entry) {
	forged := 0
	for _, e := range entries {
		switch {
		case p.papers.Sign == nil:
			counts = append(counts, e)
		case e.Proof == nil || forged == maxForged || !p.known.news(e):
		default:
			if err := p.papers.proves(e); err != nil {
				forged++
				p.reject(reasonCertificate, "proof/"+e.Node,
					fmt.Sprintf("%s, told by %q: %v: %v", e.Node, from, errProof, err))
				continue
			}
			counts = append(counts, e)
		}
	}
	return counts
}
