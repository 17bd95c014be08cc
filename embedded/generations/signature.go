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

// ErrUnsigned: nothing was put, because it could not be signed.
var ErrUnsigned = errors.New("it cannot be signed here")

// Signer signs orders to the cluster, and checks them. command says that the text is of a kind that commands put. An
// operator without a part in the cluster may sign such texts.
type Signer interface {
	Sign(text []byte, command bool) (signature []byte, err error)
	// Able says why nothing can be checked now (the authorities are not known yet); nil if signatures can be checked.
	Able() error
	// Check says why a signature does not count for a text that the store received at a time; nil if it counts.
	Check(text, signature []byte, at time.Time, command bool) error
	// Lasts reports whether a valid signature is by an authority that signs now, and not by one that will soon be
	// removed.
	Lasts(text, signature []byte, at time.Time, command bool) bool
}

// An order is a JSON object with one more member, the last one. It holds the signature of the text without it and of
// the object's name. No JSON string contains a line break, so nothing inside the object looks like that member.
var (
	signatureBegins = []byte(",\n  \"signature\": ")
	objectEnds      = []byte("\n}\n")
)

// covered returns what a signature covers. The name in it makes the signature invalid for any other object, and the
// prefix for anything that is signed elsewhere.
func covered(name string, text []byte) []byte {
	return fmt.Appendf(nil, "holdfast/order/1\n%s\n%s", name, text)
}

// commanded reports whether an object is of a kind that commands put: a proposal, or an abort. Only nodes put the
// conclusion of a proposal, and what began a generation.
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
		return nil, fmt.Errorf("sign %s: it is not a JSON object with members", name)
	}
	return bytes.Join([][]byte{body, signatureBegins, signature, objectEnds}, nil), nil
}

// seal is what an object's signature says about it. The zero seal means that it comes from the cluster.
type seal struct {
	unproven error // why nothing proves it; nil if something does, or if nobody signs
	attested bool  // only an attestation proves it
	passing  bool  // its proof will soon be invalid
}

// checked returns the part of an object that may be believed, and what proves that it comes from the cluster.
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

// doubt records the newest generation that rests on an object which nothing proves to be the cluster's.
func doubt(s *plan.Store, generation uint64, name string, unproven error) {
	if unproven == nil || s.Unproven >= generation {
		return
	}
	s.Unproven = generation
	s.Doubt = fmt.Sprintf("%s: %v. Find out who can write the store; remove it if it is forged, or if a holdfast that "+
		"does not sign has put it there", name, unproven)
}
