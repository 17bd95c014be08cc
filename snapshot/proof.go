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

// Proof is what a check of a backup found, long after it was saved. The last one of each kind is kept beside the
// backup, so that anyone who lists the store knows of it, whichever machine made it.
type Proof struct {
	// Kind says how much was tried, one of ProofDigest, ProofVerify and ProofDrill.
	Kind string `json:"kind"`
	// Cluster and Lineage are the backup's: they tell whose the object is when nothing else is left of the backup.
	Cluster string `json:"cluster,omitempty"`
	Lineage string `json:"lineage,omitempty"`
	// By is the node or the person that made it.
	By string `json:"by,omitempty"`
	// Time is when it ended by the clock of that machine. It is for people: At orders proofs.
	Time time.Time `json:"time"`
	// Compared names what was compared, or would have been had it come so far.
	Compared []string `json:"compared,omitempty"`
	// Error says why the backup is bad, "" if it is good.
	Error string `json:"error,omitempty"`

	// At is when the proof was stored, by the store's clock. It is known of a listed one only.
	At time.Time `json:"at,omitzero"`
	// Unknown says why a listed proof cannot be read, or that a newer program wrote it. It says nothing of the backup
	// then.
	Unknown string `json:"unknown,omitempty"`
}

// The kinds of proofs, of which each proves all that those before it do.
const (
	ProofDigest = "digest" // the stored bytes are those that were written
	ProofVerify = "verify" // and they are a sound database with the recorded content
	ProofDrill  = "drill"  // and etcd starts on it and serves what was saved
)

// proofKinds are the kinds from the weakest on.
var proofKinds = []string{ProofDigest, ProofVerify, ProofDrill}

// proofObject is the object with the last proof of a kind, in the directory of the backup.
func proofObject(kind string) string { return "holdfast." + kind + ".json" }

// maxProofText bounds each text of a proof, in bytes: it is shown in tables and told to other nodes.
const maxProofText = 1000

// good says that the proof speaks for the backup, bad that it speaks against it.
func (p Proof) good() bool { return p.Unknown == "" && p.Error == "" }
func (p Proof) bad() bool  { return p.Unknown == "" && p.Error != "" }

// failed returns the bad proof that stands, nil if there is none: one that no later proof of the same kind, which would
// have replaced it, or of a stronger one contradicts. What was stored at the same time is not later.
func failed(proofs []Proof) *Proof {
	for i, p := range slices.Backward(proofs) { // the strongest first
		stronger := func(q Proof) bool { return q.good() && q.At.After(p.At) }
		if p.bad() && !slices.ContainsFunc(proofs[i+1:], stronger) {
			return &p
		}
	}
	return nil
}

// VerifyProof returns the proof that the outcome of a Verify with these options is, and whether it is one: what could
// not be read proves nothing, and what is wrong with the sidecar itself shows in every listing.
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

// proof returns the proof that a drill is.
func (d Drill) proof(opt Options) Proof {
	return Proof{Kind: ProofDrill, Lineage: d.Lineage, By: opt.By, Compared: d.Checked, Error: d.Error}
}

// Record stores a proof beside a backup, in place of the one of its kind. It sets Time. It is ErrNotFound if there is
// no such backup any more.
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
	e, err := lookup(ctx, store, name)
	if err == nil && !e.committed() {
		err = ErrNotFound
	}
	if err != nil {
		return err
	}
	if err = store.Put(ctx, object(name, proofObject(p.Kind)), bytes.NewReader(text)); err != nil {
		return err
	}
	// Pruned meanwhile, it must not leave this object behind. What slips through is an orphan to Prune.
	if e, err = lookup(ctx, store, name); err == nil && !e.committed() {
		err = errors.Join(ErrNotFound, store.Delete(ctx, object(name, proofObject(p.Kind))))
	}
	return err
}

// proofVersion is the version of the object with a proof.
const proofVersion = 1

type proofFile struct {
	Version int   `json:"version"`
	Proof   Proof `json:"proof"`
}

// decodeProof reads what Record has written for a kind.
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

// oneLine makes one short line of a text.
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

// readProofs fills in b what was proven of it since. One that cannot be read, is gone by now or is a newer program's
// is listed as unknown.
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
