package volumetest

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/volume"
)

func watchEnds(t *testing.T, f Fixture) {
	c := claim(t, f.Open("n1"), f.want())
	ctx, cancel := context.WithCancel(t.Context())
	watched := make(chan error, 2)
	go func() { watched <- c.Watch(ctx) }()
	cancel()
	if err := <-watched; err != nil {
		t.Errorf("after its context: got %v, want nil", err)
	}
	go func() { watched <- c.Watch(t.Context()) }()
	release(t, c)
	if err := <-watched; err != nil {
		t.Errorf("after release: got %v, want nil", err)
	}
}

func lost(t *testing.T, f Fixture) {
	c := claim(t, f.Open("n1"), f.want())
	watched := make(chan error, 1)
	go func() { watched <- c.Watch(t.Context()) }()
	f.Lose(c)
	begin := time.Now()
	if err := <-watched; !errors.Is(err, volume.ErrLost) {
		t.Fatalf("got %v, want an error that wraps ErrLost", err)
	}
	if got := time.Since(begin); got > lostWithin {
		t.Errorf("noticed after %s, want %s at most", got, lostWithin)
	}
	if err := c.Release(t.Context(), true); !errors.Is(err, volume.ErrLost) {
		t.Errorf("drop of a lost claim: got %v, want an error that wraps ErrLost", err)
	}
}

func otherCluster(t *testing.T, f Fixture) {
	slot := f.Slots[0]
	theirs := f.only(slot)
	theirs.Cluster = "other"
	c := claim(t, f.Open("n1"), theirs)
	disk := c.Volume().Disk
	write(t, filepath.Join(c.Path(), "etcd", "data"), "precious")
	release(t, c)
	left := leaveAlone(t, f, slot)
	setAside(t, left, "etcd/data", "precious")
	if got := left.Volume().Disk; got == disk || got == "" {
		t.Errorf("volume whose content was set aside: got disk %q, want a new one", got)
	}
}

func foreignData(t *testing.T, f Fixture) {
	slot := f.Slots[0]
	f.Change(slot, func(dir string) { write(t, filepath.Join(dir, "photos", "cat.jpg"), "meow") })
	c := claim(t, f.Open("n1"), f.adopting(slot))
	if c.Mismatch() == "" {
		t.Error("what is not etcd's was adopted")
	}
	release(t, c)
	setAside(t, leaveAlone(t, f, slot), "photos/cat.jpg", "meow")
}

// adopting wants one slot, and adopts the data of another program's etcd.
func (f Fixture) adopting(slot string) volume.Want {
	want := f.only(slot)
	want.Adopt = true
	return want
}

// adopted claims a volume of etcd-manager. It checks that the volume gets an identity, which stays, and that nothing
// else changes.
func adopted(t *testing.T, f Fixture) {
	slot := f.Slots[0]
	f.Change(slot, func(dir string) {
		write(t, filepath.Join(dir, "state"), "\b\x01")
		write(t, filepath.Join(dir, "data", "x1", "member", "wal", "0.wal"), "w")
		write(t, filepath.Join(dir, "data", "x1", "member", "snap", "db"), "db")
	})
	release(t, leaveAlone(t, f, slot))
	before := f.tree(t, slot)
	c := claim(t, f.Open("n4"), f.adopting(slot))
	first := c.Volume()
	if first.Disk == "" || c.Mismatch() != "" {
		t.Fatalf("got %+v (%s), want a disk of its own", first, c.Mismatch())
	}
	write(t, filepath.Join(c.Path(), "founding.json"), "{}") // as a node does after adopting
	f.Gone(c)
	c = claimSoon(t, f.Open("n5"), f.adopting(slot))
	if got := c.Volume(); got.Disk != first.Disk || got.Epoch <= first.Epoch || c.Mismatch() != "" {
		t.Errorf("after its holder was gone: got %+v (%s), want the disk of %+v", got, c.Mismatch(), first)
	}
	release(t, c)
	after := f.tree(t, slot)
	for _, name := range []string{volume.IdentityName, "founding.json"} {
		delete(after, name)
	}
	if !maps.Equal(after, before) {
		t.Errorf("content changed:\n got %v\nwant %v", after, before)
	}
	c = claim(t, f.Open("n6"), f.only(slot))
	if got := c.Volume(); got.Disk != first.Disk || c.Mismatch() != "" {
		t.Errorf("claimed as any other: got %+v (%s), want disk %s", got, c.Mismatch(), first.Disk)
	}
}

// leaveAlone claims a foreign volume and checks that nothing on it changes, during the claim or after it.
func leaveAlone(t *testing.T, f Fixture, slot string) volume.Claim {
	t.Helper()
	before := f.tree(t, slot)
	c := claim(t, f.Open("n2"), f.only(slot))
	if c.Mismatch() == "" {
		t.Fatal("got no mismatch, want one")
	}
	if got := c.Volume(); got.Disk != "" || got.Cluster != Cluster || got.Slot != slot {
		t.Errorf("got identity %+v, want the slot's without a disk", got)
	}
	if y, ok := c.(volume.Yielder); ok && y.Yield(t.Context()) == nil {
		t.Error("yielded a foreign volume, want an error")
	}
	release(t, c)
	if got := f.tree(t, slot); !maps.Equal(got, before) {
		t.Errorf("content changed:\n got %v\nwant %v", got, before)
	}
	return claim(t, f.Open("n3"), f.only(slot))
}

// setAside sets the content of a foreign volume aside, and checks that the file is there.
func setAside(t *testing.T, c volume.Claim, file, content string) {
	t.Helper()
	if err := c.SetAside(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Mismatch(); got != "" {
		t.Errorf("after set-aside: got mismatch %q, want none", got)
	}
	first := c.Volume().Disk
	write(t, filepath.Join(c.Path(), "founding.json"), "{}")
	if err := c.SetAside(t.Context()); err != nil || c.Volume().Disk == first {
		t.Errorf("set aside again, for a reason of the caller's: got disk %q after %q, error %v; want another disk",
			c.Volume().Disk, first, err)
	}
	if got := tree(t, c.Path())[filepath.Join("aside", "2-by-operator", "founding.json")]; got != "{}" {
		t.Errorf("set aside the second time: got %q", got)
	}
	got := tree(t, c.Path())[filepath.Join("aside", "1-by-operator", file)]
	if got != content {
		t.Errorf("set aside: got %q, want %q", got, content)
	}
}

func yielded(t *testing.T, f Fixture) {
	slot := f.Slots[0]
	c := claim(t, f.Open("n1"), f.only(slot))
	first := c.Volume()
	y, ok := c.(volume.Yielder)
	if !ok {
		t.Skipf("%T is no volume.Yielder: what machines share is never in another one's way", c)
	}
	write(t, filepath.Join(c.Path(), "founding.json"), "{}")
	if err := y.Yield(t.Context()); err == nil || !strings.Contains(err.Error(), c.Path()) {
		t.Fatalf("with data: got %v, want an error that names the path", err)
	}
	noneFree(t, f.Open("n2"), f.only(slot))
	if err := os.Remove(filepath.Join(c.Path(), "founding.json")); err != nil {
		t.Fatal(err)
	}
	if err := y.Yield(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.tree(t, slot); len(got) != 0 {
		t.Errorf("left on the volume: got %v, want nothing", got)
	}
	again := claim(t, f.Open("n2"), f.only(slot))
	if got := again.Volume(); again.Mismatch() != "" || got.Disk == first.Disk || got.Epoch <= first.Epoch {
		t.Errorf("claimed again: got %+v (%s), want a new disk and a higher epoch than %d", got, again.Mismatch(),
			first.Epoch)
	}
}

func listed(t *testing.T, f Fixture) {
	p := f.Open("n1")
	mine := claim(t, p, f.want()).Volume()
	other := claim(t, f.Open("n2"), f.want()).Volume()
	infos, err := p.List(t.Context(), f.want())
	if err != nil {
		t.Fatal(err)
	}
	if len(infos) != len(f.Slots) {
		t.Fatalf("got %d volumes, want %d", len(infos), len(f.Slots))
	}
	free := ""
	for i, got := range infos {
		want := volume.Info{Slot: f.Slots[i], State: volume.StateFree, Decision: volume.DecisionWait}
		switch got.Slot {
		case mine.Slot:
			want.State, want.Holder, want.Epoch, want.Decision = volume.StateHeld, "n1", mine.Epoch, volume.DecisionKeep
		case other.Slot:
			want.State, want.Holder, want.Epoch = volume.StateHeld, "n2", other.Epoch
		default:
			free = got.Slot
		}
		if got.Volume == "" || got.Why == "" {
			t.Errorf("slot %s: got %+v, want a volume and a reason", got.Slot, got)
		}
		// Only some providers know the rest.
		if got := (volume.Info{Slot: got.Slot, State: got.State, Holder: got.Holder, Epoch: got.Epoch,
			Decision: got.Decision}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	infos, err = f.Open("n3").List(t.Context(), f.want())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range infos {
		if take := got.Decision == volume.DecisionTake; take != (got.Slot == free) {
			t.Errorf("slot %s, seen by a standby: got %s, want %s for slot %s only", got.Slot, got.Decision, volume.DecisionTake,
				free)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tree returns the content of every file on the volume of a slot that nobody holds.
func (f Fixture) tree(t *testing.T, slot string) (files map[string]string) {
	t.Helper()
	f.Change(slot, func(dir string) { files = tree(t, dir) })
	return files
}

// tree returns the content of every file below dir, by relative path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = string(data)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}
