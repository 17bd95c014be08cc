package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
)

// begun puts the remains of a failed save into a store.
func begun(t testing.TB, store snapshot.Store, m snapshot.Meta) string {
	t.Helper()
	forge(t, store, m, "x")
	must(t, store.Delete(t.Context(), m.Name+"/holdfast.meta.json"))
	return m.Name
}

func TestPrune(t *testing.T) {
	root := t.TempDir()
	store := &observed{Store: snapshot.NewDir(root)}
	now := time.Now()
	old := func(i int) time.Time {
		return now.Add(-48*time.Hour + time.Duration(i)*time.Second).UTC().Truncate(time.Second)
	}
	keep := snapshot.Keep{Newest: 1}

	expired := forge(t, store, gzipped(forged(old(1), "x")), "x")
	pinned := forge(t, store, forged(old(2), "x"), "x")
	must(t, snapshot.Pin(t.Context(), store, pinned.Name, ""))
	foreign := forged(old(3), "x")
	foreign.Lineage = "l-2"
	forge(t, store, foreign, "x")
	legacy(t, store, "2000-01-01T00:00:00Z-000000", old(4), "x")
	orphan := begun(t, store, forged(old(5), "x"))
	theirs := forged(old(6), "x")
	theirs.Cluster = "test"
	begun(t, store, theirs)
	put(t, store, snapshot.FormatName(old(7))+"/etcd.backup.gz", "nobody's")
	held := begun(t, store, forged(old(8), "x"))
	put(t, store, held+"/holdfast.pin.json", "{}")
	for _, name := range files(t, root) {
		written(t, filepath.Join(root, name), now.Add(-48*time.Hour))
	}
	saving := begun(t, store, forged(old(9), "x"))
	written(t, filepath.Join(root, saving), now.Add(-23*time.Hour))
	newest := forge(t, store, forged(now.Add(-time.Hour).UTC().Truncate(time.Second), "x"), "x")
	before := objects(t, store, "")
	store.did()

	for _, dry := range []bool{true, false} {
		got, err := snapshot.Prune(t.Context(), store, ours, keep, now, dry)
		must(t, err)
		if e, o := namesOf(got.Expired), namesOf(got.Orphans); !slices.Equal(e, []string{expired.Name}) || !slices.Equal(o, []string{orphan}) || len(got.Kept) != 0 {
			t.Errorf("dry run %t: want %s expired and %s orphaned, got %q, %q, %v", dry, expired.Name, orphan, e, o, got.Kept)
		}
		if did := store.did(); dry != (len(did) == 0) {
			t.Errorf("dry run %t: did %q", dry, did)
		}
	}
	want := slices.DeleteFunc(before, func(name string) bool {
		return strings.HasPrefix(name, expired.Name) || strings.HasPrefix(name, orphan)
	})
	if got := objects(t, store, ""); !slices.Equal(got, want) {
		t.Errorf("want\n%s\nleft, got\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
	got, err := snapshot.Prune(t.Context(), store, ours, keep, now, false)
	if err != nil || len(got.Expired)+len(got.Orphans) != 0 || len(store.did()) != 0 {
		t.Errorf("again: want nothing to do, got %+v, %v", got, err)
	}
	if m, err := snapshot.Held(t.Context(), store, ours, now); err != nil || m != newest {
		t.Errorf("the newest: want %s, got %+v, %v", newest.Name, m, err)
	}
}

// TestPruneWrongClock prunes on a machine whose clock is years ahead.
func TestPruneWrongClock(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	forge(t, store, forged(time.Now().Add(-2*time.Hour), "x"), "x")
	made := forge(t, store, forged(time.Now().Add(3*365*24*time.Hour), "x"), "x") // made by this same machine
	begun(t, store, forged(time.Now(), "x"))
	got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, made.Created.Add(time.Hour), false)
	if err != nil || len(got.Expired)+len(got.Orphans) != 0 {
		t.Errorf("want that nothing is pruned, got %+v, %v", got, err)
	}
}

// TestPruneStoreAhead prunes a store in which one object's time is far ahead, as from a file server with a wrong clock.
func TestPruneStoreAhead(t *testing.T) {
	root := t.TempDir()
	store := snapshot.NewDir(root)
	begun(t, store, forged(time.Now(), "x"))
	put(t, store, "holdfast/prod/drill.json", "{}")
	written(t, filepath.Join(root, "holdfast"), time.Now().Add(365*24*time.Hour))
	got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false)
	if err != nil || len(got.Orphans) != 0 {
		t.Errorf("want that a save under way stays, got %+v, %v", got, err)
	}
}

// believed is a store that says of each deletion that it was done, and does nothing.
type believed struct{ snapshot.Store }

func (believed) Delete(context.Context, string) error { return nil }

// TestDeletionThatWasNotDone checks that the answer to a deletion is not believed.
func TestDeletionThatWasNotDone(t *testing.T) {
	store := believed{snapshot.NewDir(t.TempDir())}
	var all []snapshot.Meta
	for i := range 3 {
		all = append(all, forge(t, store, forged(midday.Add(time.Duration(i)*time.Minute), "x"), "x"))
	}
	got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false)
	if err != nil || len(got.Refused) != 2 || !strings.Contains(got.Kept[all[0].Name], "and still has it") {
		t.Errorf("prune: got %+v, %v", got, err)
	}
	err = snapshot.Delete(t.Context(), store, all[0].Name)
	if err == nil || !strings.Contains(err.Error(), all[0].Name+"/holdfast.begin.json, and still has it") {
		t.Errorf("delete: got %v", err)
	}
}

// TestPruneRefused checks that a failed deletion stops nothing else, and is reported.
func TestPruneRefused(t *testing.T) {
	store := &observed{Store: snapshot.NewDir(t.TempDir())}
	var all []snapshot.Meta
	for i := range 4 {
		all = append(all, forge(t, store, forged(midday.Add(time.Duration(i)*time.Minute), "x"), "x"))
	}
	locked := all[1].Name
	store.refuse = func(op, name string) error {
		if op == "delete" && strings.HasPrefix(name, locked) {
			return errors.New("the object is locked")
		}
		return nil
	}
	got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false)
	if err != nil || len(got.Expired) != 3 || len(got.Kept) != 1 || !strings.Contains(got.Kept[locked], "the object is locked") {
		t.Errorf("want that %s is kept, got %+v, %v", locked, got, err)
	}
	wantList(t, store, ours, locked, all[3].Name)

	// A backup that is pinned at the last moment stays, and is not half deleted.
	store.refuse = func(op, name string) error {
		if op == "list" && name == locked+"/" {
			must(t, store.Store.Put(t.Context(), locked+"/holdfast.pin.json", strings.NewReader("{}")))
		}
		return nil
	}
	got, err = snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false)
	if err != nil || got.Kept[locked] != "it was pinned meanwhile" {
		t.Errorf("want that %s is kept, got %+v, %v", locked, got, err)
	}
	wantList(t, store, ours, locked+" pinned", all[3].Name)
	must(t, snapshot.Unpin(t.Context(), store, locked))

	// A store that is gone must not look like a list of locked objects.
	gone := errors.New("gone")
	down := false
	store.refuse = func(op, name string) error {
		if down = down || op == "delete"; down {
			return gone
		}
		return nil
	}
	if got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false); !errors.Is(err, gone) || len(got.Expired) != 1 || len(got.Kept) != 1 {
		t.Errorf("want the store's error and nothing removed, got %+v, %v", got, err)
	}
}

func TestPruneWhose(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	for i := range 6 {
		m := forged(midday.Add(time.Duration(i)*time.Minute), "x")
		m.Lineage = []string{"l-1", "l-2", ""}[i%3]
		forge(t, store, m, "x")
	}
	for _, id := range []snapshot.Identity{{}, {Lineage: "l-1"}, {Cluster: "prod"}} {
		if got, err := snapshot.Prune(t.Context(), store, id, snapshot.Keep{}, time.Now(), false); err == nil {
			t.Errorf("%+v: want that it is not known whose to prune, got %+v", id, got)
		}
	}
	got, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{}, time.Now(), true)
	if err != nil || len(got.Expired) != 3 { // those of l-1 and of no known founding, except the newest
		t.Errorf("want 3 expired, got %q, %v", namesOf(got.Expired), err)
	}
}

// TestPruneRacesWithPruning prunes from several nodes at once, as after a change of leader.
func TestPruneRacesWithPruning(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	for i := range 20 {
		forge(t, store, forged(midday.Add(time.Duration(i)*time.Minute), "x"), "x")
	}
	errs := make(chan error)
	for range 4 {
		go func() {
			_, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 3}, time.Now(), false)
			errs <- err
		}()
	}
	for range 4 {
		must(t, <-errs)
	}
	if got := len(objects(t, store, "")); got != 3*3 {
		t.Errorf("want the objects of 3 backups, got %s", fmt.Sprint(objects(t, store, "")))
	}
}

// wholeSeconds is a store whose times are truncated to seconds, as S3's are.
type wholeSeconds struct{ snapshot.Store }

func (s wholeSeconds) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	objects, err := s.Store.List(ctx, prefix)
	for i := range objects {
		objects[i].Modified = objects[i].Modified.Truncate(time.Second)
	}
	return objects, err
}

// TestPruneWholeSeconds checks that a backup made and stored within one second counts at once, so that one more
// expires.
func TestPruneWholeSeconds(t *testing.T) {
	root := t.TempDir()
	store := snapshot.NewDir(root)
	now := midday.Add(900 * time.Millisecond)
	old := forge(t, store, forged(midday.Add(-time.Hour), "x"), "x")
	forge(t, store, forged(midday.Add(600*time.Millisecond), "x"), "x")
	written(t, root, midday.Add(800*time.Millisecond))
	got, err := snapshot.Prune(t.Context(), wholeSeconds{store}, ours, snapshot.Keep{Newest: 1}, now, true)
	if err != nil || !slices.Equal(namesOf(got.Expired), []string{old.Name}) {
		t.Errorf("want that %s expires, got %q, %v", old.Name, namesOf(got.Expired), err)
	}
}
