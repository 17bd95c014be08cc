package generations

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// given are fixed authorities.
type given pki.Authorities

func (g given) Authorities(context.Context) (pki.Authorities, error) { return pki.Authorities(g), nil }

// signer returns a node's signer, of an authority that was made for it.
func signer(t *testing.T) Signer {
	t.Helper()
	a, err := pki.NewAuthority("peers", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return pki.SourceOrders(given{Peers: a}, pki.Names{}, "")
}

// Anyone who can only write the store cannot make a generation that counts where an older one is known, whatever they
// do with the objects there.
func TestForgedOrders(t *testing.T) {
	ours := signer(t)
	type desk struct {
		dir         string
		node, thief *Records // node signs with the cluster's authority, thief as the case says
		p           plan.Restore
		born        plan.Record
	}
	file := func(d desk, name string) string { return filepath.Join(d.dir, "holdfast/main", name) }
	all := func(errs ...error) error { return errors.Join(errs...) }
	edit := func(d desk, name, from, to string) error {
		text, err := os.ReadFile(file(d, name))
		if changed := bytes.Replace(text, []byte(from), []byte(to), 1); err == nil && !bytes.Equal(changed, text) {
			return os.WriteFile(file(d, name), changed, 0o600)
		}
		return errors.Join(err, errors.New("nothing to change in "+name))
	}
	end := func(r *Records, p plan.Restore, o outcome) error { _, err := r.end(t.Context(), p, o); return err }
	for name, tc := range map[string]struct {
		do       func(d desk) error
		unproven uint64
		doubt    string
		open     bool // our proposal stays open, and nothing aborts it
	}{
		"ours, proposed":  {do: func(d desk) error { return d.node.Propose(t.Context(), d.p) }},
		"ours, concluded": {do: func(d desk) error { return all(d.node.Propose(t.Context(), d.p), d.node.Conclude(t.Context(), d.born)) }},
		"ours, half stored": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), end(d.node, d.p, outcome{Record: &d.born}))
		}},
		"ours, aborted": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), end(d.node, d.p, outcome{Abort: &plan.Abort{ID: d.p.ID, Why: "no"}}))
		}},
		"his, that he has aborted": {do: func(d desk) error {
			return all(d.thief.Propose(t.Context(), d.p), end(d.thief, d.p, outcome{Abort: &plan.Abort{ID: d.p.ID, Why: "no"}}))
		}},
		"his, that we have aborted": {do: func(d desk) error {
			return all(d.thief.Propose(t.Context(), d.p), end(d.node, d.p, outcome{Abort: &plan.Abort{ID: d.p.ID, Why: "no"}}))
		}},
		"a proposal": {do: func(d desk) error { return d.thief.Propose(t.Context(), d.p) }, unproven: 2, doubt: "restore-000002-01.json: it is not signed"},
		"a generation": {do: func(d desk) error {
			return all(d.thief.Propose(t.Context(), d.p), d.thief.Conclude(t.Context(), d.born))
		},
			unproven: 2, doubt: "restore-000002-01.json: it is not signed"},
		"one whose record is ours to store": {do: func(d desk) error {
			return all(d.thief.Propose(t.Context(), d.p), end(d.thief, d.p, outcome{Record: &d.born}))
		}, unproven: 2, doubt: "restore-000002-01.json: it is not signed"},
		"a record": {do: func(d desk) error { return d.thief.Put(t.Context(), d.born) }, unproven: 2, doubt: "record-000002.json"},
		"what became of ours": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), end(d.thief, d.p, outcome{Record: &d.born}))
		}, unproven: 2, doubt: "outcome-000002-01.json: it is not signed"},
		"what became of ours, with the record": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), end(d.thief, d.p, outcome{Record: &d.born}), d.thief.Put(t.Context(), d.born))
		}, unproven: 2, doubt: "outcome-000002-01.json: it is not signed"},
		"ours without its end": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), edit(d, "restore-000002-01.json", "}\n}\n", "}\n}"))
		}, unproven: 2, doubt: "its signature is damaged"},
		"that ours is aborted": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), end(d.thief, d.p, outcome{Abort: &plan.Abort{ID: d.p.ID, Why: "no"}}))
		}, unproven: 2, doubt: "outcome-000002-01.json: it is not signed"},
		"another backup in ours": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), edit(d, "restore-000002-01.json", d.p.Digest, strings.Repeat("e", 64)))
		}, unproven: 2, doubt: "not signed by the peers' authority"},
		"another backup behind the signature": {do: func(d desk) error {
			return all(d.node.Propose(t.Context(), d.p), edit(d, "restore-000002-01.json", "}\n}\n", "},\n  \"digest\": \""+strings.Repeat("e", 64)+"\"\n}\n"))
		}, unproven: 2, doubt: "its signature"},
		"the record beside what we have concluded": {do: func(d desk) error {
			other := d.born
			other.Charter.Seats = append(other.Charter.Seats, plan.Seat{Slot: "z", Disk: "his"})
			return all(d.node.Propose(t.Context(), d.p), d.node.Conclude(t.Context(), d.born), os.Remove(file(d, "record-000002.json")),
				d.thief.Put(t.Context(), other))
		}, unproven: 2, doubt: "record-000002.json"},
		"an attempt that hides ours": {do: func(d desk) error {
			hides := d.p
			hides.Attempt = 2
			return all(d.node.Propose(t.Context(), d.p), d.thief.Propose(t.Context(), hides), end(d.thief, hides, outcome{Abort: &plan.Abort{ID: d.p.ID, Why: "no"}}))
		}, open: true},
		"the abort of an earlier one": {do: func(d desk) error {
			again := proposal(plan.Record{Cluster: "main", Generation: 1, ID: d.p.Parent(), Charter: d.born.Charter}, 1)
			text := func() error {
				was, err := os.ReadFile(file(d, "outcome-000002-01.json"))
				return errors.Join(err, os.WriteFile(file(d, "outcome-000002-02.json"), was, 0o600))
			}
			return all(d.node.Propose(t.Context(), d.p), end(d.node, d.p, outcome{Abort: &plan.Abort{ID: d.p.ID, Why: "no"}}),
				d.node.Propose(t.Context(), again), text())
		}, unproven: 2, doubt: "outcome-000002-02.json"},
	} {
		for by, signs := range map[string]Signer{"nobody": nil, "another authority": signer(t)} {
			t.Run(name+"/"+by, func(t *testing.T) {
				dir, node, founding := shelf(t)
				node.Signer = ours
				d := desk{dir: dir, node: node, thief: New(node.Store, "main", signs), p: proposal(founding, 0)}
				d.born = outcomeOf(d.p, founding)
				if err := tc.do(d); err != nil {
					t.Fatal(err)
				}
				got := known(t, node)
				if got.Unproven == 1 { // the founding, by an older holdfast
					got.Unproven = 0
				}
				if got.Unproven != tc.unproven || !strings.Contains(got.Doubt, tc.doubt) {
					t.Errorf("unproven is generation %d: %s; want %d: %s", got.Unproven, got.Doubt, tc.unproven, tc.doubt)
				}
				if tc.open && (got.Restore == nil || got.Restore.ID != d.p.ID || len(got.Aborted) > 0) {
					t.Errorf("open is %+v, aborted %+v", got.Restore, got.Aborted)
				}
				if text, err := os.ReadFile(file(d, "record-000002.json")); tc.unproven > 0 && err == nil {
					if _, s := node.checked(snapshot.Object{Name: "holdfast/main/record-000002.json"}, text); s.unproven == nil {
						t.Error("the node has signed the forged record")
					}
				}
				if got := known(t, New(node.Store, "main", nil)); got.Unproven != 0 {
					t.Error("without TLS nobody signs, and nothing is doubted")
				}
			})
		}
	}
}

// What somebody has put there before does not become what a node concludes or aborts.
func TestOutcomeThatIsForged(t *testing.T) {
	_, node, founding := shelf(t)
	thief := New(node.Store, "main", nil)
	node.Signer = signer(t)
	p := proposal(founding, 0)
	born := outcomeOf(p, founding)
	if err := node.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := thief.end(t.Context(), p, outcome{Record: &born}); err != nil {
		t.Fatal(err)
	}
	if err := node.Conclude(t.Context(), born); !errors.Is(err, coordinator.ErrUnread) {
		t.Errorf("conclude: %v", err)
	}
	if record, err := node.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: "no"}); record != nil || !errors.Is(err, coordinator.ErrUnread) {
		t.Errorf("abort: %v, %v", record, err)
	}
}

// What cannot be signed is not put.
func TestNobodySigns(t *testing.T) {
	dir, node, founding := shelf(t)
	node.Signer = pki.SourceOrders(given{}, pki.Names{}, "")
	if err := node.Propose(t.Context(), proposal(founding, 0)); !errors.Is(err, ErrUnsigned) || !strings.Contains(err.Error(), "run the command on a node") {
		t.Errorf("got %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "holdfast/main/restore-*")); err != nil || left != nil {
		t.Errorf("in the store: %v, %v", left, err)
	}
}

// watch records when the store received what is checked.
type watch struct{ at time.Time }

func (*watch) Able() error { return nil }

func (*watch) Lasts(_, _ []byte, _ time.Time, _ bool) bool { return true }

func (*watch) Sign([]byte, bool) ([]byte, error) { return []byte("{}"), nil }

func (w *watch) Check(_, _ []byte, at time.Time, _ bool) error { w.at = at; return nil }

// A signature counts as of the time at which the store received it.
func TestWhenItWasSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, node, founding := shelf(t)
		w := &watch{}
		node.Signer = w
		put := time.Now().Add(-time.Hour)
		node.Store = snapshottest.Dated{Store: node.Store, Times: map[string]time.Time{"restore-000002-01.json": put}}
		if err := node.Propose(t.Context(), proposal(founding, 0)); err != nil {
			t.Fatal(err)
		}
		if known(t, node); !w.at.Equal(put) {
			t.Errorf("got %s, want %s", w.at, put)
		}
	})
}

// An object counts only if its number is the one in its name, because doubts go by the number.
func TestNumbersAreTheNames(t *testing.T) {
	for name, put := range map[string]func(r *Records, p plan.Restore, born plan.Record) error{
		"record": func(r *Records, _ plan.Restore, born plan.Record) error {
			return r.put(t.Context(), r.recordName(7), born)
		},
		"proposal": func(r *Records, p plan.Restore, _ plan.Record) error {
			return r.put(t.Context(), r.restoreName(2, 9), p)
		},
		"outcome": func(r *Records, p plan.Restore, born plan.Record) error {
			q := p
			q.Attempt = 9
			return errors.Join(r.Propose(t.Context(), q), r.put(t.Context(), r.outcomeName(2, 9), outcome{Record: &born}))
		},
	} {
		_, r, founding := shelf(t)
		p := proposal(founding, 0)
		if err := put(r, p, outcomeOf(p, founding)); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Known(t.Context()); !errors.Is(err, coordinator.ErrUnread) || !strings.Contains(err.Error(), "it belongs in") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A conclusion beside the lineage of the newest record proves nothing of that record, whatever that says of itself.
func TestConclusionOfAnotherLine(t *testing.T) {
	_, r, founding := shelf(t)
	p := proposal(founding, 0)
	born := outcomeOf(p, founding)
	stray := proposal(born, 4)
	stray.Generation, stray.Line = 2, []string{born.ID}
	beside := outcomeOf(stray, founding)
	if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), born), r.put(t.Context(), r.restoreName(2, 5), stray),
		r.put(t.Context(), r.outcomeName(2, 5), outcome{Record: &beside})); err != nil {
		t.Fatal(err)
	}
	s, err := r.Known(t.Context())
	if err == nil && (len(s.Concluded) != 1 || s.Concluded[0].ID != born.ID) {
		t.Errorf("concluded: %+v", s.Concluded)
	}
}

// Reading only the newest record changes nothing: the reader may be a command that cannot sign.
func TestCurrentChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, node, founding := shelf(t)
		p := proposal(founding, 0)
		p.Lasts = time.Hour
		node.Store = snapshottest.Dated{Store: node.Store, Times: map[string]time.Time{"restore-000002-01.json": snapshottest.Epoch, "beacon.json": snapshottest.Epoch.Add(2 * time.Hour)}}
		if err := errors.Join(node.Propose(t.Context(), p), node.Shine(t.Context(), coordinator.Beacon{})); err != nil {
			t.Fatal(err)
		}
		if got, _, err := node.Current(t.Context()); err != nil || got.ID != founding.ID {
			t.Errorf("got %v, %v", got, err)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "holdfast/main/outcome-*")); err != nil || left != nil {
			t.Errorf("in the store: %v, %v", left, err)
		}
	})
}
