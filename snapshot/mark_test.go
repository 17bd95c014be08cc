package snapshot_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
)

// outdated is a store whose listing lacks what begins with a prefix, as if it had not been put yet.
type outdated struct {
	snapshot.Store
	prefix string
}

func (s outdated) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	all, err := s.Store.List(ctx, prefix)
	return slices.DeleteFunc(all, func(o snapshot.Object) bool { return strings.HasPrefix(o.Name, s.prefix) }), err
}

// newestMark is the object that names the newest backup.
const newestMark = "holdfast/prod/newest.json"

// An outdated listing does not hide the newest backup: what it holds counts, and it cannot be restored.
func TestOutdatedListing(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 16*time.Minute, 2)
		real := b.store.Store
		all := backups(t, real)
		first, last := all[0], all[1]
		for name, prefix := range map[string]string{"the newest": last.Name, "all": "", "its data": last.Name + "/etcd"} {
			list := backups(t, outdated{real, prefix})
			newest, _ := snapshot.Newest(list, time.Now())
			most, _ := snapshot.Newest(snapshot.AsSaved(list), time.Now())
			if newest.Name == last.Name || most.Name != last.Name || most.Content != last.Content {
				t.Errorf("without %s: the newest is %q, and %q held most, want %q", name, newest.Name, most.Name, last.Name)
			}
			err := snapshot.Doubt(list, time.Now())
			if err == nil || !strings.Contains(err.Error(), last.Name+" holds more than any other") {
				t.Errorf("without %s: doubt: got %v", name, err)
			}
			must(t, snapshot.Untold(list))
		}
		if list := backups(t, outdated{real, first.Name}); len(list) != 1 || snapshot.Doubt(list, time.Now()) != nil {
			t.Errorf("without an older one: got %v, %v", list, snapshot.Doubt(list, time.Now()))
		}
		sidecar := last.Name + "/holdfast.meta.json"
		list := backups(t, absent{outdated{real, sidecar}, sidecar})
		if most, _ := snapshot.Newest(snapshot.AsSaved(list), time.Now()); most.Name != last.Name || most.Unfinished {
			t.Errorf("without its sidecar: %q held most, want %q", most.Name, last.Name)
		}
		if err := snapshot.Untold(backups(t, deceiving{Store: real, short: sidecar})); err == nil {
			t.Error("with its sidecar cut short: got no error")
		}
		b.store.lists.Store(&outdated{real, last.Name})
		b.member.leader.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s := b.Status()
		if s.Newest.Name != first.Name || s.Doubt == nil || !strings.Contains(s.Doubt.Error(), "the store does not list it") {
			t.Errorf("status: the newest is %q, doubt %v", s.Newest.Name, s.Doubt)
		}
		b.store.lists.Store(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := b.Status(); s.Newest.Name != last.Name || s.Doubt != nil {
			t.Errorf("status afterwards: the newest is %q, doubt %v", s.Newest.Name, s.Doubt)
		}
	})
}

// A store that went back in time, with its record of the newest backup, is noticed by a keeper that had seen more
// there, until a backup holds more again.
func TestStoreSetBack(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, time.Minute, 1)
		b.member.db.Put("a", "1")
		b.pass(t, 15*time.Minute, 2)
		b.member.leader.Store(false)
		all := backups(t, b.store)
		first, last := all[0], all[1]
		must(t, snapshot.Delete(t.Context(), b.store, last.Name))
		text, err := snapshot.EncodeMeta(first.Meta)
		must(t, err)
		put(t, b.store, newestMark, string(text))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s := b.Status()
		if s.Newest.Name != first.Name || s.Most.Name != last.Name || s.Doubt == nil ||
			!strings.Contains(s.Doubt.Error(), last.Name+" (generation 3, revision 7) was in the store") {
			t.Errorf("status: the newest is %q, %q held most, doubt %v", s.Newest.Name, s.Most.Name, s.Doubt)
		}
		next, err := b.Save(t.Context(), nil)
		must(t, err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := b.Status(); s.Most.Name != next.Name || s.Doubt != nil {
			t.Errorf("after another one: %q held most, doubt %v", s.Most.Name, s.Doubt)
		}
		b.start(t)
		time.Sleep(2 * time.Second)
		if s := b.Status(); s.Most.Name != next.Name || s.Doubt != nil {
			t.Errorf("after a restart: %q held most, doubt %v", s.Most.Name, s.Doubt)
		}
	})
}

// The mark names the newest backup by content, and not by who saved last. It goes with the backup, and another
// cluster's or one that cannot be read is replaced.
func TestNewestMark(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		dir := b.store.Store
		marked := func() string {
			t.Helper()
			for _, m := range backups(t, outdated{dir, "2"}) {
				return m.Name
			}
			return ""
		}
		save := func() string {
			t.Helper()
			m, err := b.Save(t.Context(), nil)
			must(t, err)
			return m.Name
		}
		first := save()
		if got := marked(); got != first {
			t.Errorf("want %q, got %q", first, got)
		}
		later := forged(midday, "later")
		later.Generation++
		mark := func(m snapshot.Meta) {
			text, err := snapshot.EncodeMeta(m)
			must(t, err)
			put(t, dir, newestMark, string(text))
		}
		mark(later)
		if save(); marked() != later.Name {
			t.Errorf("a leader of an older generation: want %q, got %q", later.Name, marked())
		}
		later.Lineage = "l-2"
		if mark(later); marked() != "" {
			t.Errorf("another cluster's: got %q", marked())
		}
		if second := save(); marked() != second {
			t.Errorf("over another cluster's: want %q, got %q", second, marked())
		}
		put(t, dir, newestMark, "<html>")
		err := snapshot.Untold(backups(t, dir))
		if err == nil || !strings.Contains(err.Error(), "is not known until another one is saved") {
			t.Errorf("one that cannot be read: got %v", err)
		}
		last := save()
		if got := marked(); got != last {
			t.Errorf("over one that cannot be read: want %q, got %q", last, got)
		}
		must(t, snapshot.Delete(t.Context(), dir, first))
		if got := marked(); got != last {
			t.Errorf("after the deletion of an older one: want %q, got %q", last, got)
		}
		must(t, snapshot.Delete(t.Context(), dir, last))
		if got := marked(); got != "" {
			t.Errorf("after its deletion: got %q", got)
		}
	})
}
