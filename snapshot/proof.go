package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Proof is the result of a check of a backup after it was saved. The last proof of each kind is stored beside the
// backup, so that everyone who lists the store sees it.
type Proof struct {
	// Kind says what was checked: ProofDigest, ProofVerify or ProofDrill.
	Kind string `json:"kind"`
	// Cluster and Lineage are the backup's. They say whose the object is if nothing else is left of the backup.
	Cluster string `json:"cluster,omitempty"`
	Lineage string `json:"lineage,omitempty"`
	// By is the node or the person that made the check.
	By string `json:"by,omitempty"`
	// Time is when the check ended, by the clock of that machine. It is for people: At orders proofs.
	Time time.Time `json:"time"`
	// Compared lists what was compared, or would have been if the check had got that far.
	Compared []string `json:"compared,omitempty"`
	// Error says why the backup is bad, or is "".
	Error string `json:"error,omitempty"`

	// At is when the proof was stored, by the store's clock. Only a listed proof has it.
	At time.Time `json:"at,omitzero"`
	// Unknown says why a listed proof cannot be read, for example because a newer program wrote it. Such a proof says
	// nothing about the backup.
	Unknown string `json:"unknown,omitempty"`
}

// The kinds of proofs. Each also proves all that the ones before it prove.
const (
	ProofDigest = "digest" // the stored bytes are those that were written
	ProofVerify = "verify" // and they are a sound database with the recorded content
	ProofDrill  = "drill"  // and etcd starts on it and serves what was saved
)

// proofKinds are the kinds, the weakest first.
var proofKinds = []string{ProofDigest, ProofVerify, ProofDrill}

// proofObject returns the object with the last proof of a kind, in the directory of the backup.
func proofObject(kind string) string { return "holdfast." + kind + ".json" }

// maxProofText limits each text of a proof, in bytes: it is shown in tables and sent to other nodes.
const maxProofText = 1000

// good reports whether the proof is for the backup, bad whether it is against it.
func (p Proof) good() bool { return p.Unknown == "" && p.Error == "" }
func (p Proof) bad() bool  { return p.Unknown == "" && p.Error != "" }

// failed returns the bad proof that stands, or nil. A later proof of the same kind replaces a bad one, and a later good
// proof of a stronger kind overrules it. A proof that was stored at the same time is not later.
func failed(proofs []Proof) *Proof {
	for i, p := range slices.Backward(proofs) { // the strongest first
		stronger := func(q Proof) bool { return q.good() && q.At.After(p.At) }
		if p.bad() && !slices.ContainsFunc(proofs[i+1:], stronger) {
			return &p
		}
	}
	return nil
}

// VerifyProof returns the proof that results from a Verify with these options. ok is false if there is none: a failure
// to read proves nothing, and a wrong sidecar shows in every listing anyway.
func VerifyProof(v Verification, err error, opt Options) (Proof, bool) {
	if v.Name == "" || err != nil && !Damaged(err) {
		return Proof{}, false
	}
	p := Proof{Kind: ProofVerify, Cluster: v.Cluster, Lineage: v.Lineage, By: opt.By, Compared: []string{"stored bytes"}}
	if err != nil {
		p.Error = err.Error()
	}
	if v.Full || err != nil && !(v.Stored.Encrypted && len(opt.Identities) == 0) {
		p.Compared = append(p.Compared, "database", "pages", "content")
	} else {
		p.Kind = ProofDigest
	}
	return p, true
}

// proof returns the proof that results from a drill.
func (d Drill) proof(opt Options) Proof {
	return Proof{Kind: ProofDrill, Lineage: d.Lineage, By: opt.By, Compared: d.Checked, Error: d.Error}
}

// Record stores a proof beside a backup and replaces the last one of its kind. It sets Time. The error is ErrNotFound
// if there is no such backup.
func Record(ctx context.Context, store Store, name string, p Proof) error {
	if err := record(ctx, store, name, p); err != nil {
		return fmt.Errorf("record the %s of backup %s: %w", p.Kind, name, err)
	}
	return nil
}

func record(ctx context.Context, store Store, name string, p Proof) error {
	p.Time = time.Now().UTC()
	p.By, p.Error = oneLine(p.By), oneLine(p.Error)
	text, err := encodeLine(proofObject(p.Kind), proofFile{proofVersion, p})
	if err != nil {
		return err
	}
	return putBeside(ctx, store, name, proofObject(p.Kind), text)
}

// putBeside stores an object beside a complete backup. If the backup was pruned meanwhile, it removes the object again.
// If that is missed, the object is an orphan.
func putBeside(ctx context.Context, store Store, name, file string, text []byte) error {
	e, err := lookup(ctx, store, name)
	if err == nil && !e.committed() {
		err = ErrNotFound
	}
	if err != nil {
		return err
	}
	if err = store.Put(ctx, object(name, file), bytes.NewReader(text)); err != nil {
		return err
	}
	if e, err = lookup(ctx, store, name); err == nil && !e.committed() {
		err = errors.Join(ErrNotFound, store.Delete(ctx, object(name, file)))
	}
	return err
}

// proofVersion is the version of the object with a proof.
const proofVersion = 1

type proofFile struct {
	Version int   `json:"version"`
	Proof   Proof `json:"proof"`
}

// decodeProof decodes what Record has stored for a kind.
func decodeProof(kind string, text []byte) (Proof, error) {
	var head struct {
		Version int `json:"version"`
	}
	var file proofFile
	err := json.Unmarshal(text, &head)
	if err == nil && head.Version > proofVersion {
		return Proof{}, fmt.Errorf("a newer holdfast wrote it: version %d, this one knows %d", head.Version, proofVersion)
	}
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	p := file.Proof
	switch {
	case err != nil:
	case file.Version != proofVersion:
		err = fmt.Errorf("want version %d, got %d", proofVersion, file.Version)
	case p.Kind != kind:
		err = fmt.Errorf("want kind %s, got %.40q", kind, p.Kind)
	case p.Unknown != "" || !p.At.IsZero():
		err = errors.New("it has fields that are never stored")
	default:
		err = checkOwner(p.Cluster, p.Lineage)
	}
	if err != nil {
		return Proof{}, fmt.Errorf("decode %s: %w", proofObject(kind), err)
	}
	p.By, p.Error = oneLine(p.By), oneLine(p.Error)
	for i, text := range p.Compared {
		p.Compared[i] = oneLine(text)
	}
	p.Compared = p.Compared[:min(len(p.Compared), 20)]
	return p, nil
}

// oneLine shortens a text and puts it on one line.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > maxProofText {
		text = strings.ToValidUTF8(text[:maxProofText], "") + " …"
	}
	return text
}

// readProofs adds the proofs to b. A proof that cannot be read, has just been deleted or is a newer program's is listed
// as unknown.
func (e entry) readProofs(ctx context.Context, store Store, b *Backup) error {
	for _, kind := range proofKinds {
		listed, ok := e.files[proofObject(kind)]
		if !ok {
			continue
		}
		text, err := e.readPart(ctx, store, proofObject(kind))
		if ofStore(err) != nil {
			return err
		}
		var p Proof
		if err == nil {
			p, err = decodeProof(kind, text)
		}
		if err != nil {
			p = Proof{Kind: kind, Unknown: oneLine(err.Error())}
		}
		p.At = listed.Modified
		b.Proofs = append(b.Proofs, p)
		if b.Unfinished && b.Cluster == "" {
			b.Cluster, b.Lineage = p.Cluster, p.Lineage
		}
	}
	b.Failed = failed(b.Proofs)
	return nil
}
