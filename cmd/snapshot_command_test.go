package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// atStore is a machine that runs no node and reaches a store.
type atStore struct {
	t   *testing.T
	dir string // of the store
	db  *snapshottest.DB
}

func newAtStore(t *testing.T) *atStore {
	t.Helper()
	t.Chdir(t.TempDir()) // where the default directories would be
	t.Setenv("HOLDFAST_NODE_NAME", "n1")
	t.Setenv("HOLDFAST_CONFIG", "")
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	return &atStore{t, t.TempDir(), db}
}

// save saves a backup of cluster main and returns its name.
func (a *atStore) save(lineage string) string {
	a.t.Helper()
	m, err := snapshot.Save(a.t.Context(), snapshot.NewDir(a.dir), a.db.Begin(), snapshot.Meta{Cluster: "main", Lineage: lineage, Node: "n1"}, snapshot.Options{})
	if err != nil {
		a.t.Fatal(err)
	}
	return m.Name
}

// run runs `holdfast snapshot args...`.
func (a *atStore) run(args ...string) (out string, err error) {
	a.t.Helper()
	out, _, err = a.runBoth(args...)
	return out, err
}

// runBoth is run with what goes to standard error.
func (a *atStore) runBoth(args ...string) (out, said string, err error) {
	a.t.Helper()
	c := newSnapshotCommand()
	c.SilenceUsage, c.SilenceErrors = true, true
	var b, e bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&e)
	c.SetArgs(append(args, "--snapshot.store", a.dir, "--cluster.name", "main"))
	err = c.ExecuteContext(a.t.Context())
	return b.String(), e.String(), err
}

// says runs a command that must succeed and say all of texts.
func (a *atStore) says(args []string, texts ...string) {
	a.t.Helper()
	out, err := a.run(args...)
	if err != nil {
		a.t.Errorf("%q: %v", args, err)
	}
	for _, text := range texts {
		if !strings.Contains(out, text) {
			a.t.Errorf("%q: got %q, want %q in it", args, out, text)
		}
	}
}

// fails runs a command that must fail with text.
func (a *atStore) fails(args []string, text string) {
	a.t.Helper()
	if out, err := a.run(args...); err == nil || !strings.Contains(err.Error(), text) {
		a.t.Errorf("%q: got %q, %v, want %q", args, out, err, text)
	}
}

// The life of backups on a machine that only reaches the store.
func TestSnapshotCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	a := newAtStore(t)
	a.says([]string{"list"}, "no backups of cluster main in "+a.dir)
	a.fails([]string{"verify"}, "nothing was verified")
	a.fails([]string{"drill"}, "no backup of cluster main")
	foreign := a.save("another")
	first, second, third := a.save("ours"), a.save("ours"), a.save("ours")
	a.says([]string{"list"}, first, third, "foreign: main")
	a.says([]string{"verify"}, first+"  good: revision 2, 1 records", third+"  good")
	if out, _ := a.run("verify"); strings.Contains(out, foreign) {
		t.Errorf("verify of all looks at another cluster's: %s", out)
	}

	a.says([]string{"pin", first, "--why", "before the upgrade"}, "pinned "+first+" (dir)")
	a.says([]string{"list"}, "before the upgrade")
	a.fails([]string{"delete", first}, "is pinned (before the upgrade)")
	a.fails([]string{"delete", third}, "is the newest verified backup")
	a.fails([]string{"delete", foreign}, "another cluster's")
	a.fails([]string{"delete", second, "2026-01-01T00:00:00Z-000000"}, "there is no backup 2026-01-01T00:00:00Z-000000")
	a.says([]string{"verify", second}, "good") // nothing was deleted

	keep := []string{"--snapshot.keep.all", "0s", "--snapshot.keep.hourly", "0s", "--snapshot.keep.daily", "0s", "--snapshot.keep.newest", "1"}
	a.says(append(keep, "prune", "--dry-run"), second, "1 backup would be removed")
	a.says(append(keep, "prune"), second, "1 backup removed")
	a.says(append(keep, "prune"), "0 backups removed")
	a.fails([]string{"verify", second}, "1 of 1 backups")
	a.says([]string{"unpin", first}, "unpinned "+first)
	a.says([]string{"delete", first}, "deleted "+first)

	other := t.TempDir()
	a.fails([]string{"copy", "latest"}, "--to STORE or --from STORE")
	a.says([]string{"copy", "latest", "--to", other}, "copied "+third+" to "+other)
	a.says([]string{"delete", "--force", third}, "deleted "+third)
	a.says([]string{"copy", third, "--from", other}, "copied "+third+" to "+a.dir)
	a.says([]string{"verify", "latest"}, third+"  good")
	a.fails([]string{"save", "--cacert", "x"}, "--cacert is for --endpoints")

	// A save that is under way is no damage, a byte that changed is.
	a.fails([]string{"verify", "x"}, "1 of 1 backups")
	half := filepath.Join(a.dir, "2026-07-01T00:00:00Z-000000")
	write(t, filepath.Join(half, "holdfast.begin.json"), []byte(`{"version":1,"cluster":"main","lineage":"ours","since":"2026-07-01T00:00:00Z"}`))
	a.says([]string{"verify"}, third+"  good")
	a.says([]string{"list"}, "incomplete: no sidecar")
	data := filepath.Join(a.dir, third, "etcd.backup.zst")
	bytes, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	bytes[len(bytes)/2] ^= 1
	write(t, data, bytes)
	a.fails([]string{"verify"}, "1 of 1 backups in "+a.dir+" are bad")
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each command answers programs with JSON alone.
func TestSnapshotCommandsInJSON(t *testing.T) {
	a := newAtStore(t)
	name := a.save("ours")
	for _, args := range [][]string{
		{"list"}, {"verify"}, {"prune", "--dry-run"}, {"pin", name}, {"unpin", "latest"}, {"copy", name, "--to", t.TempDir()}, {"delete", "--force", name}, {"list"},
	} {
		out, err := a.run(append(args, "-o", "json")...)
		if err != nil || !json.Valid([]byte(out)) {
			t.Errorf("%q: got %q, %v", args, out, err)
		}
		if _, err := a.run(append(args, "-o", "xml")...); err == nil || !strings.Contains(err.Error(), "--output: must be table or json") {
			t.Errorf("%q -o xml: got %v", args, err)
		}
	}
}

// A place that cannot be read is an error, and what the other one has is shown.
func TestListWithoutTheStore(t *testing.T) {
	a := newAtStore(t)
	name := a.save("ours")
	spool := a.dir
	a.dir = filepath.Join(t.TempDir(), "unmounted")
	out, err := a.run("list", "--snapshot.spool", spool)
	if err == nil || !strings.Contains(err.Error(), a.dir) || !strings.Contains(out, name) {
		t.Errorf("got %q, %v, want %s and an error that names %s", out, err, name, a.dir)
	}
	if out, err := a.run("list"); err == nil || out != "" {
		t.Errorf("without a spool: got %q, %v, want an error alone", out, err)
	}
}
