package generations

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/plan"
)

// A command is valid for an hour, by the store's time. Then it is over, as is one that has led to a proposal.
func TestCommandsThatAreOver(t *testing.T) {
	const backup, name = "2026-07-01T00:15:03Z-000042", "2026-07-01T00:00:00Z-000000"
	for what, tc := range map[string]struct {
		age     time.Duration // by the store's time
		abort   bool
		torn    bool
		problem string
		over    bool
	}{
		"new":              {},
		"not an hour old":  {age: 59 * time.Minute},
		"older":            {age: 61 * time.Minute, problem: "longer than 1h0m0s", over: true},
		"aborted":          {abort: true, problem: "never runs again: its restore was aborted, no room", over: true},
		"torn":             {torn: true, problem: "delete-command " + name},
		"torn and too old": {torn: true, age: 2 * time.Hour, problem: "decode", over: true},
	} {
		t.Run(what, func(t *testing.T) {
			dir, r, founding := shelf(t)
			now := time.Now()
			record := filepath.Join(dir, "holdfast/main/record-000001.json")
			if err := os.Chtimes(record, now.Add(-24*time.Hour), now.Add(-24*time.Hour)); err != nil {
				t.Fatal(err)
			}
			command(t, dir, name, backup, now.Add(-tc.age))
			file := filepath.Join(dir, "control", name, "_command.json")
			if tc.torn {
				if err := errors.Join(os.WriteFile(file, []byte(`{"timestamp": `), 0o600), os.Chtimes(file, now.Add(-tc.age), now.Add(-tc.age))); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Meet(t.Context(), "n1", "nonce"); err != nil { // this makes the store's time known
				t.Fatal(err)
			}
			if tc.abort {
				p := proposal(founding, 0)
				p.Command = name
				if err := r.Propose(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: "no room"}); err != nil {
					t.Fatal(err)
				}
			}
			got := known(t, r).Requests
			if len(got) != 1 || got[0].Over != tc.over || !strings.Contains(got[0].Problem, tc.problem) || (got[0].Problem == "") != (tc.problem == "") {
				t.Fatalf("got %+v", got)
			}
			if err := errors.Join(r.Dismiss(t.Context(), name), r.Dismiss(t.Context(), name)); err != nil {
				t.Fatal(err)
			}
			if got := known(t, r).Requests; len(got) != 0 {
				t.Errorf("after it was dismissed: %+v", got)
			}
		})
	}
}

// A command that cannot be deleted holds up neither the conclusion of its restore nor the next look at the store: nodes
// that cannot read the store would not follow the conclusion, until somebody deletes the command hours later.
func TestCommandThatCannotBeDeleted(t *testing.T) {
	const name = "2099-07-01T00:00:00Z-000001"
	dir, r, founding := shelf(t)
	r.Store = keepsAll{r.Store}
	command(t, dir, name, "2026-07-01T00:15:03Z-000042", time.Now().Add(time.Hour))
	p := proposal(founding, 0)
	p.Command = name
	if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), outcomeOf(p, founding))); err != nil {
		t.Errorf("conclude: got %v", err)
	}
	if s := known(t, r); s.Record.ID != p.ID || len(s.Requests) != 0 {
		t.Errorf("got the record %+v and the commands %+v", s.Record, s.Requests)
	}
}

// A proposal that a node makes by itself stays open about as long as an operator waits for one.
func TestProposalOfANodeEnds(t *testing.T) {
	dir, r, founding := shelf(t)
	p := proposal(founding, 0)
	if err := r.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "holdfast/main/restore-000002-01.json")
	for _, tc := range []struct {
		age  time.Duration
		open bool
	}{{59 * time.Minute, true}, {61 * time.Minute, false}} {
		then := time.Now().Add(-tc.age)
		if err := errors.Join(os.Chtimes(made, then, then), New(r.Store, "main", nil).Meet(t.Context(), "n1", tc.age.String())); err != nil {
			t.Fatal(err)
		}
		if got := known(t, New(r.Store, "main", nil)); (got.Restore != nil) != tc.open {
			t.Errorf("after %s: open %v", tc.age, got.Restore != nil)
		}
	}
}
