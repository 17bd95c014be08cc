package volume

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

var wantABC = Want{Cluster: "c", Slots: []string{"a", "b", "c"}}

// newLocal returns the provider of a node that shares its root with others.
func newLocal(t testing.TB, root, node string) *Local {
	t.Helper()
	cfg := Default().Local
	cfg.Root, cfg.Scope, cfg.Mount = root, ScopeMachine, mountIgnore
	return NewLocal(cfg, node, nil, zap.NewNop())
}

func mustClaim(t testing.TB, l *Local) *localClaim {
	t.Helper()
	c, err := l.Claim(context.Background(), wantABC)
	must(t, err)
	t.Cleanup(func() { _ = c.Release(context.Background(), false) })
	return c.(*localClaim)
}

func mustRelease(t testing.TB, c Claim, drop bool) {
	t.Helper()
	must(t, c.Release(context.Background(), drop))
}

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(content), 0o600))
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

func TestTakeoverCountsFromWhenTheHolderIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		n1, n2 := newLocal(t, root, "n1"), newLocal(t, root, "n2")
		n2.cfg.Slot = "a"
		c := mustClaim(t, n1)
		try := func(after time.Duration) error {
			time.Sleep(after) // of the bubble's clock
			c, err := n2.Claim(t.Context(), wantABC)
			if err == nil {
				mustRelease(t, c, false)
			} else if !errors.Is(err, ErrNoneFree) {
				t.Fatal(err)
			}
			return err
		}
		for range 2 {
			if err := try(time.Hour); err == nil {
				t.Fatal("claimed a held volume")
			}
		}
		mustRelease(t, c, false)
		if err := try(0); err == nil {
			t.Error("claimed a volume just left: the hour it was held was counted")
		}
		if err := try(9 * time.Second); err == nil {
			t.Error("claimed a volume after 9s")
		}
		mustRelease(t, mustClaim(t, n1), false) // it was here meanwhile
		if err := try(2 * time.Second); err == nil {
			t.Error("claimed a volume 11s after it was left first: another claim has another nonce")
		}
		if err := try(10 * time.Second); err != nil {
			t.Errorf("after 10s: got %v, want the volume", err)
		}
	})
}

func TestTwoProcessesOfOneName(t *testing.T) {
	root := t.TempDir()
	mustClaim(t, newLocal(t, root, "n1"))
	_, err := newLocal(t, root, "n1").Claim(t.Context(), wantABC)
	if !errors.Is(err, ErrNoneFree) || !strings.Contains(err.Error(), "another process named n1") {
		t.Fatalf("got %v, want no second volume for one name", err)
	}
}

func TestTornTagIsReplaced(t *testing.T) {
	root := t.TempDir()
	l := newLocal(t, root, "n1")
	c := mustClaim(t, l)
	first := c.Volume()
	mustRelease(t, c, false)
	for _, torn := range []string{"", "{", `{"version":1,"epoch":900`} {
		writeFile(t, tagPath(root, "a"), torn)
		c := mustClaim(t, newLocal(t, root, "n2"))
		if got := c.Volume(); got.Slot != "a" || got.Epoch <= first.Epoch || got.Disk != first.Disk {
			t.Errorf("got %+v, want slot a, an epoch above %d, disk %s", got, first.Epoch, first.Disk)
		}
		first = c.Volume()
		mustRelease(t, c, false)
	}
}

func TestEpochIsTheHighestPlusOne(t *testing.T) {
	for name, test := range map[string]struct{ tag, identity uint64 }{
		"tag ahead":      {41, 7},
		"identity ahead": {7, 41},
	} {
		root := t.TempDir()
		id := Identity{Cluster: "c", Slot: "a", Volume: "local:a", Epoch: test.identity}.Fresh()
		writeFile(t, filepath.Join(root, "a", IdentityName), id.String())
		writeFile(t, tagPath(root, "a"), claimTag{Epoch: test.tag, Owner: "n1", Nonce: "x", Phase: PhaseHeld}.String())
		c := mustClaim(t, newLocal(t, root, "n1"))
		if got := c.Volume().Epoch; got != 42 || c.Mismatch() != "" {
			t.Errorf("%s: got epoch %d, mismatch %q, want 42 and none", name, got, c.Mismatch())
		}
	}
}

func TestNewerFilesAreNotTouched(t *testing.T) {
	for _, name := range []string{"a.claim", "a/identity.json"} {
		root := t.TempDir()
		l := newLocal(t, root, "n1")
		mustRelease(t, mustClaim(t, l), false)
		path := filepath.Join(root, name)
		writeFile(t, path, `{"version":2}`)
		_, err := l.Claim(t.Context(), Want{Cluster: "c", Slots: []string{"a"}})
		if !errors.Is(err, ErrNewer) || errors.Is(err, ErrNoneFree) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error that names it and asks for an upgrade", name, err)
		}
		if got := readFile(t, path); got != `{"version":2}` {
			t.Errorf("%s: got %q, want it unchanged", name, got)
		}
	}
}

func TestMismatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
	}{
		{"damaged identity", func(t *testing.T, dir string) { writeFile(t, dir+"/identity.json", "{") }, "damaged"},
		{"identity gone", func(t *testing.T, dir string) {
			writeFile(t, dir+"/etcd/wal", "w")
			must(t, os.Remove(dir+"/identity.json"))
		}, "holds data but no"},
		{"emptied, as if not mounted", func(t *testing.T, dir string) {
			must(t, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)))
		}, "is it not mounted?"},
		{"a new file system, with the tag of the old one", func(t *testing.T, dir string) {
			must(t, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir+"/lost+found", 0o700)))
		}, "is it not mounted?"},
		{"another disk", func(t *testing.T, dir string) {
			id := Identity{Cluster: "c", Slot: "a", Volume: "local:a", Epoch: 1}.Fresh()
			writeFile(t, dir+"/identity.json", id.String())
		}, "names disk"},
		{"another slot", func(t *testing.T, dir string) {
			id := Identity{Cluster: "c", Slot: "b", Volume: "local:b", Epoch: 1}.Fresh()
			writeFile(t, dir+"/identity.json", id.String())
		}, `names slot "b"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			c := mustClaim(t, newLocal(t, root, "n1"))
			before := c.Volume()
			mustRelease(t, c, false)
			test.damage(t, c.Path())
			c = mustClaim(t, newLocal(t, root, "n1"))
			if got := c.Mismatch(); !strings.Contains(got, test.want) {
				t.Fatalf("got mismatch %q, want %q", got, test.want)
			}
			if err := c.evidence(); err != nil {
				t.Errorf("while it waits: got %v, want no loss", err)
			}
			mustRelease(t, c, false)
			c = mustClaim(t, newLocal(t, root, "n1"))
			if c.Mismatch() == "" {
				t.Fatal("the second claim took the mismatch for settled")
			}
			must(t, c.SetAside(t.Context()))
			if got := c.Volume(); got.Disk == before.Disk || got.Epoch <= before.Epoch {
				t.Errorf("set aside: got %+v, want a new disk and an epoch above %d", got, before.Epoch)
			}
			mustRelease(t, c, false)
			if got := mustClaim(t, newLocal(t, root, "n1")).Mismatch(); got != "" {
				t.Errorf("after a restart: got mismatch %q, want none", got)
			}
		})
	}
}

func TestRemovedVolumeIsBlank(t *testing.T) {
	root := t.TempDir()
	c := mustClaim(t, newLocal(t, root, "n1"))
	before := c.Volume()
	mustRelease(t, c, false)
	must(t, os.RemoveAll(c.Path()))
	c = mustClaim(t, newLocal(t, root, "n1"))
	if got := c.Volume(); c.Mismatch() != "" || got.Disk == before.Disk || got.Epoch <= before.Epoch {
		t.Errorf("got %+v (%s), want a fresh disk and an epoch above %d", got, c.Mismatch(), before.Epoch)
	}
}

func TestBlankFileSystemIsFormatted(t *testing.T) {
	root := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(root, "a", "lost+found"), 0o700))
	writeFile(t, filepath.Join(root, "a", IdentityName+tempSuffix), "{")
	if got := mustClaim(t, newLocal(t, root, "n1")).Mismatch(); got != "" {
		t.Errorf("got mismatch %q, want a formatted volume", got)
	}
}

func TestSecondLockKeepsHoldersApart(t *testing.T) {
	root := t.TempDir()
	c := mustClaim(t, newLocal(t, root, "n1"))
	before := readFile(t, tagPath(root, "a"))
	must(t, os.Remove(lockFile(root, "a")))
	_, err := newLocal(t, root, "n1").Claim(t.Context(), Want{Cluster: "c", Slots: []string{"a"}})
	if !errors.Is(err, ErrNoneFree) {
		t.Errorf("got %v, want none free", err)
	}
	if got := readFile(t, tagPath(root, "a")); got != before {
		t.Errorf("the holder's tag: got %s, want %s", got, before)
	}
	if err := c.evidence(); err == nil {
		t.Error("the holder did not notice that its lock file is gone")
	}
}

func TestClaimThatChangedIsLeftAlone(t *testing.T) {
	root := t.TempDir()
	l := newLocal(t, root, "n1")
	// Another node claims and dies between the look at the volume and the lock.
	other := claimTag{Epoch: 5, Owner: "n2", Nonce: "x", Phase: PhaseHeld}.String()
	l.step = func(string) { writeFile(t, tagPath(root, "a"), other) }
	_, err := l.Claim(t.Context(), Want{Cluster: "c", Slots: []string{"a"}})
	if !errors.Is(err, ErrNoneFree) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("got %v, want none free", err)
	}
	if got := readFile(t, tagPath(root, "a")); got != other {
		t.Errorf("tag: got %s, want %s", got, other)
	}
}

func TestBrokenVolumeIsPassedOver(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a"), "a file")
	c := mustClaim(t, newLocal(t, root, "n1"))
	if got := c.Volume().Slot; got != "b" {
		t.Errorf("got slot %s, want b", got)
	}
	writeFile(t, filepath.Join(root, "c"), "a file")
	_, err := newLocal(t, root, "n2").Claim(t.Context(), wantABC)
	if !errors.Is(err, syscall.ENOTDIR) || errors.Is(err, ErrNoneFree) {
		t.Errorf("got %v, want the error of a broken volume", err)
	}
	if _, err := os.Stat(tagPath(root, "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("tag of the broken volume: got %v, want none", err)
	}
}

func TestFailedClaimIsTakenBack(t *testing.T) {
	root := t.TempDir()
	mustRelease(t, mustClaim(t, newLocal(t, root, "n1")), true)
	before := readFile(t, tagPath(root, "a"))
	// A directory at the path of the temporary file makes writing the identity fail.
	must(t, os.Mkdir(filepath.Join(root, "a", IdentityName+tempSuffix), 0o700))
	l := newLocal(t, root, "n2")
	l.cfg.Slot = "a"
	if _, err := l.Claim(t.Context(), wantABC); !errors.Is(err, syscall.EISDIR) {
		t.Fatalf("got %v, want the error of writing the identity", err)
	}
	if got := readFile(t, tagPath(root, "a")); got != before {
		t.Errorf("tag: got %s, want %s", got, before)
	}
	l.cfg.Slot = ""
	mustClaim(t, l)
}

func TestRootErrorsNameTheCure(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/file", "")
	for root, want := range map[string]string{
		dir + "/file":         "move the file away",
		dir + "/file/volumes": "move the file away",
		"":                    "volume.local.root",
	} {
		_, err := newLocal(t, root, "n1").Claim(t.Context(), wantABC)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), root) {
			t.Errorf("%s: got %v, want the path and %q", root, err, want)
		}
	}
	for err, want := range map[error]string{
		syscall.ENOSPC: "make room", syscall.EROFS: "read-only", syscall.EACCES: "let the user", syscall.EIO: "the disk fails",
	} {
		if got := cure(&os.PathError{Op: "open", Path: "/r", Err: err}); !strings.Contains(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("got %v, want %q", got, want)
		}
	}
}

func TestHostKeepsItsVolume(t *testing.T) {
	root := t.TempDir()
	open := func(node string) *Local {
		l := newLocal(t, root, node)
		l.cfg.Scope = ScopeHost
		return l
	}
	first := wantABC
	first.Avoid = map[string]string{"a": "n9 has it"}
	c, err := open("n1").Claim(t.Context(), first)
	if err != nil || c.Volume().Slot != "b" {
		t.Fatalf("got %v, want slot b", err)
	}
	if _, err := open("n2").Claim(t.Context(), wantABC); !errors.Is(err, ErrNoneFree) {
		t.Errorf("a second process on this host: got %v, want none free", err)
	}
	mustRelease(t, c, false)
	renamed := wantABC
	renamed.Avoid = map[string]string{"b": "n9 has it"}
	c, err = open("n3").Claim(t.Context(), renamed)
	if err != nil || c.Volume().Slot != "b" {
		t.Fatalf("the host under a new name: got %v, want slot b at once", err)
	}
	mustRelease(t, c, true)

	l := open("n1")
	l.cfg.Slot = "a"
	if _, err := l.Claim(t.Context(), first); !errors.Is(err, ErrNoneFree) {
		t.Errorf("a blank slot, set but held elsewhere: got %v, want none free", err)
	}
	c, err = l.Claim(t.Context(), wantABC)
	if err != nil || c.Volume().Slot != "a" {
		t.Fatalf("slot set: got %v, want slot a", err)
	}
	mustRelease(t, c, true)
	if _, err := open("n1").Claim(t.Context(), wantABC); err == nil || errors.Is(err, ErrNoneFree) {
		t.Errorf("two volumes with data: got %v, want an error", err)
	}
	l.cfg.Slot = "z"
	if _, err := l.Claim(t.Context(), wantABC); !errors.Is(err, ErrNoneFree) {
		t.Errorf("a slot that is not wanted: got %v, want none free", err)
	}
}

func TestListChangesNothing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "none")
	infos, err := newLocal(t, root, "n1").List(t.Context(), wantABC)
	if err != nil || len(infos) != 3 || infos[0].Decision != DecisionTake {
		t.Errorf("got %+v, %v, want three volumes to take", infos, err)
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("root: got %v, want it not to exist", err)
	}
	id := Identity{Cluster: "c", Slot: "old", Volume: "local:old", Epoch: 1}.Fresh()
	writeFile(t, filepath.Join(root, "old", IdentityName), id.String())
	infos, err = newLocal(t, root, "n1").List(t.Context(), wantABC)
	if err != nil || len(infos) != 4 || infos[3].Slot != "old" || infos[3].Decision != DecisionWait {
		t.Errorf("got %+v, %v, want the volume nobody wants as the fourth", infos, err)
	}
}

// The name of a lock is the same for every claim of one volume, and different for another volume and for a copy. Other
// tests show that only one process has the lock.
func TestLockName(t *testing.T) {
	root := t.TempDir()
	c := mustClaim(t, newLocal(t, root, "n1"))
	first, epoch, disk := c.Lock(), c.Volume().Epoch, c.Volume().Disk
	if first == "" {
		t.Fatal("the lock has no name")
	}
	if other := mustClaim(t, newLocal(t, root, "n2")); other.Lock() == first {
		t.Errorf("slots %s and %s have the same lock %s", c.Volume().Slot, other.Volume().Slot, first)
	}
	mustRelease(t, c, true)
	again := mustClaim(t, newLocal(t, root, "n3"))
	if v := again.Volume(); again.Lock() != first || v.Disk != disk || v.Epoch <= epoch {
		t.Errorf("claimed again: got lock %s, disk %s, epoch %d, want %s, %s, more than %d", again.Lock(), v.Disk, v.Epoch, first, disk, epoch)
	}
	mustRelease(t, again, true)
	copied := filepath.Join(t.TempDir(), "copied")
	must(t, os.CopyFS(copied, os.DirFS(root)))
	if c := mustClaim(t, newLocal(t, copied, "n4")); c.Lock() == first || c.Volume().Disk != disk {
		t.Errorf("a copy: got lock %s and disk %s, want another lock and disk %s", c.Lock(), c.Volume().Disk, disk)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
