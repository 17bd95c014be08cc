package cmd

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// The command line as people and scripts type it, in processes of its own: testdata/script/*.txtar.
func TestScripts(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	// save STORE LINEAGE VAR: a backup of the cluster main is in the store; VAR is its name.
	save := func(ts *testscript.TestScript, _ bool, args []string) {
		if len(args) != 3 {
			ts.Fatalf("usage: save store lineage VAR")
		}
		m, err := snapshot.Save(t.Context(), snapshot.NewDir(ts.MkAbs(args[0])), db.Begin(),
			snapshot.Meta{Cluster: "main", Lineage: args[1], Node: "n1"}, snapshot.Options{})
		ts.Check(err)
		ts.Setenv(args[2], m.Name)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOLDFAST_NODE_NAME", "n1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "save": save, "flip": flip},
	})
}

// code N holdfast ARGS...: the command ends with this exit code.
func code(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: code N command args...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		got = failed.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// flip FILE: a bit in its middle is another one.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	data[len(data)/2] ^= 1
	ts.Check(os.WriteFile(path, data, 0o600))
}
