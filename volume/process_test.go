package volume

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
)

// script says what a child process does with a volume. The child is the test binary itself.
type script struct {
	Root, Node string
	Marker     string
	Then       string // after the claim: hold, drop, set-aside or yield
	Adopt      bool   // adopt another program's etcd data
	KillAt     int    // the step at which the process kills itself; 0 for never
}

const scriptEnv = "HOLDFAST_VOLUME_SCRIPT"

func TestMain(m *testing.M) {
	text := os.Getenv(scriptEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var s script
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	if err := s.run(); err != nil {
		fmt.Println("error:", err)
	}
}

// run is what the child does. It prints "held" when it holds a volume, and "done" at its end. A holder ends when its
// standard input is closed.
func (s script) run() error {
	ctx := context.Background()
	cfg := Default().Local
	cfg.Root, cfg.Scope, cfg.Mount, cfg.TakeoverAfter = s.Root, ScopeMachine, mountIgnore, 0
	l := NewLocal(cfg, s.Node, []string{s.Marker}, zap.NewNop())
	n := 0
	l.step = func(string) {
		if n++; n == s.KillAt {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	want := wantABC
	want.Adopt = s.Adopt
	c, err := l.Claim(ctx, want)
	if err != nil {
		return err
	}
	fmt.Println("held", c.Volume().Slot)
	switch s.Then {
	case "hold":
		_, err = io.Copy(io.Discard, os.Stdin)
	case "drop":
		err = c.Release(ctx, true)
	case "set-aside":
		err = c.SetAside(ctx)
	case "yield":
		err = c.(Yielder).Yield(ctx)
	}
	if err == nil {
		fmt.Println("done")
	}
	return err
}

// command returns the child process for the script.
func (s script) command(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(s)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), scriptEnv+"="+string(text))
	return cmd
}

// holder starts a process and returns what it prints about its claim.
func holder(t *testing.T, root, node string) (*exec.Cmd, string) {
	t.Helper()
	cmd := script{Root: root, Node: node, Then: "hold"}.command(t)
	out, err := cmd.StdoutPipe()
	must(t, err)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return cmd, strings.TrimSpace(line)
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
}

func TestProcessesHoldOneVolumeEach(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	said := make(chan string)
	for i := range 6 {
		go func() {
			cmd, line := holder(t, root, fmt.Sprintf("n%d", i))
			t.Cleanup(func() { kill(t, cmd) })
			said <- line
		}()
	}
	got := make(map[string]int)
	for range 6 {
		line := <-said
		if strings.Contains(line, ErrNoneFree.Error()) {
			line = "none free"
		}
		got[line]++
	}
	for line, want := range map[string]int{"held a": 1, "held b": 1, "held c": 1, "none free": 3} {
		if got[line] != want {
			t.Errorf("%s: got %d, want %d (all: %v)", line, got[line], want, got)
		}
	}
}

func TestKilledHolderFreesItsVolume(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	l := newLocal(t, root, "n2")
	l.cfg.Slot, l.cfg.TakeoverAfter = "a", 0
	cmd, line := holder(t, root, "n1")
	if line != "held a" {
		t.Fatalf("got %q, want held a", line)
	}
	if c, err := l.Claim(t.Context(), wantABC); err == nil {
		t.Fatalf("claimed slot %s under its living holder", c.Volume().Slot)
	}
	kill(t, cmd)
	mustClaim(t, l)
}

// TestKilledAtEveryStep kills a process at its first step, then at its second, and so on to its end. Each time another
// node takes over what is left.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		then    string
		prepare func(t *testing.T, root string)
	}{
		{"format", "", func(*testing.T, string) {}},
		{"format again after removal", "", func(t *testing.T, root string) {
			held(t, root)
			remove(t, filepath.Join(root, "a"))
		}},
		{"resume", "drop", func(t *testing.T, root string) {
			writeFile(t, filepath.Join(held(t, root).Path(), "etcd", "wal"), "precious")
		}},
		{"adopt", "adopt", func(t *testing.T, root string) {
			writeFiles(t, filepath.Join(root, "a"), managersFiles)
		}},
		{"set aside", "set-aside", func(t *testing.T, root string) {
			c := held(t, root)
			writeFile(t, filepath.Join(c.Path(), "etcd", "wal"), "precious")
			writeFile(t, filepath.Join(c.Path(), IdentityName), c.Volume().Fresh().String())
		}},
		{"yield", "yield", func(t *testing.T, root string) { held(t, root) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for at := 1; ; at++ {
				root := t.TempDir()
				test.prepare(t, root)
				before := facts(t, root)
				out, err := script{Root: root, Node: "n1", Then: test.then, Adopt: test.then == "adopt", KillAt: at}.command(t).Output()
				done := strings.Contains(string(out), "done")
				if err != nil == done || strings.Contains(string(out), "error") {
					t.Fatalf("killed at %d: got %q, %v", at, out, err)
				}
				afterKill(t, fmt.Sprintf("killed at %d", at), root, test.then, before)
				if done {
					if at < 8 {
						t.Errorf("got %d steps only: the steps are not called", at-1)
					}
					return
				}
				if testing.Short() {
					at += 2
				}
			}
		})
	}
}

// held claims slot a for node n1 and drops it as a crash does.
func held(t *testing.T, root string) *localClaim {
	t.Helper()
	c := mustClaim(t, newLocal(t, root, "n1"))
	mustRelease(t, c, false)
	return c
}

// survivor has what must survive a crash.
type survivor struct {
	epoch uint64
	disk  string // from the tag and the identity, which agree
	wal   bool
}

func facts(t *testing.T, root string) survivor {
	t.Helper()
	var s survivor
	if tag, _, err := readTag(tagPath(root, "a")); err == nil && tag != nil {
		s.epoch, s.disk = tag.Epoch, tag.Disk
	}
	data, err := os.ReadFile(filepath.Join(root, "a", IdentityName))
	id, _ := parseIdentity(data)
	if err != nil || id.Disk != s.disk {
		s.disk = ""
	}
	s.epoch = max(s.epoch, id.Epoch)
	_, err = os.Stat(filepath.Join(root, "a", "etcd", "wal"))
	s.wal = err == nil
	return s
}

// afterKill claims the volume for another node and checks it.
func afterKill(t *testing.T, name, root, then string, before survivor) {
	t.Helper()
	l := newLocal(t, root, "n2")
	l.cfg.Slot, l.cfg.TakeoverAfter = "a", 0
	now := facts(t, root)
	want := wantABC
	want.Adopt = then == "adopt"
	claimed, err := l.Claim(t.Context(), want)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	c := claimed.(*localClaim)
	defer mustRelease(t, c, true)
	id := c.Volume()
	if then == "adopt" {
		files := filesIn(t, c.Path())
		if now.disk != "" && now.disk != id.Disk {
			t.Errorf("%s: got disk %s, want %s, which was given before", name, id.Disk, now.disk)
		}
		delete(files, IdentityName)
		if delete(files, IdentityName+tempSuffix); !maps.Equal(files, managersFiles) {
			t.Errorf("%s: got %q, want etcd-manager's files as they were", name, files)
		}
	}
	if id.Epoch <= before.epoch || id.Epoch <= now.epoch {
		t.Errorf("%s: got epoch %d, want one above %d and %d", name, id.Epoch, before.epoch, now.epoch)
	}
	if why := c.Mismatch(); why != "" {
		if then != "set-aside" {
			t.Fatalf("%s: got mismatch %q, want none", name, why)
		}
		if err := c.SetAside(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if then == "drop" && id.Disk != before.disk {
		t.Errorf("%s: got disk %s, want %s", name, id.Disk, before.disk)
	}
	pattern := filepath.Join(c.Path(), "etcd", "wal")
	if then == "set-aside" {
		pattern = filepath.Join(c.Path(), "aside", "*", "etcd", "wal")
	}
	if before.wal {
		if found, _ := filepath.Glob(pattern); len(found) != 1 || readFile(t, found[0]) != "precious" {
			t.Errorf("%s: got %v for %s, want it with its content", name, found, pattern)
		}
	}
	if err := c.evidence(); err != nil {
		t.Errorf("%s: got %v, want a healthy claim", name, err)
	}
}
