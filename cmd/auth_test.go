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

// What is not as the file says is an error for a program that runs `auth apply`.
func TestAuthApplyWithAProblem(t *testing.T) {
	for _, c := range []struct {
		report string
		bad    bool
	}{
		{`{"enabled": false, "steps": [], "problems": ["the password of user root is not known"]}`, true},
		{`{"enabled": true, "steps": []}`, false},
	} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		must(t, err)
		mux := http.NewServeMux()
		mux.HandleFunc("/auth", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.report) })
		node := &http.Server{Handler: mux}
		go node.Serve(l)
		defer node.Close()
		for _, args := range []string{"--yes", "--yes -o json", "", "-o json"} {
			out, err := execute(append(strings.Fields("auth apply "+args), "--control.socket", socket)...)
			if errors.Is(err, exitCode(1)) != c.bad || !c.bad && err != nil || out == "" ||
				strings.Contains(out, "user root") != c.bad {
				t.Errorf("%q, %s: got %v, %q", args, c.report, err, out)
			}
		}
	}
}
