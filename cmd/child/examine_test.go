package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/embedded"
	"holdfast/snapshot"
)

// toldEnd is the variable that tells a child of the tests below how to end, as a crafted database or its machine might
// end it.
const toldEnd = "TEST_CHILD_ENDS_BY"

var toldEnds = map[string]func(){
	"panic":  func() { go panic("page 7: crafted"); select {} },
	"memory": hoard,
	"fault":  func() { _ = unix.Kill(os.Getpid(), syscall.SIGSEGV); select {} },
	"killed": func() { _ = unix.Kill(os.Getpid(), syscall.SIGKILL); select {} },
	"hangs":  func() { time.Sleep(time.Hour) }, // it is killed
	"disk":   func() { fmt.Fprintln(os.Stderr, "write wal:", syscall.EIO); os.Exit(1) },
	"says":   func() { fmt.Fprintln(os.Stderr, "rotten"); os.Exit(1) },
}

// hoard allocates what a child must not have.
func hoard() {
	if err := confine(); err != nil {
		os.Exit(1)
	}
	for b := [][]byte{}; len(b) < 4*examineMemory>>20; { // an end, should the bound not hold
		b = append(b, make([]byte, 1<<20))
	}
}

// endAsTold is for TestMain.
func endAsTold() {
	if end := toldEnds[os.Getenv(toldEnd)]; end != nil {
		end()
	}
}

// Whatever a database does to its reader, it is an error here: one that speaks against the database, or one that does
// not.
func TestExamineApart(t *testing.T) {
	dir, want := drillData(t)
	path := embedded.DatabasePath(dir)
	info, err := os.Stat(path)
	must(t, err)
	open := func(t *testing.T, path string) *os.File {
		f, err := os.Open(path)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	got, err := Examine(t.Context(), open(t, path), info.Size())
	if want.HashKV = got.HashKV; err != nil || got != want {
		t.Errorf("a sound one: want %+v, got %+v, %v", want, got, err)
	}
	wrong := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(wrong, make([]byte, 1<<16), 0o600))
	if _, err := Examine(t.Context(), open(t, wrong), 1<<16); err == nil || errors.Is(err, snapshot.ErrNotExamined) || !strings.Contains(err.Error(), "invalid database") {
		t.Errorf("none: want that it is invalid, got %v", err)
	}
	for how, test := range map[string]struct {
		want  string
		known bool // it speaks against the database
	}{
		"panic":  {"page 7: crafted", true},
		"memory": {"out of memory", true},
		"fault":  {"", true},
		"killed": {"signal: killed", false},
		"hangs":  {"deadline exceeded", false},
	} {
		t.Run(how, func(t *testing.T) {
			if how == "memory" && testing.Short() {
				t.Skip("the short tests run under the race detector, too, which has its own way to end without memory")
			}
			t.Setenv(toldEnd, how)
			ctx := t.Context()
			if how == "hangs" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
			}
			_, err := Examine(ctx, open(t, path), info.Size())
			if err == nil || errors.Is(err, snapshot.ErrNotExamined) == test.known || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %q that speaks against the database: %t, got %v", test.want, test.known, err)
			}
		})
	}
}

// A program whose file was replaced is still its own child.
func TestReplacedProgram(t *testing.T) {
	const copied = "TEST_CHILD_OF_A_COPY"
	if os.Getenv(copied) == "" {
		text, err := os.ReadFile(os.Args[0])
		must(t, err)
		exe := filepath.Join(t.TempDir(), "program")
		must(t, os.WriteFile(exe, text, 0o700))
		cmd := exec.CommandContext(t.Context(), exe, "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), copied+"="+exe)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux keeps the program that runs")
	}
	exe := os.Getenv(copied)
	err := os.Remove(exe)
	if err == nil {
		err = os.WriteFile(exe, []byte("#!/bin/sh\nexit 3\n"), 0o700)
	}
	must(t, err)
	dir, want := drillData(t)
	f, err := os.Open(embedded.DatabasePath(dir))
	must(t, err)
	defer f.Close()
	info, err := f.Stat()
	must(t, err)
	got, err := Examine(t.Context(), f, info.Size())
	if want.HashKV = got.HashKV; err != nil || got != want {
		t.Errorf("want %+v, got %+v, %v", want, got, err)
	}
}
