package generations

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
)

// What began a generation is still proven after the authority that signed it is gone, or if nobody signed it, once a
// leader has attested it in time. Nothing else is proven, however objects of the store are combined.
func TestAttestation(t *testing.T) {
	authority := func(name string) pki.Authority {
		a, err := pki.NewAuthority(name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	was, is := authority("was"), authority("is")
	by := func(a pki.Authority) Signer { return pki.SourceOrders(given{Peers: a}, pki.Names{}, "") }
	before, after := by(was), by(is)
	changing := by(pki.Authority{Bundle: append(is.Bundle, was.Bundle...), Primary: is.Primary, Key: is.Key})
	type desk struct {
		dir          string
		r            *Records
		founding     plan.Record
		p            plan.Restore
		second, next plan.Record
	}
	file := func(d desk, name string) string { return filepath.Join(d.dir, "holdfast/main", name) }
	edit := func(d desk, name, from, to string) error {
		text, err := os.ReadFile(file(d, name))
		if changed := bytes.Replace(text, []byte(from), []byte(to), 1); err == nil && !bytes.Equal(changed, text) {
			return os.WriteFile(file(d, name), changed, 0o600)
		}
		return errors.Join(err, errors.New("nothing to change in "+name))
	}
	conclude := func(d desk) error {
		return errors.Join(d.r.Propose(t.Context(), d.p), d.r.Conclude(t.Context(), d.second))
	}
	attest := func(d desk, mine plan.Record, with Signer) error {
		d.r.Signer = with
		known(t, d.r)
		return d.r.Attest(t.Context(), mine)
	}
	for name, tc := range map[string]struct {
		first    Signer // of the node that concludes
		do       func(d desk) error
		unproven uint64
	}{
		"nobody has attested":    {before, func(desk) error { return nil }, 2},
		"nobody signed":          {nil, func(desk) error { return nil }, 2},
		"while both are trusted": {before, func(d desk) error { return attest(d, d.second, changing) }, 0},
		"when the old one is gone, from the disk of the leader": {before, func(d desk) error { return attest(d, d.second, after) }, 0},
		"of an older holdfast":     {nil, func(d desk) error { return attest(d, d.second, after) }, 0},
		"by the old one":           {before, func(d desk) error { return attest(d, d.second, before) }, 2},
		"by the old one, unsigned": {nil, func(d desk) error { return attest(d, d.second, before) }, 2},
		"by somebody else":         {before, func(d desk) error { return attest(d, d.second, signer(t)) }, 2},
		"by nobody": {before, func(d desk) error {
			return errors.Join(attest(d, d.second, after), edit(d, "proof-000002.json", `"signature": {`, `"unsigned": {`))
		}, 2},
		"another record than the leader's": {nil, func(d desk) error {
			other := d.second
			other.Charter.Seats = append(other.Charter.Seats, plan.Seat{Slot: "z", Disk: "his"})
			return attest(d, other, after)
		}, 2},
		"a word more than the leader wrote": {nil, func(d desk) error {
			return errors.Join(edit(d, "outcome-000002-01.json", "{\n", "{\n  \"later\": 1,\n"), attest(d, d.second, after))
		}, 2},
		"of what was changed since": {before, func(d desk) error {
			return errors.Join(attest(d, d.second, after), edit(d, "restore-000002-01.json", d.p.Digest, strings.Repeat("e", 64)))
		}, 2},
		"under another number": {before, func(d desk) error {
			return errors.Join(attest(d, d.second, after), os.Rename(file(d, "proof-000002.json"), file(d, "proof-000001.json")))
		}, 2},
		"what became of the proposal is gone": {before, func(d desk) error {
			return errors.Join(attest(d, d.second, after), os.Remove(file(d, "outcome-000002-01.json")), os.Remove(file(d, "record-000002.json")))
		}, 2},
		"the generation before": {before, func(d desk) error {
			return errors.Join(d.r.Propose(t.Context(), *d.next.Restore), d.r.Conclude(t.Context(), d.next), attest(d, d.next, changing))
		}, 0},
		"the generation before, too late": {before, func(d desk) error {
			d.r.Signer = after
			return errors.Join(d.r.Propose(t.Context(), *d.next.Restore), d.r.Conclude(t.Context(), d.next), attest(d, d.next, after))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir, r, founding := shelf(t)
			d := desk{dir: dir, r: r, founding: founding, p: proposal(founding, 0)}
			d.second = outcomeOf(d.p, founding)
			third := proposal(d.second, 0)
			d.next = outcomeOf(third, d.second)
			r.Signer = tc.first
			if err := errors.Join(conclude(d), tc.do(d)); err != nil {
				t.Fatal(err)
			}
			reader := New(r.Store, "main", after)
			if got := known(t, reader); got.Unproven != tc.unproven {
				t.Errorf("unproven is generation %d (%s), want %d", got.Unproven, got.Doubt, tc.unproven)
			}
		})
	}
}

// What is proven for long is not attested, and nothing is attested twice under one authority.
func TestAttestOnce(t *testing.T) {
	dir, r, founding := shelf(t)
	proofs := func() (text string) {
		all, err := filepath.Glob(filepath.Join(dir, "holdfast/main/proof-*"))
		for _, name := range all {
			data, failed := os.ReadFile(name)
			text, err = text+string(data), errors.Join(err, failed)
		}
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	attest := func(mine plan.Record) {
		t.Helper()
		known(t, r)
		if err := r.Attest(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
	}
	if attest(founding); proofs() != "" {
		t.Error("attested without TLS")
	}
	r.Signer = signer(t)
	p := proposal(founding, 0)
	born := outcomeOf(p, founding)
	if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), born)); err != nil {
		t.Fatal(err)
	}
	if attest(born); proofs() != "" {
		t.Error("attested what is signed")
	}
	r.Signer = signer(t)
	attest(born)
	first := proofs()
	if attest(born); first == "" || proofs() != first {
		t.Errorf("attested again: %s, then %s", first, proofs())
	}
}

// late is a signer that does not know the authorities yet.
type late struct{ Signer }

func (late) Able() error { return errors.New("the peers' authority is not known here yet") }

// While signatures cannot be checked, there is no answer of the store. If there is nothing to check, the store answers.
func TestNotAbleToCheckYet(t *testing.T) {
	dir, r, _ := shelf(t)
	r.Signer = late{signer(t)}
	if s, err := r.Known(t.Context()); err == nil || !strings.Contains(err.Error(), "not known here yet") {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := os.Remove(filepath.Join(dir, "holdfast/main/record-000001.json")); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Known(t.Context()); err != nil || s.Record != nil {
		t.Errorf("an empty store: %+v, %v", s, err)
	}
}
