package authorities

import (
	"crypto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/pki"
)

// edit changes an edition in the store, like anyone who can write there.
func (s *site) edit(serial int, change func(e *Edition)) {
	s.Helper()
	text, err := os.ReadFile(s.object(serial))
	s.must(err)
	e, err := decodeEdition(text, "main")
	s.must(err)
	change(e)
	text, err = e.encode()
	s.must(err)
	s.must(os.WriteFile(s.object(int(e.Serial)), text, 0o600))
}

// Anyone who can write the store, and knows its content but no key of the peers' authority, cannot make authorities for
// nodes that know theirs.
func TestForgedEdition(t *testing.T) {
	theirs := func(s *site) *Edition {
		e, err := s.node(t.TempDir()).fresh(1, time.Now())
		s.must(err)
		return e
	}
	for name, forge := range map[string]func(s *site){
		"a next one without a signature": func(s *site) {
			s.edit(3, func(e *Edition) { e.Serial, e.Signatures = 4, nil })
		},
		"with his own keys, signed by them": func(s *site) {
			s.edit(3, func(e *Edition) {
				own := theirs(s)
				e.Serial, e.Phase, e.Peers, e.Clients = 4, phaseSettled, own.Peers, own.Clients
				s.must(e.sign(own.Peers))
			})
		},
		"with the signatures of the one before": func(s *site) {
			s.edit(3, func(e *Edition) { e.Serial = 4 })
		},
		"with an authority more that is trusted": func(s *site) {
			s.edit(3, func(e *Edition) {
				e.Serial, e.Clients.Trusted = 4, append(e.Clients.Trusted, theirs(s).Clients.Trusted[0])
			})
		},
		"signed with an operator's certificate": func(s *site) {
			s.edit(3, func(e *Edition) {
				file := filepath.Join(s.TempDir(), "operator.pem")
				text, err := pki.IssuePaper(e.Authorities(), pki.Operator, "main.x", "alice", time.Hour, time.Now())
				s.must(err)
				s.must(os.WriteFile(file, text, 0o600))
				p, err := pki.ReadPaper(file)
				s.must(err)
				e.Serial = 4
				s.must(e.sign(keyed{Keys: []signing{{Key: pemKey{p.PrivateKey.(crypto.Signer)}}}}))
			})
		},
		"the newest one overwritten": func(s *site) {
			s.edit(3, func(e *Edition) {
				own := theirs(s)
				e.Phase, e.Peers, e.Clients = phaseSettled, own.Peers, own.Clients
			})
		},
		"two of his own, the second signed by the first": func(s *site) {
			own := theirs(s)
			s.edit(3, func(e *Edition) {
				e.Serial, e.Phase, e.Peers, e.Clients = 4, phaseSettled, own.Peers, own.Clients
				s.must(e.sign(own.Peers))
			})
			s.edit(4, func(e *Edition) { e.Serial = 5; s.must(e.sign(own.Peers)) })
		},
		"one far ahead": func(s *site) {
			s.edit(3, func(e *Edition) { e.Serial, e.Signatures = 999_999, nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newSite(t), t.TempDir()
			a := s.node(dir)
			s.peers(a)
			s.rotatedOnce(a) // editions 2 and 3 are introduced and issuing
			have := *a.have
			forge(s)
			for _, n := range []*Keeper{a, s.node(dir)} { // the running node, and the same after a restart
				s.peers(n)
				if !n.have.same(have) {
					t.Fatalf("the node goes by edition %d, made because %s", n.have.Serial, n.have.Why)
				}
				if p := problem(n); !strings.Contains(p, "is not signed by the peers' authority of edition 3") && !strings.Contains(p, "check who signed") {
					t.Errorf("problem: %q", p)
				}
			}
			e, said, err := s.node(dir).Show(t.Context())
			if err != nil || said == nil || !e.same(have) {
				t.Errorf("show: edition %d, %v, %v", e.Serial, said, err)
			}
		})
	}
}

// rotatedOnce takes the first two steps of a rotation.
func (s *site) rotatedOnce(a *Keeper) {
	s.Helper()
	for _, order := range []Order{{Now: true}, {}} {
		s.follow(a, order)
	}
	if a.have.Serial != 3 || a.have.Phase != phaseIssuing {
		s.Fatalf("edition %d, %s", a.have.Serial, a.have.Phase)
	}
}

// A node that has missed any number of rotations accepts what follows from what it knows, and refuses what it cannot
// check.
func TestMissedRotations(t *testing.T) {
	s, behind := newSite(t), t.TempDir()
	old := s.node(behind)
	s.peers(old)
	a := s.node(t.TempDir())
	s.peers(a)
	for range 3 {
		s.rotated(a)
	}
	if got, want := s.peers(s.node(behind)), s.peers(a); got != want {
		t.Errorf("after three rotations: got %s, want %s", got, want)
	}
	first := s.node(t.TempDir()) // a blank node accepts what it finds
	if got, want := s.peers(first), s.peers(a); got != want || problem(first) != "" {
		t.Errorf("a blank node: got %s, want %s; %s", got, want, problem(first))
	}

	s.must(writeCache(filepath.Join(behind, cacheFile), *old.have)) // once more, from the start
	s.edit(10, func(e *Edition) { e.Serial = 11 })
	ahead := s.node(behind)
	if s.peers(ahead); ahead.have.Serial != 1 || !strings.Contains(problem(ahead), "pki-000011.json is not signed by the peers' authority of") {
		t.Errorf("with a forged one behind the others: edition %d, %q", ahead.have.Serial, problem(ahead))
	}
	s.must(os.Remove(s.object(11)))
	s.must(os.Remove(s.object(6)))
	lost := s.node(behind)
	if s.peers(lost); lost.have.Serial != 1 || !strings.Contains(problem(lost), "pki-000006.json") {
		t.Errorf("with a gap: edition %d, %q", lost.have.Serial, problem(lost))
	}
}

// An edition without a signature is not followed, and does not make its successors acceptable.
func TestUnsignedEditions(t *testing.T) {
	s, dir := newSite(t), t.TempDir()
	s.peers(s.node(t.TempDir()))
	s.edit(1, func(e *Edition) { e.Signatures = nil })
	a := s.node(dir) // a blank node accepts what it finds
	s.peers(a)
	s.edit(1, func(e *Edition) { e.Serial, e.Why = 2, "by an older one" })
	if s.peers(a); a.have.Serial != 1 || !strings.Contains(problem(a), "is not signed") {
		t.Errorf("edition %d, %q", a.have.Serial, problem(a))
	}
	s.must(os.Remove(s.object(2)))
	if s.follow(a, Order{Now: true}); a.have.Serial != 2 || len(a.have.Signatures) != 1 || problem(a) != "" {
		t.Errorf("edition %d with %d signatures, %q", a.have.Serial, len(a.have.Signatures), problem(a))
	}
}

// If an older holdfast has led in the middle of a rotation, a newer one's successor is accepted, because the old
// authority signs it too.
func TestUnsignedInBetween(t *testing.T) {
	s, behind := newSite(t), t.TempDir()
	old := s.node(behind)
	s.peers(old)
	leader := t.TempDir()
	a := s.node(leader)
	s.follow(a, Order{Now: true})
	s.follow(a, Order{})
	s.edit(3, func(e *Edition) { e.Signatures = nil })
	if s.peers(old); old.have.Serial != 1 || !strings.Contains(problem(old), "is not signed") {
		t.Fatalf("edition %d, %q", old.have.Serial, problem(old))
	}
	s.must(os.Remove(filepath.Join(leader, cacheFile)))
	a = s.node(leader) // as the older one had taken it
	s.follow(a, Order{})
	if s.peers(old); old.have.Serial != 4 || problem(old) != "" {
		t.Errorf("edition %d, %q", old.have.Serial, problem(old))
	}
}

// follow takes the next step in a cluster of one member, which always follows.
func (s *site) follow(a *Keeper, order Order) {
	s.Helper()
	got, err := a.Authorities(s.Context())
	s.must(err)
	m := Stance{Slot: "a", Known: true, Running: true, Stance: pki.Stance{Issuer: pki.Fingerprint(got.Peers.Primary)}}
	for _, c := range got.Peers.Bundle {
		m.Trusts = append(m.Trusts, pki.Fingerprint(c))
	}
	_, err = a.Advance(s.Context(), View{Leader: true, Members: []Stance{m}}, order, false)
	s.must(err)
}
