package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// atStore is a machine that runs no node and reaches a store.
type atStore struct {
	t   *testing.T
	dir string // of the store
	db  *snapshottest.DB
	ctx context.Context
}

func newAtStore(t *testing.T) *atStore {
	t.Helper()
	t.Chdir(t.TempDir()) // where the default directories would be
	t.Setenv("HOLDFAST_NODE_NAME", "n1")
	t.Setenv("HOLDFAST_CONFIG", "")
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	return &atStore{t, t.TempDir(), db, t.Context()}
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
	c := newRoot()
	var b, e bytes.Buffer
	c.SetOut(&b)
	c.SetErr(&e)
	c.SetArgs(append(append([]string{"snapshot"}, args...), "--snapshot.store", a.dir, "--cluster.name", "main"))
	err = c.ExecuteContext(a.ctx)
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

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, data, 0o600))
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
		if _, err := a.run(append(args, "-o", "xml")...); err == nil || !strings.Contains(err.Error(), `"-o, --output" flag: must be table or json`) {
			t.Errorf("%q -o xml: got %v", args, err)
		}
	}
}

// A dry run answers with the keys of the command itself.
func TestDryRunsInJSON(t *testing.T) {
	a := newAtStore(t)
	name, to := a.save("ours"), t.TempDir()
	where := `"where":["` + show.InDirectory + `"]`
	for want, args := range map[string][]string{
		`{"deleted":["NAME"],"dry_run":true}`:              {"delete", "--force", name},
		`{"copied":["NAME"],"dry_run":true,"to":"STORE"}`:  {"copy", name, "--to", to},
		`{"dry_run":true,"pinned":"NAME",` + where + `}`:   {"pin", "latest"},
		`{"dry_run":true,"unpinned":"NAME",` + where + `}`: {"unpin", name},
	} {
		want = strings.NewReplacer("NAME", name, "STORE", to).Replace(want)
		out, err := a.run(append(args, "--dry-run", "-o", "json")...)
		var got bytes.Buffer
		if err != nil || json.Compact(&got, []byte(out)) != nil || got.String() != want {
			t.Errorf("%q: got %s, %v, want %s", args, out, err, want)
		}
	}
	a.says([]string{"copy", name, "--to", to}, "copied")
	a.says([]string{"copy", name, "--to", to, "--dry-run", "-o", "json"}, `"copied": []`)
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

// A command on a store that hangs ends at the first signal, and says which store that was.
func TestCommandsOnAStoreThatHangs(t *testing.T) {
	a := newAtStore(t)
	a.dir = filepath.Join(a.dir, "pipe") // to open it hangs until somebody writes
	must(t, syscall.Mkfifo(a.dir, 0o600))
	for _, args := range [][]string{{"list"}, {"verify"}, {"drill"}, {"prune"}, {"pin", "x", "--why", "y"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		a.ctx = ctx
		if _, err := a.run(args...); err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), a.dir) {
			t.Errorf("%v: got %v", args, err)
		}
		cancel()
		f, err := os.OpenFile(a.dir, os.O_WRONLY|syscall.O_NONBLOCK, 0) // lets go who was left behind
		if err == nil {
			f.Close()
		}
	}
}
