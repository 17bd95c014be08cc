package authorities

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/generations"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/s3"
	"holdfast/snapshot/snapshottest/gateway"
)

// The authorities in a store are neither backups nor records, and operations on those leave them alone.
func TestAuthoritiesBesideTheRest(t *testing.T) {
	s := newSite(t)
	record := func() (string, string) {
		r := generations.New(s.store, "main", nil)
		known, err := r.Known(t.Context())
		s.must(err)
		id, err := generations.Identity(t.Context(), s.store, "main")
		s.must(err)
		return known.Record.ID, id.Lineage
	}
	r := generations.New(s.store, "main", nil)
	founding := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, PeerURL: "https://{slot}.x:2380", Seats: []plan.Seat{{Slot: "a", Disk: "d"}}})
	s.must(r.Put(t.Context(), founding))
	id, lineage := record()
	a := s.node(t.TempDir())
	want := s.peers(a)
	s.rotated(a)
	want2 := s.peers(a)
	if i, l := record(); i != id || l != lineage {
		t.Errorf("the records say %s, %s; before: %s, %s", i, l, id, lineage)
	}
	whose := snapshot.Identity{Cluster: "main"}
	if list, err := snapshot.List(t.Context(), s.store, whose); err != nil || len(list) > 0 {
		t.Errorf("they are listed as backups: %+v, %v", list, err)
	}
	if p, err := snapshot.Prune(t.Context(), s.store, whose, snapshot.Default().Keep, time.Now().Add(10*365*24*time.Hour), false); err != nil {
		t.Errorf("prune: %+v, %v", p, err)
	}
	for _, name := range []string{"holdfast", "holdfast/main", "pki-000001.json", "holdfast/main/pki-000001.json"} {
		_ = snapshot.Delete(t.Context(), s.store, name) // it refuses, or finds nothing
	}
	s.must(r.MoveAside(t.Context(), &founding)) // the cluster is given up, and another one of its name founded
	for serial := 1; serial <= 4; serial++ {
		if _, err := os.Stat(s.object(serial)); err != nil {
			t.Errorf("edition %d: %v", serial, err)
		}
	}
	if got := s.peers(s.node(t.TempDir())); got != want2 || got == want {
		t.Errorf("a node of the new cluster: got %s, want %s", got, want2)
	}
}

// A bucket works like a directory.
func TestAuthoritiesInABucket(t *testing.T) {
	g := gateway.Start(t, t.TempDir())
	for _, env := range gateway.Env() {
		name, value, _ := strings.Cut(env, "=")
		t.Setenv(name, value)
	}
	g.Bucket("authorities")
	cfg := s3.Default()
	cfg.Endpoint, cfg.Region, cfg.PathStyle = g.URL, gateway.Region, true
	store, err := s3.New(t.Context(), "s3://authorities/etcd/main", cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.store = store
	dir := filepath.Join(t.TempDir(), "tls")
	a := s.node(dir)
	first := s.peers(a)
	s.rotated(a)
	if got := s.peers(s.node(t.TempDir())); got == first || got != s.peers(a) {
		t.Errorf("another node: %s", got)
	}
	for serial := 1; serial <= 4; serial++ {
		if err := store.Delete(t.Context(), a.object(uint64(serial))); err != nil {
			t.Fatal(err)
		}
	}
	if s.peers(a); !strings.Contains(problem(a), "has put it back") {
		t.Errorf("emptied: %q", problem(a))
	}
	if got := s.peers(s.node(t.TempDir())); got != s.peers(a) {
		t.Errorf("after that: %s", got)
	}
}
