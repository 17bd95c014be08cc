package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func remove(t *testing.T, path string) {
	t.Helper()
	must(t, os.RemoveAll(path))
}

// losses are the ways to lose a volume, each with the text of its evidence.
var losses = []struct {
	name string
	lose func(t *testing.T, c *localClaim)
	want string
}{
	{"directory renamed", func(t *testing.T, c *localClaim) {
		must(t, os.Rename(c.Path(), c.Path()+".x"))
	}, "no such file"},
	{"directory replaced by a copy", func(t *testing.T, c *localClaim) {
		identity := readFile(t, filepath.Join(c.Path(), IdentityName))
		remove(t, c.Path())
		writeFile(t, filepath.Join(c.Path(), IdentityName), identity)
	}, "was replaced"},
	{"lock file removed", func(t *testing.T, c *localClaim) { remove(t, c.file.path) }, "a.lock"},
	{"lock file replaced", func(t *testing.T, c *localClaim) {
		remove(t, c.file.path)
		writeFile(t, c.file.path, "")
	}, "was replaced"},
	{"tag removed", func(t *testing.T, c *localClaim) { remove(t, tagPath(c.root, "a")) }, "a.claim is gone"},
	{"tag of another", func(t *testing.T, c *localClaim) {
		writeFile(t, tagPath(c.root, "a"), claimTag{Epoch: 9, Owner: "n9", Nonce: "y", Phase: PhaseHeld}.String())
	}, "names node n9, epoch 9"},
	{"tag of a newer holdfast", func(t *testing.T, c *localClaim) {
		writeFile(t, tagPath(c.root, "a"), `{"version":2}`)
	}, "newer holdfast"},
	{"identity removed", func(t *testing.T, c *localClaim) { remove(t, filepath.Join(c.Path(), IdentityName)) }, "identity.json"},
	{"identity of another disk", func(t *testing.T, c *localClaim) {
		writeFile(t, filepath.Join(c.Path(), IdentityName), c.Volume().Fresh().String())
	}, "names slot a of cluster c, disk"},
	{"identity damaged", func(t *testing.T, c *localClaim) { writeFile(t, filepath.Join(c.Path(), IdentityName), "{") }, "parse identity"},
}

func TestEveryLossIsSeen(t *testing.T) {
	for _, test := range losses {
		t.Run(test.name, func(t *testing.T) {
			c := mustClaim(t, newLocal(t, t.TempDir(), "n1"))
			if err := c.evidence(); err != nil {
				t.Fatalf("before: got %v, want nil", err)
			}
			test.lose(t, c)
			if err := c.evidence(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want evidence with %q", err, test.want)
			}
		})
	}
}

func TestWatchIsQuickToSeeALoss(t *testing.T) {
	t.Parallel()
	for _, test := range losses {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := mustClaim(t, newLocal(t, t.TempDir(), "n1"))
			watched := make(chan error, 1)
			go func() { watched <- c.Watch(t.Context()) }()
			test.lose(t, c) // perhaps while Watch looks, so that it may see half of the loss
			begin := time.Now()
			if err := <-watched; !errors.Is(err, ErrLost) {
				t.Errorf("got %v, want a loss", err)
			}
			if got := time.Since(begin); got > 2*time.Second {
				t.Errorf("noticed after %s, want 2s at most", got)
			}
		})
	}
}

func TestLostVolumeIsNotWritten(t *testing.T) {
	for _, test := range losses {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			c := mustClaim(t, newLocal(t, root, "n1"))
			test.lose(t, c)
			before := snapshot(t, root)
			if err := c.Yield(t.Context()); !errors.Is(err, ErrLost) {
				t.Errorf("yield: got %v, want a loss", err)
			}
			if err := c.SetAside(t.Context()); !errors.Is(err, ErrLost) {
				t.Errorf("set aside: got %v, want a loss", err)
			}
			if err := c.Release(t.Context(), true); !errors.Is(err, ErrLost) {
				t.Errorf("drop: got %v, want a loss", err)
			}
			if got := snapshot(t, root); got != before {
				t.Errorf("got %s, want %s", got, before)
			}
		})
	}
}

// snapshot returns every file below root with its content.
func snapshot(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all.WriteString(path + "=" + readFile(t, path) + "\n")
		}
		return err
	})
	must(t, err)
	return all.String()
}

// A disk that hangs is not lost: the claim is kept and the operator is told. A loss is seen when the disk answers.
func TestWatchWaitsForADiskThatHangs(t *testing.T) {
	t.Parallel()
	l := newLocal(t, t.TempDir(), "n1")
	c := mustClaim(t, l)
	// Opening a FIFO that nobody writes to hangs in the kernel like a dead disk.
	fifo := filepath.Join(c.root, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(c.Path(), IdentityName)
	watched := make(chan error, 1)
	go func() { watched <- c.Watch(t.Context()) }()
	must(t, os.Rename(fifo, path))
	stalled := func() bool {
		return slices.ContainsFunc(l.Problems(), func(text string) bool { return strings.Contains(text, "has not answered for") })
	}
	for !stalled() {
		select {
		case err := <-watched:
			t.Fatalf("got %v, want a stall to be told", err)
		case <-time.After(WatchEvery):
		}
	}
	if err := c.Lost(); err != nil {
		t.Errorf("got %v, want no loss", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0) // the disk answers again, but its answer is not the identity
	must(t, err)
	f.Close()
	if err := <-watched; !errors.Is(err, ErrLost) {
		t.Errorf("got %v, want a loss", err)
	}
	if stalled() {
		t.Errorf("got %q, want no stall any more", l.Problems())
	}
	if err := c.Release(context.Background(), true); !errors.Is(err, ErrLost) {
		t.Errorf("drop: got %v, want the loss that Watch saw", err)
	}
}

func TestNoEvidenceOfLoss(t *testing.T) {
	c := mustClaim(t, newLocal(t, t.TempDir(), "n1"))
	writeFile(t, tagPath(c.root, "a"), `{"version":1,"ep`)
	if err := c.evidence(); err != nil {
		t.Errorf("torn tag: got %v, want nil", err)
	}
	writeFile(t, filepath.Join(c.Path(), "etcd", "wal"), "w")
	if err := c.evidence(); err != nil {
		t.Errorf("data of etcd: got %v, want nil", err)
	}
	// The path cannot be opened for lack of file descriptors; the test does not use them all up.
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = 3
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Skip(err)
	}
	err := c.look()
	verdict := c.evidence()
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if !errors.Is(err, syscall.EMFILE) || verdict != nil {
		t.Errorf("too many open files: got %v and evidence %v, want EMFILE and none", err, verdict)
	}
}

// The tag may lie on another disk than the volume. If that disk fails, the lock still stands, and so does the volume.
func TestUnreadableTagIsNoLoss(t *testing.T) {
	c := mustClaim(t, newLocal(t, t.TempDir(), "n1"))
	remove(t, tagPath(c.root, "a"))
	if err := os.Symlink("/proc/self/mem", tagPath(c.root, "a")); err != nil { // reading its beginning fails with EIO
		t.Fatal(err)
	}
	if _, _, err := readTag(tagPath(c.root, "a")); !errors.Is(err, syscall.EIO) {
		t.Skipf("got %v, want an I/O error", err)
	}
	if err := c.evidence(); err != nil {
		t.Errorf("a tag that cannot be read: got %v, want nil", err)
	}
	remove(t, filepath.Join(c.Path(), IdentityName))
	if err := c.evidence(); err == nil {
		t.Error("got no evidence that the volume is lost too")
	}
}

// While the content of a volume is set aside it has no identity for a moment. That is no evidence of a loss.
func TestSetAsideIsNoLoss(t *testing.T) {
	root := t.TempDir()
	l := newLocal(t, root, "n1")
	c := mustClaim(t, l)
	looks := 0
	l.step = func(step string) {
		looks++
		if err := c.evidence(); err != nil {
			t.Errorf("at %q: %v", step, err)
		}
	}
	id := c.Volume()
	must(t, c.SetAside(t.Context()))
	if looks == 0 {
		t.Error("nobody looked")
	}
	l.step = func(string) {}
	if err := c.evidence(); err != nil || c.Mismatch() != "" || c.Volume().Disk == id.Disk {
		t.Errorf("afterwards: %v, mismatch %q, disk %s", err, c.Mismatch(), c.Volume().Disk)
	}
	// A look that began before SetAside and ends after it.
	if err := c.identified(id); err == nil {
		t.Error("the old identity is still there")
	}
}

func TestSetAsideKeepsWhatWasSetAsideBefore(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a")
	writeFile(t, dir+"/aside/1-by-operator/old", "1")
	writeFile(t, dir+"/aside/7-replaced/old", "7")
	writeFile(t, dir+"/etcd/wal", "w")
	c := mustClaim(t, newLocal(t, root, "n1"))
	must(t, c.SetAside(t.Context()))
	for path, want := range map[string]string{"1-by-operator/old": "1", "7-replaced/old": "7", "8-by-operator/etcd/wal": "w"} {
		if got := readFile(t, filepath.Join(dir, "aside", path)); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestReleasedClaimChangesNothing(t *testing.T) {
	root := t.TempDir()
	c := mustClaim(t, newLocal(t, root, "n1"))
	mustRelease(t, c, true)
	next := mustClaim(t, newLocal(t, root, "n2"))
	if c.SetAside(t.Context()) == nil || c.Yield(t.Context()) == nil {
		t.Error("set aside or yielded after release, want errors")
	}
	if err := c.Watch(t.Context()); err != nil {
		t.Errorf("watch after release: got %v, want nil", err)
	}
	mustRelease(t, c, true)
	if err := next.evidence(); err != nil {
		t.Errorf("the next holder: got %v, want nil", err)
	}
}

func TestYieldIsNoLoss(t *testing.T) {
	l := newLocal(t, t.TempDir(), "n1")
	c := mustClaim(t, l)
	l.step = func(step string) {
		if step == "removed "+IdentityName {
			if err := c.Lose(c.evidence()); err != nil {
				t.Errorf("seen during yield: got %v, want nil", err)
			}
		}
	}
	must(t, c.Yield(t.Context()))
}
