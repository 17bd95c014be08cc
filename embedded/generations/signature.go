package generations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// ErrUnsigned is wrapped when nothing was put, for it could not be signed.
var ErrUnsigned = errors.New("it cannot be signed here")

// Signer signs orders to the cluster, and checks them. command says that a text is one that a command gives: an
// operator may sign it who has no part in the cluster.
type Signer interface {
	Sign(text []byte, command bool) (signature []byte, err error)
	// Able says why nothing can be checked at present, nil if it can: the authorities are not known yet.
	Able() error
	// Check says why a signature does not count for a text that the store got at a time, nil if it does.
	Check(text, signature []byte, at time.Time, command bool) error
	// Lasts reports whether a signature that counts is one of those that are made now, and not of an authority which is
	// about to go.
	Lasts(text, signature []byte, at time.Time, command bool) bool
}

// An order is a JSON object with one member more, the last one, which holds the signature of the text without it and of
// the object's name. A line break is in no JSON string, so that nothing inside of the object looks like that member.
var (
	signatureBegins = []byte(",\n  \"signature\": ")
	objectEnds      = []byte("\n}\n")
)

// covered is what a signature covers: it is good for no other object, and for nothing that is signed elsewhere.
func covered(name string, text []byte) []byte {
	return fmt.Appendf(nil, "holdfast/order/1\n%s\n%s", name, text)
}

// commanded reports whether an object is one that a command puts: a proposal, or that one is aborted. How a proposal is
// concluded, and what began a generation, only nodes say.
func commanded(name string, text []byte) bool {
	m := objectName.FindStringSubmatch(path.Base(name))
	switch {
	case m == nil:
		return false
	case m[1] == "outcome":
		var done outcome
		return json.Unmarshal(text, &done) == nil && done.Record == nil && done.Abort != nil
	}
	return m[1] == "restore"
}

// signed adds a signature to the text of an object.
func signed(by Signer, name string, text []byte) ([]byte, error) {
	signature, err := by.Sign(covered(name, text), commanded(name, text))
	if err != nil {
		return nil, err
	}
	body, whole := bytes.CutSuffix(text, objectEnds)
	if !whole {
		return nil, fmt.Errorf("sign %s: it is no object with members", name)
	}
	return bytes.Join([][]byte{body, signatureBegins, signature, objectEnds}, nil), nil
}

// seal is what an object's signature says of it. The zero seal is that of the cluster.
type seal struct {
	unproven error // why no signature of the cluster's is on it, nil if one is, or nobody signs
	attested bool  // it is proven by an attestation alone
	passing  bool  // what proves it is about to count no more
}

// checked returns what of an object may be believed, and what shows that it comes from the cluster.
func (r *objects) checked(o snapshot.Object, data []byte) (text []byte, s seal) {
	if r.Signer == nil {
		return data, seal{}
	}
	if text, s = r.signedBy(o, data); s.unproven == nil && !s.passing {
		return text, s
	}
	if proven, passing := r.attests(o.Name, text); proven && (s.unproven != nil || !passing) {
		s = seal{attested: s.unproven != nil, passing: passing}
	}
	return text, s
}

// signedBy is checked by the signature alone.
func (r *objects) signedBy(o snapshot.Object, data []byte) (text []byte, s seal) {
	i := bytes.LastIndex(data, signatureBegins)
	if i < 0 {
		return data, seal{unproven: errors.New("it is not signed")}
	}
	text = append(bytes.Clone(data[:i]), objectEnds...)
	signature, whole := bytes.CutSuffix(data[i+len(signatureBegins):], objectEnds)
	if !whole {
		return text, seal{unproven: errors.New("its signature is damaged")}
	}
	at := o.Modified
	if at.IsZero() {
		at = time.Now()
	}
	ordered := commanded(o.Name, text)
	if s.unproven = r.Signer.Check(covered(o.Name, text), signature, at, ordered); s.unproven == nil {
		s.passing = !r.Signer.Lasts(covered(o.Name, text), signature, at, ordered)
	}
	return text, s
}

// doubt notes the newest generation that rests on an object which nobody of the cluster has signed.
func doubt(s *plan.Store, generation uint64, name string, unproven error) {
	if unproven == nil || s.Unproven >= generation {
		return
	}
	s.Unproven = generation
	s.Doubt = fmt.Sprintf("%s: %v. Find out who can write the store; remove it if it is forged, or if a holdfast that "+
		"does not sign has put it there",
		name, unproven)
}
