package generations

import (
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
	"holdfast/snapshot/snapshottest"
)

// bold signs anything with an operator's certificate.
type bold struct{ *pki.Orders }

func (b bold) Sign(text []byte, _ bool) ([]byte, error) { return b.Orders.Sign(text, true) }

// operators returns an authority's own signer, and that of an operator with a certificate of it for a zone.
func operators(t *testing.T, zone string) (node Signer, operator *pki.Orders) {
	t.Helper()
	a, err := pki.NewAuthority("peers", 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := pki.IssuePaper(pki.Authorities{Peers: a}, pki.Operator, zone, "alice", time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "operator.pem")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return pki.SourceOrders(given{Peers: a}, pki.Names{Zone: "main.x"}, ""), pki.OperatorOrders(path, pki.Names{Zone: zone})
}

// With an operator's certificate a command proposes and aborts. Anyone who has stolen it cannot say what only nodes
// say.
func TestOperatorsOrders(t *testing.T) {
	refused := "signs proposals and their aborts, and nothing else"
	type desk struct {
		node, operator, thief *Records
		p                     plan.Restore
		born                  plan.Record
	}
	for name, tc := range map[string]struct {
		do       func(d desk) error
		unproven bool
		aborted  bool
	}{
		"proposed": {do: func(d desk) error { return d.operator.Propose(t.Context(), d.p) }},
		"concluded by the nodes": {do: func(d desk) error {
			return errors.Join(d.operator.Propose(t.Context(), d.p), d.node.Conclude(t.Context(), d.born))
		}},
		"aborted": {aborted: true, do: func(d desk) error {
			_, err := d.operator.Abort(t.Context(), d.p, plan.Abort{Why: "no"})
			return errors.Join(d.operator.Propose(t.Context(), d.p), err)
		}},
		"concluded by him": {unproven: true, do: func(d desk) error {
			return errors.Join(d.operator.Propose(t.Context(), d.p), d.thief.Conclude(t.Context(), d.born))
		}},
		"a record of his": {unproven: true, do: func(d desk) error { return d.thief.Put(t.Context(), d.born) }},
		"attested by him": {unproven: true, do: func(d desk) error {
			unsigned := New(d.node.Store, "main", nil)
			a := attestation{Generation: 2, Record: d.born.ID, Texts: map[string]string{}}
			for name, v := range map[string]any{d.node.recordName(2): d.born, d.node.restoreName(2, 1): d.p,
				d.node.outcomeName(2, 1): outcome{Record: &d.born}} {
				text, err := encoded(v)
				if err != nil {
					return err
				}
				a.Texts[name] = digest(text)
			}
			return errors.Join(unsigned.Propose(t.Context(), d.p), unsigned.Conclude(t.Context(), d.born), d.thief.attest(t.Context(), a))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, node, founding := shelf(t)
			signs, operator := operators(t, "main.x")
			node.Signer = signs
			d := desk{node: node, operator: New(node.Store, "main", operator),
				thief: New(node.Store, "main", bold{operator}), p: proposal(founding, 0)}
			d.born = outcomeOf(d.p, founding)
			if err := tc.do(d); err != nil {
				t.Fatal(err)
			}
			got := known(t, node)
			if tc.unproven != (got.Unproven == 2) || tc.unproven && name != "attested by him" && !strings.Contains(got.Doubt, refused) {
				t.Errorf("unproven is generation %d: %s", got.Unproven, got.Doubt)
			}
			if tc.aborted != (len(got.Aborted) == 1) {
				t.Errorf("aborted: %+v", got.Aborted)
			}
		})
	}
}

// A command does not put what an operator's certificate may not sign. What a crash has left half done, it leaves to the
// nodes.
func TestOperatorLeavesTheRestToNodes(t *testing.T) {
	dir, node, founding := shelf(t)
	signs, operator := operators(t, "main.x")
	node.Signer = signs
	command := New(node.Store, "main", operator)
	p := proposal(founding, 0)
	born := outcomeOf(p, founding)
	if err := command.Conclude(t.Context(), born); !errors.Is(err, ErrUnsigned) {
		t.Errorf("conclude: %v", err)
	}
	if err := command.Put(t.Context(), born); !errors.Is(err, ErrUnsigned) {
		t.Errorf("put: %v", err)
	}
	if err := command.Return(t.Context(), founding, "alice"); !errors.Is(err, ErrUnsigned) {
		t.Errorf("return: %v", err)
	}
	if err := command.Attest(t.Context(), founding); err != nil {
		t.Error(err)
	}
	if _, err := node.end(t.Context(), p, outcome{Record: &born}); err != nil {
		t.Fatal(err)
	}
	if err := node.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := known(t, command); got.Record == nil || got.Record.ID != born.ID || got.Unproven > 1 {
		t.Errorf("got %+v", got)
	}
	record := filepath.Join(dir, "holdfast/main/record-000002.json")
	if _, err := os.Stat(record); err == nil {
		t.Error("the command has stored the record")
	}
	known(t, node)
	if _, err := os.Stat(record); err != nil {
		t.Errorf("the node has not: %v", err)
	}
}

// An operator of another cluster, or of another authority, gives no orders, nor does one whose certificate had expired
// when the store received the order.
func TestForeignOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, alice := operators(t, "main.x")
		_, neighbour := operators(t, "other.x")
		_, stranger := operators(t, "main.x")
		for name, tc := range map[string]struct {
			by   Signer
			late time.Duration
			says string
		}{
			"ours":                   {alice, 0, ""},
			"of another cluster":     {neighbour, 0, "not a member's"},
			"of another authority":   {stranger, 0, "not a member's"},
			"ours, of a later time":  {alice, 2 * time.Hour, "expired"},
			"ours, of an early time": {alice, -2 * time.Hour, "expired or is not yet valid"},
		} {
			_, node, founding := shelf(t)
			node.Store = snapshottest.Dated{Store: node.Store, Times: map[string]time.Time{"restore-000002-01.json": time.Now().Add(tc.late)}}
			thief := New(node.Store, "main", tc.by)
			p := proposal(founding, 0)
			if err := thief.Propose(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			node.Signer = ours
			got, err := node.Known(t.Context())
			if err != nil && !errors.Is(err, coordinator.ErrUnread) {
				t.Fatal(err)
			}
			if (got.Unproven == 2) != (tc.says != "") || !strings.Contains(got.Doubt, tc.says) {
				t.Errorf("%s: unproven is generation %d: %s", name, got.Unproven, got.Doubt)
			}
		}
	})
}
