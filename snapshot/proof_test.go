package snapshot_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
)

// proven stores a proof of a backup with this time of the store's clock.
func proven(t *testing.T, root, name, kind, problem string, at time.Time) {
	t.Helper()
	must(t, snapshot.Record(t.Context(), snapshot.NewDir(root), name, snapshot.Proof{Kind: kind, By: "n2", Error: problem}))
	written(t, filepath.Join(root, name, "holdfast."+kind+".json"), at)
}

// TestProofStands checks that a bad proof stands until a later good one of the same or a stronger kind.
func TestProofStands(t *testing.T) {
	type proof struct{ kind, problem string }
	for name, tt := range map[string]struct {
		proofs []proof // a minute apart
		want   string  // the kind that stands
	}{
		"none":                           {nil, ""},
		"good":                           {[]proof{{"verify", ""}, {"drill", ""}}, ""},
		"bad":                            {[]proof{{"verify", "rotten"}}, "verify"},
		"bad, then good":                 {[]proof{{"verify", "rotten"}, {"verify", ""}}, ""},
		"good, then bad":                 {[]proof{{"verify", ""}, {"verify", "rotten"}}, "verify"},
		"a drill proves more":            {[]proof{{"verify", "rotten"}, {"drill", ""}}, ""},
		"an earlier drill does not":      {[]proof{{"drill", ""}, {"verify", "rotten"}}, "verify"},
		"a verify proves less":           {[]proof{{"drill", "rotten"}, {"verify", ""}}, "drill"},
		"the digest alone proves less":   {[]proof{{"verify", "rotten"}, {"digest", ""}}, "verify"},
		"a verify proves more":           {[]proof{{"digest", "rotten"}, {"verify", ""}}, ""},
		"the stronger of two bad stands": {[]proof{{"drill", "rotten"}, {"verify", "rotten"}}, "drill"},
		"a bad drill after a good one":   {[]proof{{"drill", ""}, {"drill", "rotten"}, {"verify", ""}}, "drill"},
	} {
		root := t.TempDir()
		m := forge(t, snapshot.NewDir(root), forged(midday, "x"), "x")
		for i, p := range tt.proofs {
			proven(t, root, m.Name, p.kind, p.problem, midday.Add(time.Duration(i)*time.Minute))
		}
		b, err := snapshot.Find(t.Context(), snapshot.NewDir(root), ours, m.Name)
		must(t, err)
		got := ""
		if b.Failed != nil {
			got = b.Failed.Kind
		}
		if got != tt.want || b.Good() != (tt.want == "") || b.Problem != "" {
			t.Errorf("%s: want %q to stand, got %q, good %t, problem %q", name, tt.want, got, b.Good(), b.Problem)
		}
	}
	// If a store's times are in whole seconds, they do not order proofs within a second: then the bad one stands.
	root := t.TempDir()
	m := forge(t, snapshot.NewDir(root), forged(midday, "x"), "x")
	proven(t, root, m.Name, "drill", "", midday)
	proven(t, root, m.Name, "verify", "rotten", midday)
	if b, err := snapshot.Find(t.Context(), snapshot.NewDir(root), ours, m.Name); err != nil || b.Failed == nil {
		t.Errorf("within one second: want that the bad one stands, got %+v, %v", b.Proofs, err)
	}
}

// TestProofUnknown checks that a proof that cannot be read is shown, and does not count against the backup.
func TestProofUnknown(t *testing.T) {
	for name, text := range map[string]string{
		"garbage":    "{",
		"empty":      "",
		"newer":      `{"version":2,"proof":["all","is","different"]}`,
		"other kind": `{"version":1,"proof":{"kind":"drill","error":"rotten"}}`,
		"forged":     `{"version":1,"proof":{"kind":"verify","error":"x","at":"2026-07-01T00:00:00Z"}}`,
		"path":       `{"version":1,"proof":{"kind":"verify","cluster":"../x"}}`,
		"huge":       strings.Repeat(" ", 2<<20),
	} {
		store := snapshot.NewDir(t.TempDir())
		m := forge(t, store, forged(midday, "x"), "x")
		put(t, store, m.Name+"/holdfast.verify.json", text)
		b, err := snapshot.Find(t.Context(), store, ours, m.Name)
		if err != nil || !b.Good() || len(b.Proofs) != 1 || b.Proofs[0].Unknown == "" {
			t.Errorf("%s: want one unknown proof, got %+v, %v", name, b.Proofs, err)
		}
	}
}

// TestProofText checks that texts of others become one short line.
func TestProofText(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	m := forge(t, store, forged(midday, "x"), "x")
	must(t, snapshot.Record(t.Context(), store, m.Name, snapshot.Proof{Kind: "verify", Error: "a\x1b[2J\nb" + strings.Repeat("é", 5000)}))
	b, err := snapshot.Find(t.Context(), store, ours, m.Name)
	must(t, err)
	if got := b.Failed.Error; !strings.HasPrefix(got, "a [2J bé") || len(got) > 1100 {
		t.Errorf("got %q", got)
	}
}

// TestProofGoesWithItsBackup checks that a proof is deleted with its backup, even if that is pruned while it is proven.
func TestProofGoesWithItsBackup(t *testing.T) {
	root := t.TempDir()
	store := &observed{Store: snapshot.NewDir(root)}
	m := forge(t, store, forged(midday, "x"), "x")
	for _, kind := range []string{"digest", "verify", "drill"} {
		must(t, snapshot.Record(t.Context(), store, m.Name, snapshot.Proof{Kind: kind}))
	}
	must(t, snapshot.Delete(t.Context(), store, m.Name))
	if left := objects(t, store, ""); len(left) > 0 {
		t.Errorf("after the deletion: got %q", left)
	}
	if err := snapshot.Record(t.Context(), store, m.Name, snapshot.Proof{Kind: "verify"}); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("of what is gone: want ErrNotFound, got %v", err)
	}

	m = forge(t, store, forged(midday, "x"), "x")
	store.refuse = func(op, name string) error {
		if op == "put" && strings.HasSuffix(name, "verify.json") {
			_ = snapshot.Delete(t.Context(), snapshot.NewDir(root), m.Name) // it is gone at the second call
		}
		return nil
	}
	if err := snapshot.Record(t.Context(), store, m.Name, snapshot.Proof{Kind: "verify"}); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("deleted meanwhile: want ErrNotFound, got %v", err)
	}
	if left := objects(t, store, ""); len(left) > 0 {
		t.Errorf("deleted meanwhile: got %q", left)
	}

	// A proof that is left in spite of this is an orphan of this cluster.
	put(t, store, m.Name+"/holdfast.verify.json", `{"version":1,"proof":{"kind":"verify","cluster":"prod","lineage":"l-1"}}`)
	written(t, root, midday)
	put(t, store, "holdfast/prod/drill.json", "{}") // the store's clock advances
	got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false)
	if err != nil || !slices.Equal(namesOf(got.Orphans), []string{m.Name}) {
		t.Errorf("want the orphan %s, got %q, %v", m.Name, namesOf(got.Orphans), err)
	}
}

// TestLatestIsGood passes over backups with a proof against them, and reports them.
func TestLatestIsGood(t *testing.T) {
	root := t.TempDir()
	store := snapshot.NewDir(root)
	var all []string
	for i := range 4 {
		all = append(all, forge(t, store, forged(midday.Add(time.Duration(i)*time.Minute), "x"), "x").Name)
	}
	for _, i := range []int{0, 2, 3} {
		proven(t, root, all[i], "verify", "rotten", midday)
	}
	newest, skipped, err := snapshot.Latest(t.Context(), store, ours)
	if want := []string{all[3], all[2]}; err != nil || newest.Name != all[1] || !slices.Equal(namesOf(skipped), want) || skipped[0].Failed == nil {
		t.Errorf("want %s and that %q are skipped, got %s, %q, %v", all[1], want, newest.Name, namesOf(skipped), err)
	}
	if m, err := snapshot.Held(t.Context(), store, ours, time.Now()); err != nil || m.Name != all[1] {
		t.Errorf("held: want %s, got %s, %v", all[1], m.Name, err)
	}
	// Bad backups are evidence, so they are not pruned. They do not take the place of a good one either.
	got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false)
	if err != nil || len(got.Expired) != 0 {
		t.Errorf("prune: want that all stay, got %q, %v", namesOf(got.Expired), err)
	}
	proven(t, root, all[1], "drill", "rotten", midday)
	if _, skipped, err := snapshot.Latest(t.Context(), store, ours); !errors.Is(err, snapshot.ErrNotFound) || len(skipped) != 4 ||
		!strings.Contains(err.Error(), "4 failed a verify or a drill") {
		t.Errorf("all are bad: got %q, %v", namesOf(skipped), err)
	}
}

// TestCopyTellsWhatFailed copies only the proof that stands.
func TestCopyTellsWhatFailed(t *testing.T) {
	_, from, meta := saved(t, smallDB(t))
	to := snapshot.NewDir(t.TempDir())
	must(t, snapshot.Record(t.Context(), from, meta.Name, snapshot.Proof{Kind: "verify"}))
	must(t, snapshot.Record(t.Context(), from, meta.Name, snapshot.Proof{Kind: "drill", Error: "rotten"}))
	_, err := snapshot.Copy(t.Context(), from, to, meta.Name, snapshot.Options{})
	must(t, err)
	b, err := snapshot.Find(t.Context(), to, ours, meta.Name)
	must(t, err)
	if b.Failed == nil || b.Failed.Kind != "drill" || len(b.Proofs) != 1 {
		t.Errorf("want the drill that failed, got %+v", b.Proofs)
	}
}

// TestRecordDrillOfFailed checks that a drill of the newest backup becomes the last one, from which the schedule
// counts, although a proof stood against that backup until then.
func TestRecordDrillOfFailed(t *testing.T) {
	root := t.TempDir()
	store := snapshot.NewDir(root)
	forge(t, store, forged(midday, "x"), "x")
	m := forged(midday.Add(time.Hour), "y")
	m.Content.Revision++
	forge(t, store, m, "y")
	proven(t, root, m.Name, "verify", "rotten", midday.Add(2*time.Hour))
	must(t, snapshot.RecordDrill(t.Context(), store, ours, snapshot.Drill{Name: m.Name}, snapshot.Options{By: "n2"}))
	if got := objects(t, store, "holdfast/"); len(got) != 1 {
		t.Errorf("want the last drill in the store, got %q", got)
	}
}
