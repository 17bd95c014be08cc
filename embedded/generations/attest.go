package generations

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
)

// Signatures do not last: an authority is replaced, and objects from an older holdfast are not signed at all. So the
// leader of a generation states again, under the current authority, which texts began this generation and those before
// it. Each attestation overwrites the last one. It proves the texts that it names, byte by byte, and arbitrates
// nothing. Without it, a disk of an older generation treats the store as unknown. With it, the disk finds what it would
// have found at the time.

// attestation names the texts that began a generation.
type attestation struct {
	Generation uint64 `json:"generation"`
	Record     string `json:"record"` // ID of the generation's record
	// Texts maps each object's name to the SHA-256, in hex, of its content without the signature.
	Texts map[string]string `json:"texts"`
}

// proofs holds what attestations say, and what is to be attested.
type proofs struct {
	mu    sync.Mutex
	texts map[string]proof      // by the object's name
	begun map[uint64]*beginning // by generation, when the store was last read
}

// beginning is what began a generation, as read from the store.
type beginning struct {
	texts    map[string][]byte // by the object's name
	unproven bool              // one of the texts has no valid proof now
	due      bool              // one of them has none, or not for much longer
}

// proof says that an object's text comes from the cluster.
type proof struct {
	digest  string
	passing bool // its signature will soon be invalid
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// attests reports whether an attestation names the text of an object, and whether that attestation will soon be
// invalid.
func (p *proofs) attests(name string, text []byte) (proven, passing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, ok := p.texts[name]
	return ok && is.digest == digest(text), is.passing
}

// readAttestations reads the attestations in the store. It ignores one that is damaged or not signed by the cluster, as
// if it were missing.
func (r *objects) readAttestations(ctx context.Context, l listing) error {
	if r.Signer == nil {
		return nil
	}
	texts := map[string]proof{}
	for _, o := range l.proofs {
		var a attestation
		data, err := r.fetch(ctx, r.Store, o.Object)
		if err != nil {
			return fmt.Errorf("read %s in the store: %w", o.Name, err)
		}
		if err := r.Signer.Able(); err != nil {
			return fmt.Errorf("check %s in the store: %w", o.Name, err)
		}
		text, s := r.signedBy(o.Object, data)
		if s.unproven != nil || json.Unmarshal(text, &a) != nil { // the name is signed as well
			continue
		}
		for name, is := range a.Texts {
			texts[name] = proof{is, s.passing}
		}
		if !o.Modified.IsZero() {
			r.cache.keep(o.Version(), data)
		}
	}
	r.proofs.mu.Lock()
	defer r.proofs.mu.Unlock()
	r.proofs.texts = texts
	return nil
}

// began records a text that began a generation.
func (l listing) began(generation uint64, name string, text []byte, s seal) {
	b := l.begun[generation]
	if b == nil {
		b = &beginning{texts: map[string][]byte{}}
		l.begun[generation] = b
	}
	b.texts[name] = text
	b.unproven = b.unproven || s.unproven != nil
	b.due = b.due || s.unproven != nil || s.passing
}

// learn records what began the generations.
func (p *proofs) learn(l listing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = l.begun
}

// Attest signs, under the current authority, what began the generation of a record that the caller's own disk has
// accepted, and those before it. It does so where the last read of the store found that signatures do not prove it, or
// not for much longer. What the disk does not know is attested only while it is proven.
func (r *objects) Attest(ctx context.Context, mine plan.Record) error {
	if r.Signer == nil {
		return nil
	}
	r.proofs.mu.Lock()
	begun := r.begun
	r.proofs.mu.Unlock()
	var errs []error
	for _, generation := range slices.Sorted(maps.Keys(begun)) {
		b := begun[generation]
		if !b.due || generation > mine.Generation {
			continue
		}
		a := attestation{Generation: generation, Texts: map[string]string{}}
		ours := true
		for name, text := range b.texts {
			a.Texts[name] = digest(text)
			ours = ours && r.matches(name, text, mine, !b.unproven)
		}
		switch {
		case generation == mine.Generation && ours:
			a.Record = mine.ID
		case generation < mine.Generation && !b.unproven && int(generation) <= len(mine.Line):
			a.Record = mine.Line[generation-1]
		default:
			continue
		}
		errs = append(errs, r.attest(ctx, a))
	}
	return errors.Join(errs...)
}

// matches reports whether a text is what a node writes about the generation that begins with a record: byte for byte
// or, if the text is proven, with the same meaning.
func (r *objects) matches(name string, text []byte, mine plan.Record, proven bool) bool {
	want := any(mine)
	var got any = &plan.Record{}
	switch p := mine.Restore; {
	case name == r.recordName(mine.Generation):
	case p != nil && name == r.restoreName(p.Generation, p.Attempt):
		want, got = *p, &plan.Restore{}
	case p != nil && name == r.outcomeName(p.Generation, p.Attempt):
		want, got = outcome{Record: &mine}, &outcome{}
	default:
		return false
	}
	exact, err := encoded(want)
	if err == nil && bytes.Equal(exact, text) {
		return true
	}
	return proven && json.Unmarshal(text, got) == nil && reflect.DeepEqual(reflect.ValueOf(got).Elem().Interface(), want)
}

func (r *objects) attest(ctx context.Context, a attestation) error {
	name := r.attestationName(a.Generation)
	data, err := r.sealed(name, a)
	if err != nil {
		return err
	}
	if len(data) > MaxRecord {
		return fmt.Errorf("%w: %s would be too large", coordinator.ErrUnread, name)
	}
	if err := r.Store.Put(ctx, name, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("put %s into the store: %w", name, err)
	}
	return nil
}
