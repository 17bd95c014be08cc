package cmd

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test be the child that examines and drills its backups, and the program that scripts run.
func TestMain(m *testing.M) {
	if isChild(os.Args[1:]) {
		os.Exit(Execute())
	}
	execute := func() { os.Exit(Execute()) }
	testscript.Main(m, map[string]func(){"holdfast": execute, "etcd-manager": execute, "go-runner": execute})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
