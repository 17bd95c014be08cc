package proposal

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// survivorOf is a recovery from slot c, which has applied revision 2 of generation 2, with a backup that a test makes.
func survivorOf(b *snapshot.Backup) recovery {
	record := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1})
	record.Generation = 2
	s := recovery{Revisions: map[string]int64{"c": 2}, Backup: b,
		Surveyed: coordinator.Surveyed{Survey: plan.Survey{Record: &record}, Chosen: plan.Survivor{Slot: "c"},
			Declare: []string{"a", "b"}, Able: true}}
	s.compare()
	return s
}

func TestRecoverWeighsTheBackup(t *testing.T) {
	backup := func(generation uint64, revision int64) *snapshot.Backup {
		b := with(made("b1", time.Minute), func(b *snapshot.Backup) { b.Generation, b.Content.Revision = generation, revision })
		return &b
	}
	legacy := with(made("old", time.Minute), func(b *snapshot.Backup) { b.Legacy, b.Verified = true, time.Time{} })
	for name, tc := range map[string]struct {
		backup *snapshot.Backup
		more   string
		text   string
		raised int64
	}{
		"a higher revision":                        {backup(2, 22), moreBackup, "it holds MORE than slot c", 1020},
		"the same revision":                        {backup(2, 2), moreSurvivor, "slot c holds as much or more", 1000},
		"a lower revision":                         {backup(2, 1), moreSurvivor, "slot c holds as much or more", 1000},
		"an earlier generation, a higher revision": {backup(1, 22), moreSurvivor, "slot c holds as much or more", 1000},
		"a later generation, a lower revision":     {backup(3, 1), moreBackup, "it holds MORE than slot c", 1000},
		"etcd-manager's":                           {&legacy, "", "cannot be compared", 1000},
		"none":                                     {nil, "", "none", 1000},
	} {
		s := survivorOf(tc.backup)
		if got := s.raised(1000); s.More != tc.more || !strings.Contains(s.backup(time.Now()), tc.text) || got != tc.raised {
			t.Errorf("%s: got %q, raised by %d: %s", name, s.More, got, s.backup(time.Now()))
		}
		if err := s.poorer("c"); (err != nil) != (tc.more == moreBackup) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// What ends before the newest backup is refused, with both ways said in full, until both are named.
func TestRecoverRefusesThePoorer(t *testing.T) {
	b := with(made("b1", time.Minute), func(b *snapshot.Backup) { b.Generation, b.Content.Revision = 2, 22 })
	for _, tc := range []struct{ survivor, despite, want string }{
		{"", "", "holdfast restore b1 --lost a,b"},
		{"c", "", "holdfast recover --lost a,b --survivor c --despite-backup b1 --yes"},
		{"c", "b0", "--despite-backup: got b0, want b1"},
		{"c", "unknown", "--despite-backup: got unknown, want b1"},
		{"c", "b1", ""},
	} {
		s := survivorOf(&b)
		s.despite = tc.despite
		err := s.poorer(tc.survivor)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "nothing was changed")) {
			t.Errorf("--survivor %q --despite-backup %q: got %v, want %q", tc.survivor, tc.despite, err, tc.want)
		}
	}
	s := survivorOf(&b)
	if s.despite = "b1"; s.command("c") != "holdfast recover --lost a,b --survivor c --despite-backup b1 --yes" {
		t.Errorf("the command is %s", s.command("c"))
	}
	s = survivorOf(nil)
	if s.overrule = []string{"d1", "d2"}; s.command("") != "holdfast recover --lost a,b --overrule d1,d2 --yes" {
		t.Errorf("after an objection the command is %s", s.command(""))
	}
}

// unlisted is a store that does not list.
type unlisted struct{ snapshot.Store }

func (unlisted) List(context.Context, string) ([]snapshot.Object, error) {
	return nil, errors.New("connection refused")
}

// Backups that cannot be listed are not none; and an operator can continue all the same.
func TestRecoverWithoutTheListing(t *testing.T) {
	s := survivorOf(nil)
	if s.weigh(t.Context(), unlisted{snapshot.NewDir(t.TempDir())}); s.More != moreUnknown || !strings.Contains(s.backup(time.Now()), "not known: ") {
		t.Fatalf("got %q: %s", s.More, s.backup(time.Now()))
	}
	if err := s.poorer("c"); err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "--survivor c --despite-backup unknown --yes") {
		t.Errorf("got %v", err)
	}
	if s.despite = moreUnknown; s.poorer("c") != nil || s.poorer("") == nil {
		t.Errorf("named: got %v; without a survivor: %v", s.poorer("c"), s.poorer(""))
	}
	dir := t.TempDir()
	const damaged = "2026-07-01T00:15:03Z-000042"
	must(t, os.Mkdir(filepath.Join(dir, damaged), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, damaged, "holdfast.meta.json"), []byte("{"), 0o600))
	s = survivorOf(nil)
	if s.weigh(t.Context(), snapshot.NewDir(dir)); s.More != moreUnknown || !strings.Contains(s.NoBackup, damaged) {
		t.Errorf("a backup that does not tell: got %q, %s", s.More, s.NoBackup)
	}
	s = survivorOf(nil)
	if s.weigh(t.Context(), snapshot.NewDir(t.TempDir())); s.More != "" || s.poorer("") != nil || s.backup(time.Now()) != "none" {
		t.Errorf("an empty store: got %q, %v", s.More, s.poorer(""))
	}
}

// outdated is a store that lists nothing that was put there.
type outdated struct{ snapshot.Store }

func (outdated) List(context.Context, string) ([]snapshot.Object, error) { return nil, nil }

// A listing that lacks the newest backup does not hide that it holds more than the survivor. One that holds no more does
// not matter.
func TestRecoverBehindAnOutdatedListing(t *testing.T) {
	dir := snapshot.NewDir(t.TempDir())
	db := snapshottest.NewDB(t)
	for range 9 {
		db.Put("a", "1")
	}
	saved := snapshottest.Keep(t, dir, db, snapshot.Meta{Cluster: "main", Generation: 2})
	for behind, want := range map[int64]string{1: moreUnknown, 0: ""} {
		s := survivorOf(nil)
		s.Revisions["c"] = saved.Content.Revision - behind
		if s.weigh(t.Context(), outdated{dir}); s.More != want || (s.poorer("c") != nil) != (want != "") {
			t.Errorf("%d revisions behind: got %q, %s, %v", behind, s.More, s.NoBackup, s.poorer("c"))
		}
	}
}

// A store that lacks what a node has seen in one does not hide it either. What a node has seen and is here, or holds no
// more than the survivor, does not matter.
func TestRecoverFromAStoreThatWentBack(t *testing.T) {
	dir := snapshot.NewDir(t.TempDir())
	saved := snapshottest.Keep(t, dir, snapshottest.NewDB(t), snapshot.Meta{Cluster: "main", Generation: 2})
	for name, tc := range map[string]struct {
		seen   int64
		want   string
		raised int64
	}{
		"more than the survivor": {8, moreUnknown, 11},
		"no more":                {7, moreSurvivor, 10},
		"what is here":           {saved.Content.Revision, moreSurvivor, 10},
	} {
		s := survivorOf(nil)
		s.complete(view{&health.ClusterStatus{Nodes: []health.NodeStatus{
			{Backup: &health.BackupStatus{}},
			{Backup: &health.BackupStatus{Most: &plan.BackupStand{Name: "b9", Generation: 2, Revision: tc.seen}}},
		}}})
		s.Revisions["c"] = 7
		if s.weigh(t.Context(), dir); s.More != tc.want || (s.poorer("c") != nil) != (tc.want == moreUnknown) ||
			tc.want == moreUnknown && !strings.Contains(s.NoBackup, "backup b9 (generation 2, revision 8)") {
			t.Errorf("%s: got %q, %s, %v", name, s.More, s.NoBackup, s.poorer("c"))
		}
		if got := s.raised(10); got != tc.raised { // clients may have seen what it holds
			t.Errorf("%s: raised by %d, want %d", name, got, tc.raised)
		}
	}
}

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// made returns a good backup of our cluster that is so old at noon.
func made(name string, old time.Duration) snapshot.Backup {
	return snapshottest.Backup(name, noon.Add(-old))
}

// with returns b after change.
func with(b snapshot.Backup, change func(*snapshot.Backup)) snapshot.Backup {
	change(&b)
	return b
}

// What cannot be done is not advised: `recover --survivor b --lost c` with b not here once printed a command that left
// --survivor out and declared b lost instead.
func TestRecoverAdvisesOnlyWhatWorks(t *testing.T) {
	record := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, Seats: []plan.Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}, {Slot: "c", Disk: "d3"}}})
	facts := plan.Facts{Slot: "a", Disk: "d1", Phase: plan.PhaseData, Record: &record, Member: 1, Running: true, Store: "S", Log: &plan.LogEnd{Term: 2, Index: 9},
		Members: []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c"}}}
	o := plan.Observation{Node: "n9", Config: plan.Config{Slots: []string{"a", "b", "c"}}, Store: plan.Store{ID: "S", Record: &record},
		Peers: []plan.Peer{{Node: "n1", Live: true, Facts: &facts}}}
	for _, tc := range []struct{ lost, survivor, advice, refusal string }{
		{"", "", "holdfast recover --lost b,c --yes", "--lost b,c"},
		{"b", "a", "holdfast recover --lost b,c --survivor a --yes", "--lost b,c"},
		{"b,c", "", "holdfast recover --lost b,c --yes", ""},
		{"c", "b", "", "no recovery can continue from slot b"},
		{"a,b,c", "", "", "stop that node first"},
	} {
		s := recovery{Surveyed: coordinator.Survey(o, tc.lost, tc.survivor)}
		got := s.text(tc.survivor, false)
		if (tc.advice == "") == strings.Contains(got, "to do it:") || !strings.Contains(got, tc.advice) ||
			!strings.Contains(s.Refusal, tc.refusal) {
			t.Errorf("--lost %q --survivor %q: got\n%s%s", tc.lost, tc.survivor, got, s.Refusal)
		}
	}
}

// A recovery right after nodes have started is not refused because nobody has found them in the store yet: the command
// makes its node look there.
func TestRecoverLooksForNodesThatHaveJustStarted(t *testing.T) {
	looked := 0
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		control.Reply(w, health.ClusterStatus{}, nil)
	})
	mux.HandleFunc("POST /look", func(w http.ResponseWriter, _ *http.Request) {
		looked++
		control.Reply(w, struct{}{}, nil)
	})
	mux.HandleFunc("GET /recover", func(w http.ResponseWriter, q *http.Request) {
		s := plan.Survey{Obstacle: "not known yet", Soon: true}
		if looked > 1 {
			s = plan.Survey{Obstacle: "slot " + q.FormValue("survivor") + " without " + q.FormValue("lost")}
		}
		control.Reply(w, s, nil)
	})
	o, _, _ := restoring(t, mux)
	o.Lost = []string{"a", "b"}
	if err := o.Recover(t.Context(), "c", ""); err == nil || !strings.HasPrefix(err.Error(), "slot c without a,b; ") {
		t.Errorf("got %v", err)
	}
}
