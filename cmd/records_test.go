package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// counted counts what is read of a store.
type counted struct {
	snapshot.Store
	gets atomic.Int64
}

func (c *counted) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, name)
}

// shelf is a store with the record of a founding in it.
func shelf(t *testing.T) (dir string, r *records, founding plan.Record) {
	t.Helper()
	dir = t.TempDir()
	r = &records{store: &counted{Store: snapshot.NewDir(dir)}, cluster: "main"}
	founding = plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}.x:2380", Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	if err := r.Put(t.Context(), founding); err != nil {
		t.Fatal(err)
	}
	return dir, r, founding
}

func known(t *testing.T, r *records) plan.Store {
	t.Helper()
	s, err := r.Known(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func proposal(parent plan.Record, attempts int) plan.Restore {
	return coordinator.NewRestore(parent, attempts, coordinator.Backup{Name: "2026-07-01T00:15:03Z-000042", Digest: "d", Revision: 5}, 5, 10)
}

func outcomeOf(p plan.Restore, parent plan.Record) plan.Record {
	return plan.Record{Cluster: p.Cluster, Generation: p.Generation, ID: p.ID, Line: p.Line, Cause: plan.Restored, Restore: &p, Charter: parent.Charter}
}

func TestRecordsOfARestore(t *testing.T) {
	_, r, founding := shelf(t)
	if got := known(t, r); got.Record.ID != founding.ID || got.Restore != nil || got.Attempts != 0 {
		t.Fatalf("after the founding: %+v", got)
	}
	first := proposal(founding, 0)
	if err := errors.Join(r.Propose(t.Context(), first), r.Propose(t.Context(), first)); err != nil {
		t.Fatal(err)
	}
	if err := r.Propose(t.Context(), proposal(founding, 0)); !errors.Is(err, coordinator.ErrConflict) {
		t.Errorf("a second proposal: got %v", err)
	}
	if got := known(t, r); got.Restore == nil || got.Restore.ID != first.ID || got.Attempts != 1 || got.Record.ID != founding.ID {
		t.Errorf("while it is open: %+v", got)
	}
	if record, err := r.Abort(t.Context(), first, "no"); record != nil || err != nil {
		t.Fatalf("abort: %v, %v", record, err)
	}
	if got := known(t, r); got.Restore != nil || got.Attempts != 1 {
		t.Errorf("after the abort: %+v", got)
	}
	if err := r.Conclude(t.Context(), outcomeOf(first, founding)); !errors.Is(err, coordinator.ErrConflict) {
		t.Errorf("conclude what was aborted: got %v", err)
	}
	second := proposal(founding, known(t, r).Attempts)
	born := outcomeOf(second, founding)
	if err := errors.Join(r.Propose(t.Context(), second), r.Conclude(t.Context(), born), r.Conclude(t.Context(), born)); err != nil {
		t.Fatal(err)
	}
	if record, err := r.Abort(t.Context(), second, "no"); err != nil || record == nil || record.ID != born.ID {
		t.Errorf("abort what was concluded: got %v, %v", record, err)
	}
	if got := known(t, r); !reflect.DeepEqual(got.Record, &born) || got.Restore != nil || got.Attempts != 0 {
		t.Errorf("in the end: %+v", got)
	}
}

// A crash between the outcome and the record leaves the store knowing the new generation all the same.
func TestRecordsAreRepaired(t *testing.T) {
	dir, r, founding := shelf(t)
	p := proposal(founding, 0)
	born := outcomeOf(p, founding)
	if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), born)); err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(dir, "holdfast/main/record-000002.json")
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if got := known(t, r); got.Record.ID != born.ID {
		t.Errorf("got %+v", got.Record)
	}
	if _, err := os.Stat(second); err != nil {
		t.Errorf("it was not written again: %v", err)
	}
}

// A proposal that everybody has left is aborted by whoever looks, unless it was concluded.
func TestProposalThatIsOver(t *testing.T) {
	for name, tc := range map[string]struct {
		until         time.Duration // from now; 0: for ever
		conclude      bool
		open, aborted bool
		generation    uint64
	}{
		"no end":                {open: true, generation: 1},
		"before its end":        {until: time.Hour, open: true, generation: 1},
		"over":                  {until: -time.Second, aborted: true, generation: 1},
		"concluded in time":     {until: time.Hour, conclude: true, generation: 2},
		"over, but concluded":   {until: -time.Second, conclude: true, generation: 2},
		"concluded without end": {conclude: true, generation: 2},
	} {
		t.Run(name, func(t *testing.T) {
			_, r, founding := shelf(t)
			p := proposal(founding, 0)
			if tc.until != 0 {
				p.Until = time.Now().Add(tc.until)
			}
			if err := r.Propose(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			if tc.conclude {
				if _, err := r.end(t.Context(), p, outcome{Record: new(outcomeOf(p, founding))}); err != nil {
					t.Fatal(err)
				}
			}
			s := known(t, r)
			if (s.Restore != nil) != tc.open || s.Record.Generation != tc.generation {
				t.Errorf("open %v in generation %d", s.Restore != nil, s.Record.Generation)
			}
			err := r.Conclude(t.Context(), outcomeOf(p, founding))
			if got := errors.Is(err, coordinator.ErrConflict); got != tc.aborted {
				t.Errorf("concluding it then: %v", err)
			}
		})
	}
}

func TestDamagedRecordsAreErrors(t *testing.T) {
	for _, name := range []string{"record-000001.json", "restore-000002-01.json", "outcome-000002-01.json"} {
		for text, content := range map[string]string{"torn": `{"id"`, "empty": ``, "another thing": `{"x":1}`, "both": `{"record":{},"aborted":"x"}`} {
			t.Run(name+"/"+text, func(t *testing.T) {
				dir, r, founding := shelf(t)
				p := proposal(founding, 0)
				if err := r.Propose(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Abort(t.Context(), p, "no"); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, "holdfast/main", name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if got, err := r.Known(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
	}
}

// What does not change is read once: every node asks every ten seconds.
func TestRecordsAreReadOnce(t *testing.T) {
	_, r, founding := shelf(t)
	if err := r.Propose(t.Context(), proposal(founding, 0)); err != nil {
		t.Fatal(err)
	}
	known(t, r)
	before := r.store.(*counted).gets.Load()
	for range 5 {
		known(t, r)
	}
	if got := r.store.(*counted).gets.Load(); got != before {
		t.Errorf("read %d objects again", got-before)
	}
}

// A cluster that is given up leaves nothing that the next one of its name would take for its own.
func TestMovedAside(t *testing.T) {
	dir, r, founding := shelf(t)
	p := proposal(founding, 0)
	born := outcomeOf(p, founding)
	open := proposal(born, 0)
	if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), born), r.Propose(t.Context(), open)); err != nil {
		t.Fatal(err)
	}
	if err := r.MoveAside(t.Context(), founding); !errors.Is(err, coordinator.ErrConflict) {
		t.Errorf("move an outlived generation aside: got %v", err)
	}
	if err := r.MoveAside(t.Context(), born); err != nil {
		t.Fatal(err)
	}
	if got := known(t, r); got.Record != nil || got.Restore != nil {
		t.Errorf("after that: %+v", got)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir, "holdfast/main/aside-*")); len(kept) != 2 {
		t.Errorf("kept %v", kept)
	}
	next := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}.x:2380", Seats: []plan.Seat{{Slot: "a", Disk: "other"}}})
	if err := r.Put(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	got := known(t, r)
	if got.Record.ID != next.ID || got.Restore != nil || got.Attempts != 1 {
		t.Errorf("of the next cluster: %+v", got)
	}
	if err := r.Propose(t.Context(), proposal(next, got.Attempts)); err != nil {
		t.Errorf("a restore of the next cluster: %v", err)
	}
}

// Of many who conclude, abort and propose at once, all see one outcome.
func TestRecordsRace(t *testing.T) {
	dir, r, founding := shelf(t)
	p := proposal(founding, 0)
	born := outcomeOf(p, founding)
	if err := r.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var concluded, aborted atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			mine := &records{store: snapshot.NewDir(dir), cluster: "main"}
			if i%2 == 0 {
				if err := mine.Conclude(t.Context(), born); err == nil {
					concluded.Add(1)
				} else if !errors.Is(err, coordinator.ErrConflict) {
					t.Error(err)
				}
				return
			}
			record, err := mine.Abort(t.Context(), p, fmt.Sprint(i))
			if err != nil {
				t.Error(err)
			}
			if record == nil {
				aborted.Add(1)
			}
		})
	}
	wg.Wait()
	got := known(t, r)
	switch {
	case concluded.Load() > 0 && aborted.Load() > 0:
		t.Errorf("%d were told it is concluded, %d that it is aborted", concluded.Load(), aborted.Load())
	case (got.Record.ID == born.ID) != (concluded.Load() > 0), got.Restore != nil:
		t.Errorf("got %+v, concluded %d, aborted %d", got, concluded.Load(), aborted.Load())
	}
}

// command leaves an order in the store as etcd-manager-ctl does.
func command(t *testing.T, dir, name, backup string, at time.Time) {
	t.Helper()
	path := filepath.Join(dir, "control", name, "_command.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"timestamp": "%d", "restoreBackup": {"backup": "%s"}}`, at.UnixNano(), backup)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
}

func TestCommandsRunOnceAndNeverLate(t *testing.T) {
	const backup = "2026-07-01T00:15:03Z-000042"
	dir, r, founding := shelf(t)
	command(t, dir, "2026-07-01T00:00:00Z-000000", backup, time.Now().Add(-time.Hour))
	command(t, dir, "2099-07-01T00:00:00Z-000001", backup, time.Now().Add(time.Hour))
	got := known(t, r).Requests
	if len(got) != 2 || !strings.Contains(got[0].Problem, "older than the present generation") || got[1].Problem != "" || got[1].Backup != backup {
		t.Fatalf("got %+v", got)
	}
	p := proposal(founding, 0)
	p.Command = got[1].Command
	if err := r.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := known(t, r).Requests; len(got) != 1 {
		t.Errorf("while it is under way: %+v", got)
	}
	if _, err := r.Abort(t.Context(), p, "no"); err != nil {
		t.Fatal(err)
	}
	if got := known(t, r).Requests; len(got) != 2 || !strings.Contains(got[1].Problem, "never runs again") {
		t.Errorf("after an abort: %+v", got)
	}
	command(t, dir, "2099-07-01T00:00:00Z-000002", backup, time.Now().Add(time.Hour))
	p = proposal(founding, 1)
	p.Command = "2099-07-01T00:00:00Z-000002"
	if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), outcomeOf(p, founding))); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "control", p.Command, "_command.json")); !os.IsNotExist(err) {
		t.Errorf("the command is still there: %v", err)
	}
	command(t, dir, p.Command, backup, time.Now().Add(time.Hour)) // the crash was before it was deleted
	for _, q := range known(t, r).Requests {
		if q.Command == p.Command || q.Problem == "" {
			t.Errorf("after it was carried out: %+v", q)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "control", p.Command, "_command.json")); !os.IsNotExist(err) {
		t.Errorf("the command is still there: %v", err)
	}
}
