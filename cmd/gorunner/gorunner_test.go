package gorunner

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test be the program, which signals are sent to.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "go-runner" {
		os.Exit(Run(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Both outputs are in the file, which is appended to, and printed where that is asked for.
func TestOutputs(t *testing.T) {
	const script = "echo out; echo err >&2; exit 7"
	for name, c := range map[string]struct {
		flags             []string
		log, stdout, errs string
	}{
		"nothing said":    {nil, "", "out\nerr\n", ""},
		"a file":          {[]string{"--log-file=FILE"}, "old\nout\nerr\n", "", ""},
		"a file and both": {[]string{"-log-file", "FILE", "--also-stdout"}, "old\nout\nerr\n", "out\nerr\n", ""},
		"errors apart":    {[]string{"--log-file=FILE", "--also-stdout", "--redirect-stderr=false"}, "old\nout\n", "out\n", "err\n"},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if c.log != "" {
			if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var args []string
		for _, f := range c.flags {
			args = append(args, strings.ReplaceAll(f, "FILE", file))
		}
		var stdout, stderr bytes.Buffer
		if got := Run(append(args, "sh", "-c", script), &stdout, &stderr); got != 7 {
			t.Errorf("%s: exit code %d, want 7", name, got)
		}
		log, err := os.ReadFile(file)
		if c.log != "" && err != nil {
			t.Error(err)
		}
		if string(log) != c.log || stdout.String() != c.stdout || stderr.String() != c.errs {
			t.Errorf("%s: file %q, printed %q and %q", name, log, stdout.String(), stderr.String())
		}
	}
}

// What cannot be run has a code of its own, and the flags of the command are the command's.
func TestCodes(t *testing.T) {
	notExecutable := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[int][]string{
		0:   {"--also-stdout", "sh", "-c", "exit 0", "--also-stdin"},
		64:  {"--log-fil=x", "true"},
		127: {"no-such-program-here"},
		126: {notExecutable},
		143: {"sh", "-c", "kill -TERM $$"},
	} {
		if got := Run(args, &bytes.Buffer{}, &bytes.Buffer{}); got != want {
			t.Errorf("%q: got %d, want %d", args, got, want)
		}
	}
	if got := Run([]string{"--log-file=" + t.TempDir(), "true"}, &bytes.Buffer{}, &bytes.Buffer{}); got != exitStart {
		t.Errorf("a log file that is a directory: got %d", got)
	}
	if got := Run(nil, &bytes.Buffer{}, &bytes.Buffer{}); got != exitUsage {
		t.Errorf("no command: got %d", got)
	}
}

// A signal is the command's to answer.
func TestSignals(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "go-runner", "sh", "-c", `trap 'exit 42' TERM; echo ready; while :; do sleep 0.01; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // the trap is set
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	exit, _ := errors.AsType[*exec.ExitError](cmd.Wait())
	if exit == nil || exit.ExitCode() != 42 {
		t.Errorf("got %v, want exit code 42", exit)
	}
}

// A file that cannot be written to is no reason to lose what the command prints, nor the command.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	var stdout bytes.Buffer
	if got := Run([]string{"--log-file=/dev/full", "--also-stdout", "echo", "x"}, &stdout, &bytes.Buffer{}); got != 0 || stdout.String() != "x\n" {
		t.Errorf("got %d, printed %q", got, stdout.String())
	}
}
