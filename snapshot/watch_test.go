package snapshot_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
)

// TestEveryNodeKnowsTheStore checks that a node that does not lead, for example without a quorum, knows what the store
// holds, and reports if it does not.
func TestEveryNodeKnowsTheStore(t *testing.T) {
	_, _, meta := saved(t, smallDB(t))
	keeper(t, func(t *testing.T, b *bench) {
		if s := b.Status(); s.Newest.Name != "" || s.Asked.IsZero() || s.Count != 0 {
			t.Errorf("of an empty store: got %+v", s)
		}
		for i := range 12 {
			forgeAt(t, b.store, meta, time.Now().Add(time.Duration(i-12)*time.Hour))
		}
		b.store.off.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if s := b.Status(); !strings.Contains(s.StoreError, "no route to host") || s.Count != 0 {
			t.Errorf("of a store that is away: got %+v", s)
		}
		b.store.off.Store(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s := b.Status()
		if s.Leading || s.Count != 12 || s.Newest.Name == "" || s.StoreError != "" || time.Since(s.Asked) > 2*time.Minute {
			t.Errorf("want the 12 backups there are, got %+v", s)
		}
		b.wantSeries(t, map[string]float64{"backups": 12, "bad_backups": 0, "newest_bad": 0, "drill_last_success": 0})
		if b.backups(t) != 12 {
			t.Error("a node that does not lead saved a backup")
		}
	})
}

// A directory whose server is gone does not answer at all. Every node reports that, and the leader also that its
// backups fail. Both end when the store answers.
func TestStoreThatHangs(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, time.Minute, 1)
		release := make(chan struct{})
		b.store.hangs.Store(&release)
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		s := b.Status()
		if !strings.HasSuffix(s.StoreError, "no answer within 30s") || !s.Overdue || s.Failures < 2 ||
			!strings.HasSuffix(s.LastError, "no answer within 1m0s") {
			t.Errorf("of a store that hangs: got %+v", s)
		}
		b.store.hangs.Store(nil)
		close(release)
		time.Sleep(16 * time.Minute)
		synctest.Wait()
		if s := b.Status(); s.StoreError != "" || s.Overdue || s.Failures != 0 || !s.Saving.IsZero() || s.Count != 2 {
			t.Errorf("of one that answers again: got %+v", s)
		}
	})
}

// A store may take long for each sidecar. Each look reads some more of them. The leader does not wait for hours.
func TestSlowStore(t *testing.T) {
	_, _, meta := saved(t, smallDB(t))
	keeper(t, func(t *testing.T, b *bench) {
		for i := range 200 {
			forgeAt(t, b.store, meta, time.Now().Add(time.Duration(i-300)*time.Hour))
		}
		old := time.Now().Add(-time.Hour)
		must(t, filepath.WalkDir(b.dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, old, old))
		}))
		forgeAt(t, b.store, meta, time.Now().Add(-99*time.Hour)) // the store's clock is that of its newest object
		b.store.slow.Store(int64(9 * time.Second))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := b.Status(); s.Count != 201 || s.StoreError != "" {
			t.Errorf("want the 201 backups there are, got %+v", s)
		}
		b.store.slow.Store(int64(29 * time.Second))
		b.member.leader.Store(true)
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if s := b.Status(); s.Failures == 0 || !strings.HasSuffix(s.LastError, "no answer within 5m0s") {
			t.Errorf("the leader: got %+v", s)
		}
	})
}

// TestKeeperLearnsOfBadBackups checks that every node learns of proofs made elsewhere, and that the leader makes
// another backup.
func TestKeeperLearnsOfBadBackups(t *testing.T) {
	keeper(t, func(t *testing.T, b *bench) {
		b.member.leader.Store(true)
		b.pass(t, 16*time.Minute, 2)
		b.member.leader.Store(false)
		newest := b.Status().Newest.Name
		must(t, snapshot.Record(t.Context(), b.store, newest, snapshot.Proof{Kind: "verify", By: "ops@far", Error: "rotten"}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		s := b.Status()
		if s.Count != 1 || len(s.Failed) != 1 || len(s.Skipped) != 1 || s.Skipped[0].Name != newest || s.Newest.Name == newest || s.Newest.Name == "" {
			t.Errorf("want that %s is skipped, got %+v", newest, s)
		}
		b.wantSeries(t, map[string]float64{"backups": 1, "bad_backups": 1, "newest_bad": 1})
		if got := b.logs.FilterMessage("backup is bad according to a later proof").Len(); got != 1 {
			t.Errorf("errors logged: want 1, got %d", got)
		}
		b.member.leader.Store(true)
		b.pass(t, 5*time.Second, 3) // a bad backup does not count: one is due
		if s := b.Status(); s.Count != 2 || len(s.Failed) != 1 || len(s.Skipped) != 0 {
			t.Errorf("after another one: got %+v", s)
		}
	})
}

// TestDrillIsRecorded checks that the leader's drill is stored beside the backup, unless it was only too slow.
func TestDrillIsRecorded(t *testing.T) {
	drilled(t, func(t *testing.T, b *bench, d *drills) {
		b.member.leader.Store(true)
		d.after(t, time.Minute, 1)
		if all := backups(t, b.store.Store); len(all[0].Proofs) != 1 || all[0].Proofs[0].Kind != "drill" || !all[0].Good() {
			t.Errorf("want a good drill, got %+v", all[0].Proofs)
		}
		d.set(func(ctx context.Context) (snapshot.Drill, error) {
			<-ctx.Done()
			return snapshot.Drill{}, context.Cause(ctx)
		})
		d.after(t, 24*time.Hour+40*time.Minute, 2)
		if got := b.Status().Drill.Last; !strings.Contains(got.Error, "had not ended after") {
			t.Errorf("a slow drill: got %+v", got)
		}
		for _, b := range backups(t, b.store.Store) {
			if b.Failed != nil {
				t.Errorf("a slow drill speaks against %s", b.Name)
			}
		}
		d.set(func(context.Context) (snapshot.Drill, error) { return snapshot.Drill{Error: "rotten"}, nil })
		d.after(t, time.Hour, 3)
		name := b.Status().Drill.Last.Name
		for _, b := range backups(t, b.store.Store) {
			if bad := b.Failed != nil; bad != (b.Name == name) {
				t.Errorf("after a bad drill of %s: %s is bad: %t", name, b.Name, bad)
			}
		}
	}, seldom)
}

// TestWatchIsCheap checks that nothing unchanged is read again.
func TestWatchIsCheap(t *testing.T) {
	root := t.TempDir()
	store := &observed{Store: snapshot.NewDir(root)}
	for i := range 10 {
		forge(t, store, forged(midday.Add(time.Duration(i)*time.Hour), "data"), "data")
	}
	written(t, root, midday)
	put(t, store, "holdfast/prod/drill.json", "{}")
	watch := snapshot.Watch(store, ours)
	gets := func() (n int) {
		store.mu.Lock()
		store.log = nil
		store.mu.Unlock()
		all, err := watch(t.Context())
		if must(t, err); len(all) != 10 {
			t.Fatalf("want 10 backups, got %d", len(all))
		}
		for _, l := range store.log {
			if strings.HasPrefix(l, "get ") && l != "get "+newestMark {
				n++
			}
		}
		return n
	}
	name := snapshot.FormatName(midday)
	if first, second := gets(), gets(); first != 10 || second != 0 {
		t.Errorf("want 10 sidecars read once, got %d, then %d", first, second)
	}
	proven(t, root, name, "verify", "rotten", midday.Add(time.Hour))
	if n := gets(); n != 2 {
		t.Errorf("want that of one that changed sidecar and proof are read, got %d", n)
	}
	// An object that is younger than the resolution of the store's clock may change unnoticed, so it is read again.
	proven(t, root, name, "verify", "", time.Now())
	if first, second := gets(), gets(); first != 2 || second != 2 {
		t.Errorf("want that what was just written is read each time, got %d, then %d", first, second)
	}
	must(t, snapshot.Delete(t.Context(), snapshot.NewDir(root), name))
	forge(t, store, forged(midday, "other"), "other")
	written(t, filepath.Join(root, name), midday)
	if n := gets(); n != 1 {
		t.Errorf("want that another one of the same name is read, got %d", n)
	}
}
