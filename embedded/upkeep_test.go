package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/embedded/plan"
	"holdfast/invalid"
)

// alarms returns the alarms that a member knows of, as "NOSPACE of 1f".
func (n *node) alarms() []string {
	var all []string
	for _, a := range n.Status().Alarms {
		all = append(all, fmt.Sprintf("%s of %s", a.Name, a.Member))
	}
	return all
}

// A compaction, a defragmentation and disarming the alarm cure a database that is full of history.
func TestCure(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a database")
	}
	n := newNode(t, "a")
	n.cfg.QuotaBackendBytes = 8 << 20
	n.run(t).awaitReady(t)
	c := n.client(t)
	value := strings.Repeat("x", 256<<10)
	var err error
	for err == nil {
		_, err = c.Put(t.Context(), "k", value)
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatal(err)
	}
	await(t, "the alarm", func() bool { return len(n.alarms()) == 1 })
	if err := n.PutKey(t.Context(), "lock", []byte("x"), 0); err == nil {
		t.Error("a key could be written although NOSPACE is up: the lock could be taken")
	}
	before := n.Status()
	if before.Compacted != 0 {
		t.Errorf("compacted at %d, want 0", before.Compacted)
	}
	for range 2 { // again is no error
		if err := n.Compact(t.Context(), before.Revision); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.Status().Compacted; got != before.Revision {
		t.Errorf("compacted at %d, want %d", got, before.Revision)
	}
	await(t, "what was compacted shows as free, although nothing is written any more", func() bool {
		return n.Status().Space.InUse < before.Space.InUse/4
	})
	if err := n.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := n.Status()
	if after.Space.Size > before.Space.Size/4 {
		t.Errorf("size went from %d to %d only", before.Space.Size, after.Space.Size)
	}
	if err := n.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := n.alarms(); len(got) != 0 {
		t.Errorf("alarms after all: %v", got)
	}
	put(t, c, "k", value)
}

// A mark is among the alarms until it is cleared, and the member's own alarm stays.
func TestMarks(t *testing.T) {
	n := newNode(t, "a")
	n.run(t).awaitReady(t)
	if err := n.Mark(t.Context(), 0x77); err == nil {
		t.Error("a mark where puts are taken")
	}
	if err := errors.Join(n.Raise(t.Context(), plan.NoSpace), n.Mark(t.Context(), 0x77)); err != nil {
		t.Fatal(err)
	}
	own := n.alarms()
	if len(own) != 2 || !slices.Contains(own, "NOSPACE of 77") {
		t.Errorf("with the mark: %v", own)
	}
	for range 2 { // again is no error
		if err := n.Unmark(t.Context(), 0x77); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.alarms(); len(got) != 1 || got[0] == "NOSPACE of 77" {
		t.Errorf("once it is taken back: %v", got)
	}
}

// The hashes that compactions compute detect a member whose data differs, and CORRUPT names it. Disarm leaves CORRUPT
// alone.
func TestCompactHashCheck(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster and one member of it again")
	}
	nodes := found(t, "a", "b", "c")
	c := nodes[0].client(t)
	for range 10 {
		put(t, c, "k", "an honest value")
	}
	bad := nodes[2]
	id := bad.Status().ID
	await(t, "all is applied", func() bool { return bad.Status().Revision == nodes[0].Status().Revision })
	stop(t, bad, 0)
	spoil(t, filepath.Join(bad.spec.DataDir, "member", "snap", "db"))
	bad.run(t).awaitReady(t)
	if err := nodes[0].Compact(t.Context(), put(t, c, "k", "last")); err != nil {
		t.Fatal(err)
	}
	// Of two members that differ, etcd cannot tell which is wrong. It raises CORRUPT of 0, and never clears it.
	await(t, "every member has a hash to compare", func() bool {
		return !slices.ContainsFunc(nodes, func(n *node) bool { return len(n.current().etcd.Server.KV().HashStorage().Hashes()) == 0 })
	})
	want := fmt.Sprintf("CORRUPT of %x", id)
	await(t, want, func() bool {
		if l := leaderOf(nodes); l != nil { // what etcd does once a minute
			l.current().etcd.Server.CorruptionChecker().CompactHashCheck()
		}
		got := nodes[0].alarms()
		if i := slices.IndexFunc(got, func(alarm string) bool { return alarm != want }); i >= 0 { // etcd never clears it
			t.Fatalf("the alarms are %v, want %s alone", got, want)
		}
		return len(got) == 1
	})
	sums := func() (sums []string) {
		for _, n := range nodes {
			s := n.Status()
			if i := slices.IndexFunc(s.Hashes, func(h plan.Hash) bool { return h.Revision == s.Revision }); i >= 0 {
				sums = append(sums, s.Hashes[i].Sum)
			}
		}
		return sums
	}
	await(t, "every member has a hash of the present revision", func() bool { return len(sums()) == 3 })
	if got := sums(); got[0] != got[1] || got[0] == got[2] {
		t.Errorf("the hashes are %q, want the last to differ", got)
	}
	stop(t, bad, 0)
	bad.run(t).awaitReady(t)
	await(t, "it makes a new one after a start", func() bool { return len(sums()) == 3 })
	if got := sums(); got[0] == got[2] {
		t.Errorf("the hashes are %q, want the last to differ", got)
	}
	if err := nodes[0].Disarm(t.Context()); err != nil {
		t.Error(err)
	}
	if got := nodes[0].alarms(); len(got) != 1 {
		t.Errorf("alarms after Disarm: %v, want %s", got, want)
	}
}

// spoil changes a byte of a value in the database of a stopped member.
func spoil(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		rev, kv := keys.Cursor().Last()
		spoilt := bytes.Replace(kv, []byte("honest"), []byte("hollow"), 1)
		if bytes.Equal(spoilt, kv) {
			return errors.New("the last entry is not ours")
		}
		return keys.Put(bytes.Clone(rev), spoilt)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// etcd's own compaction by age or by number of revisions is off by default, and can be enabled.
func TestAutoCompaction(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	n := newNode(t, "a")
	n.cfg.AutoCompactionMode, n.cfg.AutoCompactionRetention = "periodic", "1s"
	if err := invalid.Join(n.cfg.Validate); err != nil {
		t.Fatal(err)
	}
	n.run(t).awaitReady(t)
	c := n.client(t)
	first := put(t, c, "k", "first")
	await(t, "the history is compacted", func() bool {
		put(t, c, "k", "more")
		_, err := c.Get(t.Context(), "k", clientv3.WithRev(first))
		return errors.Is(err, rpctypes.ErrCompacted)
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Get(ctx, "k"); err != nil {
		t.Error(err)
	}
}

// While NOSPACE is up, requests that etcd would refuse do not get into the log, and the others are accepted.
func TestRefused(t *testing.T) {
	n := newNode(t, "a")
	n.run(t).awaitReady(t)
	c := n.client(t)
	put(t, c, "k", "v")
	if err := n.Raise(t.Context(), "NOSPACE"); err != nil {
		t.Fatal(err)
	}
	if got, want := n.alarms(), fmt.Sprintf("NOSPACE of %x", n.Status().ID); len(got) != 1 || got[0] != want {
		t.Errorf("alarms: %v, want %s", got, want)
	}
	write, read := clientv3.OpPut("k", "w"), clientv3.OpGet("k")
	never := clientv3.Compare(clientv3.Version("k"), "=", 99)
	refused := map[string]func() error{
		"put":          func() error { _, err := c.Put(t.Context(), "k", "w"); return err },
		"lease":        func() error { _, err := c.Grant(t.Context(), 60); return err },
		"transaction":  func() error { _, err := c.Txn(t.Context()).Then(read, write).Commit(); return err },
		"other branch": func() error { _, err := c.Txn(t.Context()).If(never).Then(write).Else(read).Commit(); return err },
		"nested": func() error {
			_, err := c.Txn(t.Context()).Then(clientv3.OpTxn(nil, []clientv3.Op{write}, nil)).Commit()
			return err
		},
	}
	before := n.current().etcd.Server.CommittedIndex()
	for name, write := range refused {
		for range 20 {
			if err := write(); !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatalf("%s: got %v, want %v", name, err, rpctypes.ErrNoSpace)
			}
		}
	}
	if grown := n.current().etcd.Server.CommittedIndex() - before; grown > 20 { // etcd itself writes from time to time
		t.Errorf("%d entries of the log for 100 refused writes", grown)
	}
	if r, err := c.Txn(t.Context()).Then(read, clientv3.OpDelete("k")).Commit(); err != nil || !r.Succeeded {
		t.Errorf("a transaction without a put: %v", err)
	}
	if err := n.Disarm(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, write := range refused {
		if err := write(); err != nil {
			t.Errorf("%s after the alarm: %v", name, err)
		}
	}
}
