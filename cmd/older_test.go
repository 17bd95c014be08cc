package cmd

import (
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A node of another version may know other verdicts, which are no health, and lack a command.
func TestNodeOfAnotherVersion(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"health": "resting", "nodes": []}`)
	})
	node := &http.Server{Handler: mux}
	go node.Serve(l)
	defer node.Close()
	run := func(args ...string) error {
		root := newRoot()
		root.SetArgs(append(args, "--control.socket", socket))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		return root.ExecuteContext(t.Context())
	}
	if err := run("status"); !errors.Is(err, exitCode(2)) {
		t.Errorf("an unknown verdict: got %v", err)
	}
	if err := run("pause"); err == nil || !strings.Contains(err.Error(), "its version does not know this command") {
		t.Errorf("an unknown command: got %v", err)
	}
}
