package generations

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
	"testing/synctest"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// counted counts what is read from a store.
type counted struct {
	snapshot.Store
	gets atomic.Int64
}

func (c *counted) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, name)
}

// shelf is a store with the record of a founding in it.
func shelf(t *testing.T) (dir string, r *Records, founding plan.Record) {
	t.Helper()
	dir = t.TempDir()
	r = New(&counted{Store: snapshot.NewDir(dir)}, "main", nil)
	founding = plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "http://{slot}.x:2380", Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	if err := r.Put(t.Context(), founding); err != nil {
		t.Fatal(err)
	}
	return dir, r, founding
}

func known(t *testing.T, r *Records, expect ...string) plan.Store {
	t.Helper()
	s, err := r.Known(t.Context(), expect...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func proposal(parent plan.Record, attempts int) plan.Restore {
	return coordinator.NewRestore(parent, attempts, coordinator.Backup{Name: "2026-07-01T00:15:03Z-000042", Digest: strings.Repeat("d", 64), Revision: 5}, 5, 10)
}

func outcomeOf(p plan.Restore, parent plan.Record) plan.Record {
	c := parent.Charter
	c.Generation = p.Generation
	return plan.Record{Cluster: p.Cluster, Generation: p.Generation, ID: p.ID, Line: p.Line, Cause: plan.Restored, Restore: &p, Charter: c}
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
	if err := r.Propose(t.Context(), proposal(founding, 0)); !errors.Is(err, plan.ErrConflict) {
		t.Errorf("a second proposal: got %v", err)
	}
	if got := known(t, r); got.Restore == nil || got.Restore.ID != first.ID || got.Attempts != 1 || got.Record.ID != founding.ID {
		t.Errorf("while it is open: %+v", got)
	}
	if record, err := r.Abort(t.Context(), first, plan.Abort{ID: first.ID, Why: "no"}); record != nil || err != nil {
		t.Fatalf("abort: %v, %v", record, err)
	}
	if got := known(t, r); got.Restore != nil || got.Attempts != 1 {
		t.Errorf("after the abort: %+v", got)
	}
	if err := r.Conclude(t.Context(), outcomeOf(first, founding)); !errors.Is(err, plan.ErrConflict) {
		t.Errorf("conclude what was aborted: got %v", err)
	}
	second := proposal(founding, known(t, r).Attempts)
	born := outcomeOf(second, founding)
	if err := errors.Join(r.Propose(t.Context(), second), r.Conclude(t.Context(), born), r.Conclude(t.Context(), born)); err != nil {
		t.Fatal(err)
	}
	if record, err := r.Abort(t.Context(), second, plan.Abort{ID: second.ID, Why: "no"}); err != nil || record == nil || record.ID != born.ID {
		t.Errorf("abort what was concluded: got %v, %v", record, err)
	}
	if got := known(t, r); !reflect.DeepEqual(got.Record, &born) || got.Restore != nil || got.Attempts != 0 {
		t.Errorf("in the end: %+v", got)
	}
}

// After a crash between the outcome and the record, the store still knows the new generation.
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

// An expired proposal is aborted by any node that looks, unless it was concluded. It has expired by the store's own
// times, or because a process has seen it for as long. No two clocks are compared.
func TestProposalThatIsOver(t *testing.T) {
	for name, tc := range map[string]struct {
		lasts, age, watched time.Duration // age by the store's time, watched by this process's time
		conclude            bool
		open, aborted       bool
		generation          uint64
	}{
		"no end":                {age: 1000 * time.Hour, watched: 1000 * time.Hour, open: true, generation: 1},
		"before its end":        {lasts: time.Hour, age: time.Hour, watched: time.Hour, open: true, generation: 1},
		"over":                  {lasts: time.Hour, age: time.Hour + time.Second, aborted: true, generation: 1},
		"seen for too long":     {lasts: time.Hour, watched: time.Hour + time.Second, aborted: true, generation: 1},
		"concluded in time":     {lasts: time.Hour, age: time.Minute, conclude: true, generation: 2},
		"over, but concluded":   {lasts: time.Hour, age: 2 * time.Hour, conclude: true, generation: 2},
		"seen, but concluded":   {lasts: time.Hour, watched: 2 * time.Hour, conclude: true, generation: 2},
		"concluded without end": {conclude: true, generation: 2},
	} {
		for clock, now := range map[string]time.Time{"slow": snapshottest.Epoch, "fast": snapshottest.Epoch.AddDate(200, 0, 0)} {
			t.Run(name+"/"+clock, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, r, founding := shelf(t)
					p := proposal(founding, 0)
					p.Lasts = tc.lasts
					r.Store = snapshottest.Dated{Store: r.Store, Times: map[string]time.Time{"restore-000002-01.json": now, "beacon.json": now.Add(tc.age), "outcome-000002-01.json": now}}
					if err := errors.Join(r.Propose(t.Context(), p), r.Shine(t.Context(), coordinator.Beacon{})); err != nil {
						t.Fatal(err)
					}
					if tc.watched > 0 {
						if s := known(t, r); s.Restore == nil {
							t.Fatal("it is over as soon as it is seen")
						}
						time.Sleep(tc.watched)
					}
					if tc.conclude {
						if _, err := r.end(t.Context(), p, outcome{Record: new(outcomeOf(p, founding))}); err != nil {
							t.Fatal(err)
						}
					}
					s := known(t, r)
					if (s.Restore != nil) != tc.open || s.Record.Generation != tc.generation || (len(s.Aborted) > 0) != tc.aborted {
						t.Errorf("open %v in generation %d, aborted %v", s.Restore != nil, s.Record.Generation, s.Aborted)
					}
					err := r.Conclude(t.Context(), outcomeOf(p, founding))
					if got := errors.Is(err, plan.ErrConflict); got != tc.aborted {
						t.Errorf("concluding it then: %v", err)
					}
				})
			})
		}
	}
}

// ended puts a proposal, its outcome and the record into a store, as nodes or anyone else could.
func ended(t *testing.T, r *Records, p plan.Restore, proposed bool, o *outcome, record *plan.Record) {
	t.Helper()
	var errs []error
	if proposed {
		errs = append(errs, r.Propose(t.Context(), p))
	}
	if o != nil {
		errs = append(errs, r.put(t.Context(), r.outcomeName(p.Generation, p.Attempt), o))
	}
	if record != nil {
		errs = append(errs, r.Put(t.Context(), *record))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Only a proposal and its outcome prove that a generation ended. A record alone was mirrored, or put there by hand.
func TestConcludedIsProven(t *testing.T) {
	for name, tc := range map[string]struct {
		proposed, ended, recorded bool
		generation                uint64
		concluded, open           bool
	}{
		"nothing":                         {generation: 1},
		"proposal":                        {proposed: true, generation: 1, open: true},
		"outcome alone":                   {ended: true, generation: 1},
		"record alone":                    {recorded: true, generation: 2},
		"outcome and record, no proposal": {ended: true, recorded: true, generation: 2},
		"proposal and record, no outcome": {proposed: true, recorded: true, generation: 2},
		"proposal and outcome":            {proposed: true, ended: true, generation: 2, concluded: true},
		"all three":                       {proposed: true, ended: true, recorded: true, generation: 2, concluded: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, r, founding := shelf(t)
			p := proposal(founding, 0)
			born := outcomeOf(p, founding)
			var o *outcome
			var record *plan.Record
			if tc.ended {
				o = &outcome{Record: &born}
			}
			if tc.recorded {
				record = &born
			}
			ended(t, r, p, tc.proposed, o, record)
			for range 2 { // the first look completes what a crash has left half done
				s := known(t, r)
				if s.Record.Generation != tc.generation || (s.Restore != nil) != tc.open {
					t.Errorf("got generation %d, open %+v", s.Record.Generation, s.Restore)
				}
				if proven := len(s.Concluded) == 1 && s.Concluded[0].ID == born.ID; proven != tc.concluded || !proven && len(s.Concluded) > 0 {
					t.Errorf("concluded: %+v", s.Concluded)
				}
			}
		})
	}
}

// A record that follows a concluded one, and an aborted one, is proven as well: in order, and none of another lineage.
func TestConcludedOfSeveralGenerations(t *testing.T) {
	_, r, founding := shelf(t)
	refused, second := proposal(founding, 0), proposal(founding, 1)
	born := outcomeOf(second, founding)
	third := proposal(born, 0)
	newest := outcomeOf(third, born)
	by := plan.Stand{Node: "n2", Slot: "b", Disk: "d2", Revision: 7, Leader: true}
	ended(t, r, refused, true, &outcome{Abort: &plan.Abort{ID: "00000000000000ff", Why: "it leads", By: &by}}, nil)
	s := known(t, r)
	if len(s.Aborted) != 1 || s.Aborted[0].ID != refused.ID || s.Aborted[0].Why != "it leads" || s.Aborted[0].By == nil || *s.Aborted[0].By != by {
		t.Errorf("aborted: %+v", s.Aborted)
	}
	again := proposal(founding, 1)
	ended(t, r, again, true, &outcome{Abort: &plan.Abort{ID: again.ID, Why: "by hand"}}, nil)
	if s := known(t, r); len(s.Aborted) != 2 || s.Aborted[0].ID != refused.ID || s.Aborted[1].ID != again.ID || s.Aborted[1].By != nil || s.Attempts != 2 {
		t.Errorf("aborted: %+v", s)
	}
	second.Attempt, born.Restore.Attempt = 3, 3
	ended(t, r, second, true, &outcome{Record: &born}, &born)
	ended(t, r, third, true, &outcome{Record: &newest}, nil)
	s = known(t, r)
	if len(s.Concluded) != 2 || s.Concluded[0].ID != born.ID || s.Concluded[1].ID != newest.ID || s.Record.ID != newest.ID || len(s.Aborted) != 0 {
		t.Errorf("got %+v", s)
	}
}

// An outcome belongs to the proposal beside it, or somebody has put one of them there.
func TestOutcomeOfAnotherProposal(t *testing.T) {
	for name, change := range map[string]func(r *plan.Record){
		"another ID":         func(r *plan.Record) { r.ID, r.Restore.ID = "00000000000000ff", "00000000000000ff" },
		"another generation": func(r *plan.Record) { r.Generation = 9 },
		"another parent":     func(r *plan.Record) { r.Line = []string{"other"} },
	} {
		for _, recorded := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", recorded), func(t *testing.T) {
				_, r, founding := shelf(t)
				p := proposal(founding, 0)
				born := outcomeOf(p, founding)
				ended(t, r, p, true, nil, nil)
				change(&born)
				ended(t, r, p, false, &outcome{Record: &born}, nil)
				if recorded {
					r2 := outcomeOf(p, founding)
					r2.ID, r2.Restore.ID = born.ID, born.ID
					ended(t, r, p, false, nil, &r2)
				}
				if got, err := r.Known(t.Context()); err == nil || !strings.Contains(err.Error(), "outcome-000002-01.json") {
					t.Errorf("got %+v, %v", got, err)
				}
			})
		}
	}
}

func TestProposalOfANumber(t *testing.T) {
	dir, r, founding := shelf(t)
	p := proposal(founding, 0)
	if got, err := r.Proposal(t.Context(), 2, 1); got != nil || err != nil {
		t.Errorf("there is none: got %+v, %v", got, err)
	}
	if err := r.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Proposal(t.Context(), 2, 1); err != nil || got == nil || got.ID != p.ID {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, other := range [][2]int{{2, 2}, {3, 1}} {
		if got, err := r.Proposal(t.Context(), uint64(other[0]), other[1]); got != nil || err != nil {
			t.Errorf("%v: got %+v, %v", other, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, r.restoreName(2, 1)), []byte(`{"id"`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Proposal(t.Context(), 2, 1); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("torn: got %v", err)
	}
	if err := os.RemoveAll(dir); err != nil { // the store is unreachable, which is not "there is none"
		t.Fatal(err)
	}
	if _, err := r.Proposal(t.Context(), 2, 1); err == nil {
		t.Error("a store that is away: got no error")
	}
}

func TestDamagedRecordsAreErrors(t *testing.T) {
	for _, name := range []string{"record-000001.json", "restore-000002-01.json", "outcome-000002-01.json"} {
		for text, content := range map[string]string{"torn": `{"id"`, "empty": ``, "another thing": `{"x":1}`, "both": `{"record":{},"abort":{"why":"x"}}`} {
			t.Run(name+"/"+text, func(t *testing.T) {
				dir, r, founding := shelf(t)
				p := proposal(founding, 0)
				if err := r.Propose(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: "no"}); err != nil {
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

// What does not change is read once, because every node looks every ten seconds.
func TestRecordsAreReadOnce(t *testing.T) {
	_, r, founding := shelf(t)
	if err := r.Propose(t.Context(), proposal(founding, 0)); err != nil {
		t.Fatal(err)
	}
	known(t, r)
	before := r.Store.(*counted).gets.Load()
	for range 5 {
		known(t, r)
	}
	if got := r.Store.(*counted).gets.Load(); got != before+5 { // what would come next is asked for each time
		t.Errorf("read %d objects again", got-before-5)
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
	if err := r.MoveAside(t.Context(), &founding); !errors.Is(err, plan.ErrConflict) {
		t.Errorf("move an outlived generation aside: got %v", err)
	}
	if err := r.MoveAside(t.Context(), &born); err != nil {
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

// If many conclude, abort and propose at once, all see one outcome.
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
			mine := New(snapshot.NewDir(dir), "main", nil)
			if i%2 == 0 {
				if err := mine.Conclude(t.Context(), born); err == nil {
					concluded.Add(1)
				} else if !errors.Is(err, plan.ErrConflict) {
					t.Error(err)
				}
				return
			}
			record, err := mine.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: fmt.Sprint(i)})
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

// command leaves an order in the store like etcd-manager-ctl.
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

// TestCommandsBeforeARecord: etcd-manager's commands are known before its cluster has a record here.
func TestCommandsBeforeARecord(t *testing.T) {
	dir, r, _ := shelf(t)
	if err := os.Remove(filepath.Join(dir, "holdfast/main/record-000001.json")); err != nil {
		t.Fatal(err)
	}
	command(t, dir, "2099-07-01T00:00:00Z-000001", "2026-07-01T00:15:03Z-000042", time.Now())
	if s := known(t, r); s.Record != nil || len(s.Requests) != 1 {
		t.Errorf("got the record %+v and the commands %+v", s.Record, s.Requests)
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
	if _, err := r.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: "no"}); err != nil {
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

// A cluster that etcd-manager keeps in the store vetoes a founding, until an operator founds another beside it. What
// kops writes before there is a cluster does not, nor does anything of ours.
func TestManaged(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	store := snapshot.NewDir(dir)
	r := New(store, "main", nil)
	managed := func(want string) {
		t.Helper()
		if got := known(t, r); got.Managed != want {
			t.Errorf("got %q, want %q", got.Managed, want)
		}
	}
	write("control/etcd-cluster-spec", `{"memberCount": 3}`)
	for _, file := range []string{"_etcd_backup.meta", "holdfast.begin.json", "holdfast.meta.json", "etcd.backup.gz"} {
		write("2026-07-01T00:00:00Z-000001/"+file, "{}")
	}
	managed("")
	write("2026-07-01T00:15:03Z-000042/_etcd_backup.meta", "{}")
	managed("backup 2026-07-01T00:15:03Z-000042")
	write("before-upgrade/_etcd_backup.meta", "{}")
	write("control/etcd-cluster-created", "{}")
	managed("control/etcd-cluster-created and 2 backups, such as before-upgrade")
	for range 2 {
		if err := r.MoveAside(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	managed("")
	other := New(store, "other", nil)
	if got := known(t, other); got.Managed == "" {
		t.Error("the word for one cluster counts for another")
	}
	// A cluster of ours was founded before and is given up. Once is enough.
	founding := plan.FoundingRecord(plan.Charter{Cluster: "other", Generation: 1, PeerURL: "http://{slot}.x:2380",
		Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	if err := errors.Join(other.Put(t.Context(), founding), other.MoveAside(t.Context(), &founding)); err != nil {
		t.Fatal(err)
	}
	if got := known(t, other); got.Record != nil || got.Managed != "" {
		t.Errorf("after it was given up: %+v", got)
	}
}

// behindStore lists what lay there at some time, or nothing.
type behindStore struct {
	snapshot.Store
	objects []snapshot.Object
	lists   int // that are so
}

func (b *behindStore) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	if b.lists--; b.lists < 0 {
		return b.Store.List(ctx, prefix)
	}
	return b.objects, nil
}

// A listing that is empty or old is no answer: it would make a cluster unknown that was founded, a proposal open that
// has ended, and a generation the newest that is over. What was put during the look is none of that.
func TestListingThatIsBehind(t *testing.T) {
	_, r, founding := shelf(t)
	p := proposal(founding, 0)
	list := func() []snapshot.Object {
		all, err := r.Store.List(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	founded := list()
	if err := r.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	open := list()
	if err := r.Conclude(t.Context(), outcomeOf(p, founding)); err != nil {
		t.Fatal(err)
	}
	for name, old := range map[string][]snapshot.Object{"empty": nil, "before the proposal": founded, "before the conclusion": open} {
		store := &behindStore{r.Store, old, 1}
		if s, err := New(store, "main", nil).Known(t.Context()); err != nil || s.Record == nil || s.Record.Generation != 2 {
			t.Errorf("%s, once: got %+v, %v", name, s.Record, err)
		}
		store.lists = 1000
		if s, err := New(store, "main", nil).Known(t.Context()); !errors.Is(err, coordinator.ErrUnread) || !strings.Contains(err.Error(), "its listing does not show it") {
			t.Errorf("%s: got %+v, %v", name, s.Record, err)
		}
		if got, _, err := New(store, "main", nil).Current(t.Context()); err == nil {
			t.Errorf("%s: the newest record is %+v", name, got)
		}
	}
}

// cut gives the beginning of each object of a name.
type cut struct {
	snapshot.Store
	name string
}

func (c cut) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := c.Store.Get(ctx, name)
	if err != nil || !strings.HasSuffix(name, c.name) {
		return r, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return io.NopCloser(strings.NewReader(string(text[:len(text)-1]))), err
}

// What the store gives only in part was not read. It is neither damaged, which an operator would mend, nor unsigned.
func TestAnswerCutShort(t *testing.T) {
	_, r, founding := shelf(t)
	p := proposal(founding, 0)
	if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), outcomeOf(p, founding))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"record-000002.json", "restore-000002-01.json", "outcome-000002-01.json"} {
		if s, err := New(cut{r.Store, name}, "main", nil).Known(t.Context()); err == nil || errors.Is(err, coordinator.ErrUnread) || !strings.Contains(err.Error(), "it gave") {
			t.Errorf("%s: got %+v, %v", name, s.Record, err)
		}
	}
}
