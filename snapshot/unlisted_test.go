package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// deceiving is a store whose listing lacks some objects, and that returns only the beginning of others. A proxy in
// front of a service may do so, or a service with a damaged index. Both fields have the ends of the objects' names.
type deceiving struct {
	snapshot.Store
	unlisted, short string
}

func (s deceiving) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	all, err := s.Store.List(ctx, prefix)
	return slices.DeleteFunc(all, func(o snapshot.Object) bool { return s.unlisted != "" && strings.HasSuffix(o.Name, s.unlisted) }), err
}

func (s deceiving) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.Store.Get(ctx, name)
	if err != nil || s.short == "" || !strings.HasSuffix(name, s.short) {
		return r, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return io.NopCloser(bytes.NewReader(text[:len(text)/2])), err
}

// A listing that lacks a sidecar or a pin makes no good backup an orphan, and no pinned one expire.
func TestPruneAsksForWhatIsNotListed(t *testing.T) {
	for unlisted, newest := range map[string]int{"holdfast.meta.json": 3, "holdfast.pin.json": 1} {
		dir := snapshot.NewDir(t.TempDir())
		forge(t, dir, forged(midday.AddDate(-3, 0, 0), "old"), "old")
		pinned := forge(t, dir, forged(midday.AddDate(-2, 0, 0), "pinned"), "pinned")
		must(t, snapshot.Pin(t.Context(), dir, pinned.Name, "the audit"))
		forge(t, dir, forged(midday, "new"), "new")
		put(t, dir, "later", "x")
		store := deceiving{Store: snapshottest.Dated{Store: dir, Times: map[string]time.Time{"later": midday}}, unlisted: unlisted}
		_, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: newest}, midday.Add(time.Hour), false)
		must(t, err)
		list, err := snapshot.List(t.Context(), dir, ours)
		must(t, err)
		bad := slices.ContainsFunc(list, func(b snapshot.Backup) bool { return !b.Good() })
		if want := min(newest+1, 3); len(list) != want || bad {
			t.Errorf("without %s in the listing: %d backups are left, want %d good ones: %v", unlisted, len(list), want, list)
		}
	}
}

// A copy does not take a good backup in the other store, whose sidecar is not listed, for one that was abandoned.
func TestCopyAsksForWhatIsNotListed(t *testing.T) {
	from, to := snapshot.NewDir(t.TempDir()), snapshot.NewDir(t.TempDir())
	m := forge(t, from, forged(midday, "one"), "one")
	other := forged(midday, "another")
	other.Name, other.Created = m.Name, m.Created
	forge(t, to, other, "another")
	put(t, to, "later", "x")
	store := deceiving{Store: snapshottest.Dated{Store: to, Times: map[string]time.Time{"later": midday}}, unlisted: "holdfast.meta.json"}
	_, err := snapshot.Copy(t.Context(), from, store, m.Name, snapshot.Options{})
	if err == nil || !strings.Contains(err.Error(), "another backup of that name") {
		t.Errorf("got %v", err)
	}
	if list, err := snapshot.List(t.Context(), to, ours); err != nil || len(list) != 1 || !list[0].Good() {
		t.Errorf("what was there: %v, %v", list, err)
	}
}

// What holds nobody knows is not nothing: a finished backup whose sidecar is cut short, gone or damaged may hold more
// than all others. One that was never finished, or is another cluster's, does not count.
func TestUntold(t *testing.T) {
	dir := snapshot.NewDir(t.TempDir())
	forge(t, dir, forged(midday.Add(-time.Hour), "known"), "known")
	newer := forge(t, dir, forged(midday, "newer"), "newer")
	begun(t, dir, forged(midday.Add(time.Minute), "begun"))
	other := forged(midday.Add(time.Second), "other")
	other.Lineage = "l-2"
	forge(t, dir, other, "other")
	put(t, dir, other.Name+"/holdfast.meta.json", "{}")
	untold := func(s snapshot.Store) error {
		list, err := snapshot.List(t.Context(), s, ours)
		must(t, err)
		return snapshot.Untold(list)
	}
	must(t, untold(dir))
	must(t, untold(deceiving{Store: dir, unlisted: newer.Name + "/holdfast.meta.json"})) // it is asked for
	err := untold(deceiving{Store: dir, short: newer.Name + "/holdfast.meta.json"})
	if err == nil || !strings.Contains(err.Error(), newer.Name+" does not tell what it holds") || !strings.Contains(err.Error(), "the store gave") {
		t.Errorf("cut short: got %v", err)
	}
	list, err := snapshot.List(t.Context(), deceiving{Store: dir, unlisted: newer.Name + "/etcd.backup.zst"}, ours)
	must(t, err)
	must(t, snapshot.Untold(list))
	if b, _ := snapshot.Newest(snapshot.AsSaved(list), midday); b.Name != newer.Name {
		t.Errorf("without its data %s counts for what it held, got %q", newer.Name, b.Name)
	}
	if err := snapshot.Doubt(list, midday); err == nil || !strings.Contains(err.Error(), "holds more than any other") {
		t.Errorf("doubt: got %v", err)
	}
	list, err = snapshot.List(t.Context(), dir, ours)
	must(t, err)
	must(t, snapshot.Doubt(list, midday))
	put(t, dir, newer.Name+"/holdfast.meta.json", "{}")
	if err := untold(dir); err == nil {
		t.Error("damaged: got no error")
	}
}

// A backup that another node prunes after it was listed does not raise a doubt about the store.
func TestPrunedWhileListed(t *testing.T) {
	store := &observed{Store: snapshot.NewDir(t.TempDir())}
	old := forge(t, store, forged(midday.Add(-time.Hour), "old"), "old")
	newest := forge(t, store, forged(midday, "newest"), "newest")
	store.refuse = func(op, name string) error {
		if op == "get" && strings.HasPrefix(name, old.Name+"/") {
			_ = snapshot.Delete(t.Context(), store.Store, old.Name) // it is gone at the second call
		}
		return nil
	}
	list, err := snapshot.List(t.Context(), store, ours)
	must(t, err)
	if err := snapshot.Doubt(list, midday); err != nil {
		t.Errorf("doubt: got %v", err)
	}
	if b, _ := snapshot.Newest(list, midday); b.Name != newest.Name {
		t.Errorf("newest: want %s, got %q", newest.Name, b.Name)
	}
}

// An empty listing does not hide etcd-manager's mark, which vetoes a founding.
func TestManagedAsksForTheMark(t *testing.T) {
	dir := snapshot.NewDir(t.TempDir())
	const mark = "control/etcd-cluster-created"
	put(t, dir, mark, "{}")
	if signs, err := snapshot.Managed(t.Context(), deceiving{Store: dir, unlisted: mark}); err != nil || signs != mark {
		t.Errorf("got %q, %v", signs, err)
	}
}

// A copy whose sidecar was acknowledged and not stored is none: otherwise the spool would forget the only good one.
func TestCopyIsNotForgotten(t *testing.T) {
	from, to := snapshot.NewDir(t.TempDir()), snapshot.NewDir(t.TempDir())
	m := forge(t, from, forged(midday, "one"), "one")
	_, err := snapshot.Copy(t.Context(), from, forgetful(to), m.Name, snapshot.Options{})
	if err == nil || !strings.Contains(err.Error(), "object not found") {
		t.Errorf("got %v", err)
	}
	if _, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{}); err != nil {
		t.Errorf("again: %v", err)
	}
}

// absent is a store that says of an object that it is not there, and lists it.
type absent struct {
	snapshot.Store
	name string
}

func (s absent) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == s.name {
		return nil, snapshot.ErrNotFound
	}
	return s.Store.Get(ctx, name)
}

// Data that the store lists and does not give says nothing against the backup: the verdict would stand when the store
// gives it again. Data that is not listed either is missing.
func TestListedDataIsNotMissing(t *testing.T) {
	_, dir, m := saved(t, smallDB(t))
	data := m.Name + "/etcd.backup.zst"
	for name, c := range map[string]struct {
		store snapshot.Store
		bad   bool
	}{
		"listed":     {absent{dir, data}, false},
		"not listed": {absent{deceiving{Store: dir, unlisted: data}, data}, true},
		"nothing can be listed": {absent{&observed{Store: dir, refuse: func(op, _ string) error {
			if op == "list" {
				return errors.New("down")
			}
			return nil
		}}, data}, false},
	} {
		v, err := snapshot.Verify(t.Context(), c.store, m.Name, snapshot.Options{Scratch: t.TempDir()})
		_, proof := snapshot.VerifyProof(v, err, snapshot.Options{})
		if err == nil || errors.Is(err, snapshot.ErrNotFound) || snapshot.Damaged(err) != c.bad || proof != c.bad {
			t.Errorf("%s: damaged %t, proof %t, want %t: %v", name, snapshot.Damaged(err), proof, c.bad, err)
		}
	}
}
