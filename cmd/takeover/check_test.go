package takeover

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/zap"

	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
)

// ran is the data directory of a member, alone in its cluster, that ran and was stopped.
func ran(t *testing.T, dir string) string {
	t.Helper()
	peer := fmt.Sprintf("http://127.%d.%d.%d:2380", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	cfg := embedded.Config{Config: settings.Default().Resolve("127.0.0.1")}
	cfg.ListenPeerURLs, cfg.ListenClientURLs = []string{peer}, []string{"http://127.0.0.1:0"}
	m := embedded.New(cfg, zap.NewNop(), nil)
	t.Cleanup(m.Kill)
	if err := m.Start(t.Context(), plan.Spec{Slot: "a", DataDir: dir, Token: "main@1", PeerURL: peer,
		Peers: map[string]string{"a": peer}}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); m.Status().StorageVersion == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no storage version within a minute")
		}
	}
	if err := m.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

// set puts a key into the database of a directory.
func set(t *testing.T, dir, bucket, key, value string) {
	t.Helper()
	db, err := bbolt.Open(embedded.DatabasePath(dir), 0o600, &bbolt.Options{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// found sums up the findings.
func found(r Report) string {
	var b strings.Builder
	for _, m := range r.Members {
		for _, f := range m.Findings {
			fmt.Fprintf(&b, "%t %s; %s\n", f.Blocks, f.Text, f.Cure)
		}
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	dir := ran(t, filepath.Join(t.TempDir(), "etcd"))
	clean := Check([]string{dir})
	if got := found(clean); got != "" || clean.Obstacles != 0 || len(clean.Members[0].Lists.V3) != 1 {
		t.Errorf("clean: got %+v\n%s", clean, got)
	}
	volume := filepath.Join(t.TempDir(), "[a]") // as etcd-manager has it
	inside := filepath.Join(volume, "data", "token")
	if err := os.MkdirAll(filepath.Dir(inside), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(inside, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if r := Check([]string{volume}); r.Obstacles != 1 || !strings.Contains(found(r), "state is missing") {
		t.Errorf("volume of etcd-manager, without its state: got %+v", r)
	}
	state := embedded.ManagerState{Version: "3.6.12", Token: "token",
		Nodes: []embedded.ManagerNode{{Name: "etcd-a", PeerURLs: []string{"http://etcd-a:2380"}}}}
	if err := state.Write(volume); err != nil {
		t.Fatal(err)
	}
	if r := Check([]string{volume}); r.Obstacles != 0 || r.Members[0].Dir != inside {
		t.Errorf("volume of etcd-manager: got %+v", r)
	}
	for want, dirs := range map[string][]string{
		"it is of the same member as " + dir: {dir, volume},
		"it is of cluster ":                  {dir, ran(t, filepath.Join(t.TempDir(), "other"))},
		"it is not a data directory of etcd": {t.TempDir()},
	} {
		if r := Check(dirs); r.Obstacles != 1 || !strings.Contains(found(r), want) {
			t.Errorf("want one obstacle, %q; got %d:\n%s", want, r.Obstacles, found(r))
		}
	}
	if err := os.MkdirAll(filepath.Join(volume, "data", "old", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := Check([]string{volume}); r.Obstacles != 0 || r.Members[0].Dir != inside {
		t.Errorf("two data directories, of which the state names one: got\n%s", found(r))
	}
	state.Token = "old"
	if err := state.Write(volume); err != nil {
		t.Fatal(err)
	}
	if r := Check([]string{volume}); r.Obstacles != 1 || !strings.Contains(found(r), "wal is missing") {
		t.Errorf("two data directories, of which the state names the empty one: got\n%s", found(r))
	}
}

// A member that only the database has is in the way; so are two databases that disagree, and the directory of the one
// that was not named is asked for. A cluster of etcd 3.5 is in the way, too.
func TestCheckPhantom(t *testing.T) {
	dir := ran(t, filepath.Join(t.TempDir(), "etcd"))
	set(t, dir, "members", "00000000000000ff", `{"id":255,"peerURLs":["http://10.0.0.9:2380"],"name":"gone"}`)
	r := Check([]string{dir})
	for _, want := range []string{"true member ff (gone)", phantoms, "false the directory of member ff (gone) was not examined"} {
		if !strings.Contains(found(r), want) {
			t.Errorf("want %q, got\n%s", want, found(r))
		}
	}
	if r.Obstacles != 1 || len(r.Members[0].Findings[0].Means) != 2 {
		t.Errorf("got %d obstacles: %+v", r.Obstacles, r.Members[0].Findings)
	}

	old := ran(t, filepath.Join(t.TempDir(), "old"))
	set(t, old, "cluster", "clusterVersion", "3.5.0")
	if r := Check([]string{old}); r.Obstacles != 1 || !strings.Contains(found(r), "true the cluster's version is 3.5.0") {
		t.Errorf("a cluster of etcd 3.5: got %d obstacles:\n%s", r.Obstacles, found(r))
	}

	list := []embedded.ListedMember{{ID: 1}, {ID: 2}}
	all := []Member{
		{Dir: "a", Lists: &embedded.Memberships{Member: 1, V3: list}},
		{Dir: "b", Lists: &embedded.Memberships{Member: 2, V3: list[:1]}},
	}
	compare(all)
	if got := found(Report{Members: all}); !strings.HasPrefix(got, "true its database lists other members than that in a") {
		t.Errorf("two databases: got\n%s", got)
	}
	all[1].Findings, all[1].Lists.Applied.Index = nil, 7
	if got := found(Report{Members: all}); got != "" {
		t.Fatalf("got\n%s", got)
	}
	compare(all)
	if got := found(Report{Members: all}); !strings.HasPrefix(got, "true its database lists other") ||
		!strings.Contains(got, "may only be behind") {
		t.Errorf("two databases, one behind: got\n%s", got)
	}
}
