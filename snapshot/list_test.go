package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
)

// line shows the relevant parts of an entry of a listing.
func line(b snapshot.Backup) string {
	text := b.Name
	for _, f := range []struct {
		name string
		set  bool
	}{{"foreign", b.Foreign}, {"legacy", b.Legacy}, {"unmarked", b.Unmarked}, {"pinned", b.Pinned}} {
		if f.set {
			text += " " + f.name
		}
	}
	if b.Problem != "" {
		text += ": " + b.Problem
	}
	return text
}

func wantList(t *testing.T, store snapshot.Store, id snapshot.Identity, wants ...string) []snapshot.Backup {
	t.Helper()
	list, err := snapshot.List(t.Context(), store, id)
	must(t, err)
	var got []string
	for _, b := range list {
		got = append(got, line(b))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(wants, "\n"); g != w {
		t.Errorf("List: want\n%s\ngot\n%s", w, g)
	}
	return list
}

// TestListEverything has one backup of each kind in a store, and objects that are not backups.
func TestListEverything(t *testing.T) {
	root := t.TempDir()
	store := snapshot.NewDir(root)
	at := func(minutes int) time.Time { return midday.Add(time.Duration(minutes) * time.Minute) }

	good := forge(t, store, forged(at(10), "good"), "good")
	manager := forge(t, store, gzipped(forged(at(11), "manager")), "manager")
	unmarked := forge(t, store, gzipped(forged(at(12), "unmarked")), "unmarked")
	must(t, store.Delete(t.Context(), unmarked.Name+"/_etcd_backup.meta"))

	other := forged(at(13), "other")
	other.Cluster, other.Lineage = "test", ""
	forge(t, store, other, "other")
	founded := forged(at(14), "founded again")
	founded.Lineage = "l-2"
	forge(t, store, founded, "founded again")
	unknown := forged(at(15), "unknown")
	unknown.Lineage = ""
	forge(t, store, unknown, "unknown")

	legacy(t, store, "2026-07-01T12:00:00Z-000977", at(1), "legacy")
	legacy(t, store, "before-the-upgrade", at(2), "by hand")
	legacy(t, store, "2026-07-01T12:03:00Z-000001", at(3), "")
	put(t, store, "2026-07-01T12:04:00Z-000002/_etcd_backup.meta", `{"timestamp":1782907440}`)
	legacy(t, store, "2026-07-01T12:05:00Z-000003", at(5), "x")
	put(t, store, "2026-07-01T12:05:00Z-000003/_etcd_backup.meta", "{")
	put(t, store, "2026-07-01T12:06:00Z-000004/etcd.backup.gz", "etcd-manager crashed")

	short := forge(t, store, forged(at(20), "short"), "shor")
	lost := forge(t, store, forged(at(21), "lost"), "lost")
	must(t, store.Delete(t.Context(), lost.Name+"/etcd.backup.zst"))
	bad := forge(t, store, forged(at(22), "bad"), "bad")
	put(t, store, bad.Name+"/holdfast.meta.json", "{}")
	huge := forge(t, store, forged(at(23), "huge"), "huge")
	put(t, store, huge.Name+"/holdfast.meta.json", strings.Repeat(" ", 1<<20+1))
	must(t, os.CopyFS(filepath.Join(root, "renamed"), os.DirFS(filepath.Join(root, good.Name))))
	saving := forge(t, store, forged(at(24), "saving"), "saving")
	must(t, store.Delete(t.Context(), saving.Name+"/holdfast.meta.json"))
	theirs := forged(at(25), "theirs")
	theirs.Cluster = "test"
	forge(t, store, theirs, "theirs")
	must(t, store.Delete(t.Context(), theirs.Name+"/holdfast.meta.json"))

	must(t, snapshot.Pin(t.Context(), store, manager.Name, "before 1.36"))
	put(t, store, good.Name+"/holdfast.pin.json", "no JSON, but there")

	put(t, store, "control/etcd-cluster-spec", "{}")
	put(t, store, "control/2019-05-07T18:28:01Z-000000/_command.json", "{}")
	put(t, store, "control/_etcd_backup.meta", "{}")
	put(t, store, "holdfast/prod/records/1.json", "{}")
	put(t, store, "holdfast/etcd.backup.zst", "{}")
	put(t, store, "some-directory/notes.txt", "x")
	put(t, store, "deep/2026-07-01T12:00:00Z-000977/_etcd_backup.meta", "{}")
	if _, err := snapshot.StoreID(t.Context(), store); err != nil {
		t.Fatal(err)
	}

	yesterday := time.Now().Add(-25 * time.Hour).Truncate(time.Second)
	written(t, filepath.Join(root, saving.Name), yesterday)
	recent := time.Now().Add(-time.Hour).Truncate(time.Second)
	written(t, filepath.Join(root, theirs.Name), recent)
	written(t, filepath.Join(root, "2026-07-01T12:06:00Z-000004"), recent)
	maybe := "incomplete: no sidecar, last written " + recent.UTC().Format(time.RFC3339) + ": it may be being saved"

	list := wantList(t, store, ours,
		"renamed: read sidecar of backup renamed: it is that of "+good.Name,
		"2026-07-01T12:00:00Z-000977 legacy", // by the timestamp, not by the name
		"before-the-upgrade legacy",
		"2026-07-01T12:03:00Z-000001 legacy: the data is empty",
		"2026-07-01T12:04:00Z-000002 legacy: the data is missing",
		"2026-07-01T12:05:00Z-000003 legacy: decode _etcd_backup.meta: unexpected end of JSON input",
		"2026-07-01T12:06:00Z-000004: "+maybe,
		good.Name+" pinned",
		manager.Name+" pinned",
		unmarked.Name+" unmarked",
		other.Name+" foreign",
		founded.Name+" foreign",
		unknown.Name,
		short.Name+": the data has 4 bytes, want 5",
		lost.Name+": the data is missing",
		bad.Name+": read sidecar of backup "+bad.Name+": decode sidecar: want version 1, got 0",
		huge.Name+": object "+huge.Name+"/holdfast.meta.json: larger than 1048576 bytes",
		saving.Name+": incomplete: no sidecar, last written "+yesterday.UTC().Format(time.RFC3339)+": left behind by a save or a copy that failed",
		theirs.Name+" foreign: "+maybe,
	)

	if b := list[1]; b.EtcdVersion != "3.5.9" || b.Members != 3 || !b.Created.Equal(at(1)) || b.Stored != (snapshot.Stored{Codec: "gzip", Size: 6}) ||
		!b.Verified.IsZero() || b.Content != (snapshot.Content{}) || b.Cluster != "" {
		t.Errorf("legacy: want what etcd-manager tells and no more, got %+v", b)
	}
	if b := list[8]; b.PinReason != "before 1.36" || b.Meta != manager {
		t.Errorf("pinned: want its sidecar and the reason, got %+v", b)
	}
	if b := list[17]; b.Cluster != "prod" || b.Lineage != "l-1" || b.Node != "n1" || b.Stored.Size != 6 || !b.Created.Equal(at(24)) {
		t.Errorf("incomplete: want who began it, when, and its size, got %+v", b)
	}

	// If the founding is not known, the name decides. If nothing is known, nothing is foreign.
	for id, want := range map[snapshot.Identity]int{{Cluster: "prod"}: 2, {}: 0, {Cluster: "test"}: 11, {Cluster: "prod", Lineage: "l-2"}: 11} {
		list, err := snapshot.List(t.Context(), store, id)
		must(t, err)
		foreign := 0
		for _, b := range list {
			if b.Foreign {
				foreign++
			}
		}
		if foreign != want {
			t.Errorf("foreign to %+v: want %d, got %d", id, want, foreign)
		}
	}
}

// TestListIsCheap checks that listing lists the objects once, and only reads small objects.
func TestListIsCheap(t *testing.T) {
	store := &observed{Store: snapshot.NewDir(t.TempDir())}
	for i := range 100 {
		forge(t, store, forged(midday.Add(time.Duration(i)*time.Hour), "data"), "data")
	}
	store.log = nil
	list, err := snapshot.List(t.Context(), store, ours)
	if err != nil || len(list) != 100 {
		t.Fatalf("List: want 100, got %d, %v", len(list), err)
	}
	lists, gets := 0, 0
	for _, l := range store.log {
		switch {
		case strings.HasPrefix(l, "list "):
			lists++
		case strings.HasSuffix(l, "/holdfast.meta.json"):
			gets++
		case l != "get "+newestMark:
			t.Errorf("List did %s", l)
		}
	}
	if lists != 1 || gets != 100 {
		t.Errorf("want 1 listing and 100 sidecars read, got %d and %d", lists, gets)
	}
}

// TestListFails checks that a store that cannot be read is an error, never an empty or a shorter list.
func TestListFails(t *testing.T) {
	down := errors.New("down")
	for _, part := range []string{"", "/holdfast.meta.json", "/holdfast.pin.json", "/_etcd_backup.meta", "/holdfast.begin.json"} {
		store := &observed{Store: snapshot.NewDir(t.TempDir())}
		forge(t, store, forged(midday, "data"), "data")
		must(t, snapshot.Pin(t.Context(), store, snapshot.FormatName(midday), "x"))
		legacy(t, store, "legacy", midday, "data")
		begun := forge(t, store, forged(midday.Add(time.Minute), "data"), "data")
		must(t, store.Delete(t.Context(), begun.Name+"/holdfast.meta.json"))
		store.refuse = func(op, name string) error {
			if part == "" && op == "list" || part != "" && op == "get" && strings.HasSuffix(name, part) {
				return down
			}
			return nil
		}
		if list, err := snapshot.List(t.Context(), store, ours); !errors.Is(err, down) || list != nil {
			t.Errorf("List without %q: want the store's error, got %d, %v", part, len(list), err)
		}
		if _, _, err := snapshot.Latest(t.Context(), store, ours); !errors.Is(err, down) || errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Latest without %q: want the store's error, got %v", part, err)
		}
		if _, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{}, time.Now(), false); !errors.Is(err, down) {
			t.Errorf("Prune without %q: want the store's error, got %v", part, err)
		}
	}
}

func TestLatest(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	now := time.Now().UTC().Truncate(time.Second)
	want := func(what, name string) {
		t.Helper()
		if got, _, err := snapshot.Latest(t.Context(), store, ours); err != nil || got.Name != name {
			t.Errorf("%s: want %s, got %s, %v", what, name, got.Name, err)
		}
	}
	wantNone := func(what, text string) {
		t.Helper()
		if got, _, err := snapshot.Latest(t.Context(), store, ours); !errors.Is(err, snapshot.ErrNotFound) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: want ErrNotFound and %q, got %s, %v", what, text, got.Name, err)
		}
	}
	wantNone("empty", "no backup of cluster prod among the 0 in the store")
	foreign := forged(now.Add(-time.Minute), "x")
	foreign.Lineage = "l-2"
	forge(t, store, foreign, "x")
	bad := forge(t, store, forged(now.Add(-2*time.Minute), "xx"), "x")
	wantNone("others", "among the 2 in the store: 1 are another cluster's, 0 failed a verify or a drill, 1 are incomplete or damaged")
	legacy(t, store, "ahead", now.Add(24*time.Hour), "x")
	want("a legacy one from the future, if there is no other", "ahead")
	legacy(t, store, "old", now.Add(-3*time.Hour), "x")
	want("legacy", "old")
	legacy(t, store, "new", now.Add(-2*time.Hour), "x")
	want("of legacy ones the last", "new")
	remote := forged(now.Add(-150*time.Minute), "x")
	remote.Generation, remote.Content.Revision = 0, 1000
	forge(t, store, remote, "x")
	want("an etcd's that we do not run is ordered by time, as a legacy one", "new")
	own := forge(t, store, forged(now.Add(-4*time.Hour), "x"), "x")
	want("ours, although a legacy one is newer", own.Name)
	own = forge(t, store, forged(now.Add(-30*time.Minute), "x"), "x")
	want("of equal ones the last", own.Name)
	put(t, store, bad.Name+"/etcd.backup.zst", "xx")
	want("mended", bad.Name)

	save := func(generation uint64, revision int64, created time.Time) string {
		m := forged(created, "x")
		m.Generation, m.Content.Revision = generation, revision
		return forge(t, store, m, "x").Name
	}
	ahead := save(4, 100, now.Add(3*365*24*time.Hour))
	want("the highest revision, by a clock years ahead", ahead)
	behind := save(4, 101, now.Add(-5*365*24*time.Hour))
	want("a higher revision, by a clock years behind", behind)
	later := save(5, 5, now.Add(-time.Hour))
	want("a later generation, at a lower revision and an earlier time", later)
	save(4, 1_000_000, now.Add(4*365*24*time.Hour))
	want("an earlier generation, however late", later)
}

// TestLatestOfTwoLineages checks that generations and revisions are only compared within one lineage.
func TestLatestOfTwoLineages(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	now := time.Now().UTC().Truncate(time.Second)
	save := func(lineage string, generation uint64, created time.Time) string {
		m := forged(created, "x")
		m.Lineage, m.Generation = lineage, generation
		return forge(t, store, m, "x").Name
	}
	save("l-1", 1, now.Add(-time.Hour))
	first := save("l-1", 7, now.Add(-2*time.Hour))
	second := save("l-2", 1, now.Add(-time.Minute))
	for _, want := range []struct{ lineage, name string }{{"l-1", first}, {"l-2", second}, {"", second}} {
		if got, _, err := snapshot.Latest(t.Context(), store, snapshot.Identity{Cluster: "prod", Lineage: want.lineage}); err != nil || got.Name != want.name {
			t.Errorf("lineage %q: want %s, got %s, %v", want.lineage, want.name, got.Name, err)
		}
	}
	unknown := save("", 8, now.Add(-3*time.Hour))
	if got, _, err := snapshot.Latest(t.Context(), store, snapshot.Identity{Cluster: "prod", Lineage: "l-1"}); err != nil || got.Name != unknown {
		t.Errorf("one that does not tell its lineage counts as ours: want %s, got %s, %v", unknown, got.Name, err)
	}
}

// TestHeld tests the backup that is drilled and shown: the newest by content, whatever the clock said.
func TestHeld(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	old := forged(midday.Add(3*365*24*time.Hour), "x")
	old.Generation = 1
	forge(t, store, old, "x")
	next := forged(midday.Add(-time.Hour), "x")
	next.Generation = 2
	next = forge(t, store, next, "x")
	legacy(t, store, "legacy", midday, "x")
	if got, err := snapshot.Held(t.Context(), store, ours, midday); err != nil || got != next {
		t.Errorf("newest: want %s, got %s, %v", next.Name, got.Name, err)
	}
	if got, err := snapshot.Made(t.Context(), store, ours, midday); err != nil || got != next {
		t.Errorf("made last: want %s, got %s, %v", next.Name, got.Name, err)
	}
}

// TestMade tests the backup from which the schedule counts.
func TestMade(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	want := func(what, name string) {
		t.Helper()
		if got, err := snapshot.Made(t.Context(), store, ours, midday); err != nil || got.Name != name {
			t.Errorf("%s: want %q, got %q, %v", what, name, got.Name, err)
		}
	}
	want("empty", "")
	legacy(t, store, "2026-07-01T11:59:00Z-000000", midday.Add(-time.Minute), "x")
	forge(t, store, forged(midday.Add(time.Second), "x"), "x")
	for i := range 40 { // more than are read at once
		foreign := forged(midday.Add(-time.Duration(i)*time.Minute), "x")
		foreign.Cluster = "test"
		forge(t, store, foreign, "x")
	}
	want("foreign, legacy and from the future", "")
	own := forge(t, store, forged(midday.Add(-time.Hour), "x"), "x")
	want("behind the others", own.Name)
	must(t, store.Delete(t.Context(), own.Name+"/etcd.backup.zst"))
	want("damaged", "")
}

func TestFind(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	legacy(t, store, "by-hand", midday, "data")
	got, err := snapshot.Find(t.Context(), store, ours, "by-hand")
	want := snapshot.Meta{Name: "by-hand", Created: midday, EtcdVersion: "3.5.9", Members: 3, Stored: snapshot.Stored{Codec: "gzip", Size: 4}}
	if err != nil || !reflect.DeepEqual(got, snapshot.Backup{Meta: want, Legacy: true}) {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
	if got, err := snapshot.ReadMeta(t.Context(), store, "by-hand"); err != nil || got != want {
		t.Errorf("ReadMeta: want %+v, got %+v, %v", want, got, err)
	}
	put(t, store, "by-hand-too/holdfast.begin.json", "{}")
	if b, err := snapshot.Find(t.Context(), store, ours, "by-hand-too"); err != nil || b.Problem == "" {
		t.Errorf("incomplete: want a problem, got %+v, %v", b, err)
	}
	if _, err := snapshot.ReadMeta(t.Context(), store, "by-hand-too"); err == nil || !strings.Contains(err.Error(), "incomplete") {
		t.Errorf("ReadMeta of an incomplete one: want that it is told, got %v", err)
	}
	if _, err := snapshot.Find(t.Context(), store, ours, "by"); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("absent: want ErrNotFound, got %v", err)
	}
}

func TestPin(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	m := forge(t, store, forged(midday, "x"), "x")
	pinned := func(want bool, why string) {
		t.Helper()
		list, err := snapshot.List(t.Context(), store, ours)
		if err != nil || list[0].Pinned != want || list[0].PinReason != why {
			t.Errorf("want pinned %t, %q, got %+v, %v", want, why, list, err)
		}
	}
	must(t, snapshot.Unpin(t.Context(), store, m.Name))
	pinned(false, "")
	must(t, snapshot.Pin(t.Context(), store, m.Name, "before the upgrade"))
	pinned(true, "before the upgrade")
	must(t, snapshot.Pin(t.Context(), store, m.Name, ""))
	pinned(true, "")
	for _, why := range []string{strings.Repeat("x", 201), "two\nlines", "\xff"} {
		if err := snapshot.Pin(t.Context(), store, m.Name, why); err == nil {
			t.Errorf("Pin for %.20q: want an error", why)
		}
	}
	must(t, snapshot.Unpin(t.Context(), store, m.Name))
	pinned(false, "")
	put(t, store, "begun/holdfast.begin.json", "{}")
	for _, name := range []string{"begun", "absent"} {
		if err := snapshot.Pin(t.Context(), store, name, ""); !errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Pin(%s): want ErrNotFound, got %v", name, err)
		}
	}
	for _, name := range []string{"", "..", "control", "a/b"} {
		if err := snapshot.Pin(t.Context(), store, name, ""); err == nil || errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Pin(%s): want that it is no name, got %v", name, err)
		}
		if err := snapshot.Unpin(t.Context(), store, name); err == nil {
			t.Errorf("Unpin(%s): want an error", name)
		}
	}
	legacy(t, store, "legacy", midday, "x")
	must(t, snapshot.Pin(t.Context(), store, "legacy", "x"))
}

// A backup that is pruned while it is pinned is not pinned, and its owner is told.
func TestPinOfWhatIsBeingPruned(t *testing.T) {
	store := &observed{Store: snapshot.NewDir(t.TempDir())}
	m := forge(t, store, forged(midday, "x"), "x")
	store.refuse = func(op, name string) error {
		if op == "put" && strings.HasSuffix(name, "pin.json") {
			_ = snapshot.Delete(t.Context(), store.Store, m.Name)
		}
		return nil
	}
	if err := snapshot.Pin(t.Context(), store, m.Name, "needed"); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("want ErrNotFound, got %v", err)
	}
	if left := objects(t, store, ""); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestDeleteOrder checks that the commit marks go first, at whatever step a deletion is interrupted.
func TestDeleteOrder(t *testing.T) {
	root := t.TempDir()
	store := &observed{Store: snapshot.NewDir(root)}
	for _, name := range []string{"", ".", "..", "control", "holdfast", "holdfast-store-id", "holdfast-probe-1", "a/etcd.backup.zst", "../prod"} {
		if err := snapshot.Delete(t.Context(), store, name); err == nil || errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Delete(%q): want that it is no name, got %v", name, err)
		}
	}
	m := forge(t, store, gzipped(forged(midday, "x")), "x")
	must(t, snapshot.Pin(t.Context(), store, m.Name, ""))
	put(t, store, m.Name+"/notes.txt", "not ours")
	store.did()
	must(t, snapshot.Delete(t.Context(), store, m.Name))
	var want []string
	for _, file := range []string{"_etcd_backup.meta", "holdfast.meta.json", "etcd.backup.gz", "holdfast.pin.json", "holdfast.begin.json"} {
		want = append(want, "delete "+m.Name+"/"+file)
	}
	if got := store.did(); !slices.Equal(got, want) {
		t.Errorf("want %q, got %q", want, got)
	}
	if got := objects(t, store, ""); !slices.Equal(got, []string{m.Name + "/notes.txt"}) {
		t.Errorf("want only what is not ours, got %q", got)
	}
	if err := snapshot.Delete(t.Context(), store, m.Name); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("second Delete: want ErrNotFound, got %v", err)
	}
	must(t, store.Delete(t.Context(), m.Name+"/notes.txt"))
	legacy(t, store, "legacy", midday, "x")
	must(t, snapshot.Delete(t.Context(), store, "legacy"))
	if got := files(t, root); len(got) != 1 {
		t.Errorf("store: want only its hidden directory, got %v", got)
	}

	refused := errors.New("refused")
	for step := 1; step <= 4; step++ {
		m := forge(t, store, gzipped(forged(midday.Add(time.Hour), "x")), "x")
		left := step
		store.refuse = func(op, _ string) error {
			if op != "delete" {
				return nil
			}
			if left--; left < 0 {
				return refused
			}
			return nil
		}
		if err := snapshot.Delete(t.Context(), store, m.Name); step < 4 && !errors.Is(err, refused) {
			t.Errorf("cut short after %d: want the store's error, got %v", step, err)
		}
		list, err := snapshot.List(t.Context(), store, ours)
		must(t, err)
		for _, b := range list {
			if good := b.Problem == ""; good != (step == 1) {
				t.Errorf("cut short after %d: got %q", step, line(b))
			}
		}
		store.refuse = nil
		if step < 4 {
			must(t, snapshot.Delete(t.Context(), store, m.Name))
		}
	}
}
