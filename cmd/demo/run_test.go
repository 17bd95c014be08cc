package demo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDemoRuns lives through a whole demo without a terminal: start, a killed node, Ctrl-C, resume.
func TestDemoRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	exe := filepath.Join(t.TempDir(), "holdfast")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", exe, "holdfast/cmd/holdfast")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	root, err := os.MkdirTemp("", "demo") // short, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	dir := filepath.Join(root, "d")
	base := fmt.Sprintf("127.77.%d.1", os.Getpid()%250+1)

	first := startDemo(t, exe, "--dir", dir, "--address-base", base)
	first.wait("cluster is healthy after")
	kill := first.wait(`kill -9 (\d+)   # (n\d), the leader`)
	etcdctl(t, exe, base, "put", "hello", "world")
	pid, _ := strconv.Atoi(kill[1])
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.wait(kill[2] + ` died \(signal: killed\), starting it again`)
	first.wait(kill[2] + ` was started again as process \d+`)
	first.wait("cluster demo: HEALTHY")
	first.interrupt()
	noneLeft(t, dir)

	second := startDemo(t, exe, "--dir", dir)
	second.wait("cluster is healthy after")
	if got := etcdctl(t, exe, base, "get", "--print-value-only", "hello"); got != "world" {
		t.Errorf("after the resume: got %q, want world", got)
	}
	second.interrupt()
	noneLeft(t, dir)
}

// demoProcess is a demo whose lines are read as they come.
type demoProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
}

func startDemo(t *testing.T, exe string, args ...string) *demoProcess {
	p := &demoProcess{t: t, cmd: exec.Command(exe, append([]string{"demo"}, args...)...), lines: make(chan string, 10_000)}
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(p.cmd.Process.Kill(), w.Close()) }) // it has ended, if all went well
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	return p
}

// wait returns the match of the first line from now on that has one.
func (p *demoProcess) wait(pattern string) []string {
	p.t.Helper()
	re, late := regexp.MustCompile(pattern), time.After(time.Minute)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the demo ended before %q", pattern)
			}
			p.t.Log(l)
			if m := re.FindStringSubmatch(l); m != nil {
				return m
			}
		case <-late:
			p.t.Fatalf("no line like %q within a minute", pattern)
		}
	}
}

// interrupt is Ctrl-C. The exit code must be 0.
func (p *demoProcess) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
	p.wait("stopped; the data is kept")
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("Ctrl-C: got %v, want exit code 0", err)
	}
}

func etcdctl(t *testing.T, exe, address string, args ...string) string {
	t.Helper()
	out, err := exec.Command(exe, append([]string{"etcdctl", "--endpoints", "http://" + address + ":2379"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("etcdctl %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// noneLeft checks that no process was started with a file of dir.
func noneLeft(t *testing.T, dir string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Skip("no /proc to look for processes in")
	}
	for _, path := range lines {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), dir+"/") {
			t.Errorf("still there: %q", text)
		}
	}
}
