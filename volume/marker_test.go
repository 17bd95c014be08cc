package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a place for nodes with one root, each with a data directory outside it.
type machine struct {
	t           *testing.T
	scope, root string
	data        string
}

func newMachine(t *testing.T, scope string) machine {
	return machine{t: t, scope: scope, root: filepath.Join(t.TempDir(), "root"), data: t.TempDir()}
}

func (m machine) node(name string) *Local {
	l := newLocal(m.t, m.root, name)
	l.cfg.Scope, l.cfg.TakeoverAfter, l.markers = m.scope, 0, []string{m.marker(name)}
	return l
}

func (m machine) marker(name string) string { return filepath.Join(m.data, name, MarkerName) }

// had makes a node hold a slot with a member's data, and stop.
func (m machine) had(name, slot string) Identity {
	m.t.Helper()
	l := m.node(name)
	l.cfg.Slot = slot
	c := mustClaim(m.t, l)
	writeFile(m.t, filepath.Join(c.Path(), "founding.json"), "{}")
	c.SetRecord("c@1-0123")
	mustRelease(m.t, c, false)
	return c.Volume()
}

// unmount leaves what is below a root that is not mounted, and returns a function that mounts it again.
func (m machine) unmount() (mount func()) {
	m.t.Helper()
	disk := filepath.Join(m.data, "disk")
	if err := errors.Join(os.Rename(m.root, disk), os.Mkdir(m.root, 0o700)); err != nil {
		m.t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.RemoveAll(m.root), os.Rename(disk, m.root)); err != nil {
			m.t.Fatal(err)
		}
	}
}

func (m machine) remembers(name, disk string) {
	m.t.Helper()
	found, err := readMarker(m.marker(name))
	if err != nil || (found == nil) != (disk == "") || found != nil && found.Disk != disk {
		m.t.Errorf("%s remembers %+v, %v, want disk %q", name, found, err, disk)
	}
}

// misses checks that a claim waits for a disk and has changed nothing.
func misses(t *testing.T, c *localClaim, disk string) {
	t.Helper()
	why := c.Missing()
	if !strings.Contains(why, disk) || !strings.Contains(why, "c@1-0123") || !strings.Contains(why, c.root) || c.Mismatch() != why {
		t.Errorf("got missing %q, mismatch %q, want disk %s of its record at its path", why, c.Mismatch(), disk)
	}
	if n, err := dataIn(c.Path()); err != nil || n > 0 {
		t.Errorf("%d entries in %s, %v, want it untouched", n, c.Path(), err)
	}
}

func TestRootThatIsNotMountedIsNotBlank(t *testing.T) {
	for _, scope := range []string{ScopeHost, ScopeMachine} {
		m := newMachine(t, scope)
		id := m.had("n1", "b")
		mount := m.unmount()
		for range 2 { // the second claim finds what the first has left
			c := mustClaim(t, m.node("n1"))
			if c.Want.Slot != "b" {
				t.Errorf("%s: claimed slot %s, want b, where its disk should be", scope, c.Want.Slot)
			}
			misses(t, c, id.Disk)
			c.SetRecord("c@1-other")
			if err := c.Yield(t.Context()); err == nil {
				t.Error("yielded a volume of which a disk is missing")
			}
			mustRelease(t, c, false)
		}
		m.remembers("n1", id.Disk)
		mount()
		c := mustClaim(t, m.node("n1"))
		if got := c.Volume(); c.Missing() != "" || c.Mismatch() != "" || got.Disk != id.Disk || got.Slot != "b" {
			t.Errorf("%s, mounted: got %+v, missing %q, mismatch %q", scope, got, c.Missing(), c.Mismatch())
		}
	}
}

func TestSetAsideGivesTheMissingDiskUp(t *testing.T) {
	m := newMachine(t, ScopeHost)
	m.had("n1", "b")
	m.unmount()
	c := mustClaim(t, m.node("n1"))
	if err := c.SetAside(t.Context()); err != nil || c.Missing() != "" || c.Mismatch() != "" {
		t.Fatalf("set aside: %v, missing %q, mismatch %q", err, c.Missing(), c.Mismatch())
	}
	m.remembers("n1", "")
	mustRelease(t, c, false)
	c = mustClaim(t, m.node("n1"))
	if c.Missing() != "" || c.Mismatch() != "" || c.Volume().Slot != "b" {
		t.Errorf("claimed again: %+v, missing %q, mismatch %q", c.Volume(), c.Missing(), c.Mismatch())
	}
	c.SetRecord("c@1-0123")
	m.remembers("n1", c.Volume().Disk)
}

// A node that is killed while a missing disk is given up either still misses it, or can use the blank one.
func TestKilledWhileSettingAside(t *testing.T) {
	for at := 1; ; at++ {
		m := newMachine(t, ScopeMachine)
		id := m.had("n1", "a")
		m.unmount()
		out, err := script{Root: m.root, Node: "n1", Marker: m.marker("n1"), Then: "set-aside", KillAt: at}.command(t).Output()
		done := strings.Contains(string(out), "done")
		if err != nil == done || strings.Contains(string(out), "error") {
			t.Fatalf("killed at %d: got %q, %v", at, out, err)
		}
		c := mustClaim(t, m.node("n1"))
		if c.Missing() != "" {
			misses(t, c, id.Disk)
		}
		if c.Mismatch() != "" {
			if err := c.SetAside(t.Context()); err != nil {
				t.Errorf("killed at %d: set aside again: %v", at, err)
			}
		}
		if err := c.evidence(); err != nil || c.Mismatch() != "" || c.Volume().Disk == id.Disk {
			t.Errorf("killed at %d: got %+v, %v, want another, healthy disk", at, c.Volume(), err)
		}
		m.remembers("n1", "")
		if done {
			if at < 8 {
				t.Errorf("got %d steps only: the steps are not called", at-1)
			}
			return
		}
	}
}

func TestWhatEndsTheMemory(t *testing.T) {
	for name, end := range map[string]func(m machine, l *Local){
		"released": func(m machine, l *Local) { mustRelease(m.t, mustClaim(m.t, l), true) },
		"yielded": func(m machine, l *Local) {
			remove(m.t, filepath.Join(m.root, "b", "founding.json"))
			if err := mustClaim(m.t, l).Yield(m.t.Context()); err != nil {
				m.t.Error(err)
			}
		},
		"set aside": func(m machine, l *Local) {
			if err := mustClaim(m.t, l).SetAside(m.t.Context()); err != nil {
				m.t.Error(err)
			}
		},
		// The tag shows that the root is there, so someone has removed the directory.
		"removed": func(m machine, l *Local) {
			remove(m.t, filepath.Join(m.root, "b"))
			if c := mustClaim(m.t, l); c.Missing() != "" || c.Mismatch() != "" {
				m.t.Errorf("missing %q, mismatch %q, want a formatted volume", c.Missing(), c.Mismatch())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, ScopeMachine)
			id := m.had("n1", "b")
			m.remembers("n1", id.Disk)
			end(m, m.node("n1"))
			m.remembers("n1", "")
		})
	}
}

func TestDiskThatOthersHaveIsNotMissing(t *testing.T) {
	m := newMachine(t, ScopeMachine)
	disk := m.had("n1", "a").Disk
	second := m.node("n2")
	second.cfg.Slot = "a"
	c := mustClaim(t, second)
	if got := c.Volume().Disk; got != disk {
		t.Fatalf("n2 took disk %s, want %s", got, disk)
	}
	first := mustClaim(t, m.node("n1"))
	if got := first.Volume().Slot; got == "a" || first.Missing() != "" || first.Mismatch() != "" {
		t.Errorf("beside the new holder: got slot %s, missing %q, mismatch %q", got, first.Missing(), first.Mismatch())
	}
	mustRelease(t, first, false)
	// The new holder replaces the disk. While the new disk is blank, the directory may be unmounted; later it cannot be.
	mustRelease(t, c, false)
	remove(t, filepath.Join(m.root, "a"))
	c = mustClaim(t, second)
	first = mustClaim(t, m.node("n1"))
	misses(t, first, disk)
	mustRelease(t, first, false)
	writeFile(t, filepath.Join(c.Path(), "founding.json"), "{}")
	if first = mustClaim(t, m.node("n1")); first.Missing() != "" || first.Mismatch() != "" {
		t.Errorf("beside a disk with data: missing %q, mismatch %q", first.Missing(), first.Mismatch())
	}
}

func TestMissingWhereAnotherWasFaster(t *testing.T) {
	m := newMachine(t, ScopeMachine)
	id := m.had("n1", "a")
	m.unmount()
	mustClaim(t, m.node("n4")) // it has never held a volume
	c := mustClaim(t, m.node("n1"))
	misses(t, c, id.Disk)
	must(t, c.SetAside(t.Context()))
	m.remembers("n1", "")
}

func TestAnotherDiskInPlaceOfTheMissing(t *testing.T) {
	m := newMachine(t, ScopeHost)
	disk := m.had("n1", "b").Disk
	m.unmount()
	other := Identity{Cluster: "c", Slot: "b", Volume: localVolume("b"), Epoch: 3}.Fresh()
	writeFile(t, filepath.Join(m.root, "b", IdentityName), other.String())
	c := mustClaim(t, m.node("n1"))
	misses(t, c, disk)
	mustRelease(t, c, false)
	// The content decides, for a reader that knows its format.
	writeFile(t, filepath.Join(m.root, "b", "founding.json"), "{}")
	c = mustClaim(t, m.node("n1"))
	if got := c.Volume().Disk; !strings.Contains(c.Missing(), disk) || c.Mismatch() != "" || got != other.Disk {
		t.Errorf("got disk %s, missing %q, mismatch %q", got, c.Missing(), c.Mismatch())
	}
	c.SetRecord("c@2-4567")
	m.remembers("n1", other.Disk)
	if got := c.Missing(); got != "" {
		t.Errorf("with a record: missing %q", got)
	}
}

func TestHostDoesNotChangeItsSlotForAMissingDisk(t *testing.T) {
	m := newMachine(t, ScopeHost)
	disk := m.had("n1", "b").Disk
	m.unmount()
	_, err := m.node("n1").Claim(t.Context(), Want{Cluster: "c", Slots: []string{"a", "c"}})
	if !errors.Is(err, ErrNoneFree) || !strings.Contains(err.Error(), disk) {
		t.Errorf("slot not wanted: got %v, want none free, for the disk is missing", err)
	}
	l := m.node("n1")
	l.cfg.Slot = "c"
	misses(t, mustClaim(t, l), disk)
	infos, err := m.node("n1").List(t.Context(), wantABC)
	if err != nil || !strings.Contains(fmt.Sprint(infos), disk) {
		t.Errorf("list: got %+v, %v, want the missing disk named", infos, err)
	}
}

// A new root in the configuration does not turn a disk with data into a blank one. Data moved there is the disk.
func TestMarkerOfAnotherRoot(t *testing.T) {
	for _, scope := range []string{ScopeHost, ScopeMachine} {
		m := newMachine(t, scope)
		disk, was := m.had("n1", "b").Disk, m.root
		m.root = filepath.Join(m.data, "elsewhere")
		c := mustClaim(t, m.node("n1"))
		misses(t, c, disk)
		if !strings.Contains(c.Missing(), was) {
			t.Errorf("%s: missing %q, want where it was: %s", scope, c.Missing(), was)
		}
		mustRelease(t, c, false)
		must(t, errors.Join(os.RemoveAll(m.root), os.Rename(was, m.root)))
		c = mustClaim(t, m.node("n1"))
		if c.Missing() != "" || c.Mismatch() != "" || c.Volume().Disk != disk {
			t.Errorf("%s, moved: missing %q, mismatch %q, disk %s", scope, c.Missing(), c.Mismatch(), c.Volume().Disk)
		}
		c.SetRecord("c@1-0123")
		mustRelease(t, c, false)
		m.root += "-blank"
		c = mustClaim(t, m.node("n1"))
		misses(t, c, disk)
		if err := c.SetAside(t.Context()); err != nil || c.Missing() != "" || c.Mismatch() != "" {
			t.Errorf("%s, given up: %v, missing %q, mismatch %q", scope, err, c.Missing(), c.Mismatch())
		}
		m.remembers("n1", "")
	}
}

// Data directory and root move together: the marker that stays behind remembers the disk, until an operator gives it
// up.
func TestSecondMarkerOutlivesTheFirst(t *testing.T) {
	m := newMachine(t, ScopeHost)
	second := filepath.Join(m.data, "state", "main.n1."+MarkerName)
	node := func(name string) *Local {
		l := m.node(name)
		l.markers = append(l.markers, second)
		return l
	}
	c := mustClaim(t, node("n1"))
	disk := c.Volume().Disk
	writeFile(t, filepath.Join(c.Path(), "founding.json"), "{}")
	c.SetRecord("c@1-0123")
	m.remembers("n1", disk)
	mustRelease(t, c, false)
	m.root = filepath.Join(t.TempDir(), "other")
	c = mustClaim(t, node("elsewhere")) // another data directory of the same node
	misses(t, c, disk)
	must(t, c.SetAside(t.Context()))
	if found, err := readMarker(second); found != nil || err != nil || c.Missing() != "" {
		t.Errorf("given up: remembers %+v, %v, and misses %q", found, err, c.Missing())
	}
}

func TestDamagedMarkerIsNoBlankDisk(t *testing.T) {
	for _, text := range []string{"{", `{"version":1,"root":"/r"}`, `{"version":2}`} {
		for _, scope := range []string{ScopeHost, ScopeMachine} {
			m := newMachine(t, scope)
			writeFile(t, m.marker("n1"), text)
			if _, err := m.node("n1").Claim(t.Context(), wantABC); err == nil || !strings.Contains(err.Error(), MarkerName) {
				t.Errorf("%s, %s: got %v, want an error that names the file", scope, text, err)
			}
		}
	}
}

// A data directory that cannot be written does not keep a member from serving.
func TestMarkerThatCannotBeWritten(t *testing.T) {
	m := newMachine(t, ScopeHost)
	l := m.node("n1")
	writeFile(t, filepath.Join(m.data, "n1"), "a file")
	l.markers = []string{filepath.Join(m.data, "n2", MarkerName)}
	c := mustClaim(t, l)
	c.local.markers = []string{m.marker("n1")}
	c.SetRecord("c@1-0123")
	if got := fmt.Sprint(l.Problems()); !strings.Contains(got, "is not remembered") || !strings.Contains(got, m.data) {
		t.Errorf("got problems %s, want the failure and its path", got)
	}
	remove(t, filepath.Join(m.data, "n1"))
	c.SetRecord("c@1-0123")
	if got := l.Problems(); got != nil {
		t.Errorf("got problems %v, want none", got)
	}
	m.remembers("n1", c.Volume().Disk)
}

// The second marker is written although the first one cannot be, and the other way round.
func TestEachMarkerIsTried(t *testing.T) {
	for _, broken := range [][]string{{"n1"}, {"n2"}, {"n1", "n2"}} {
		m := newMachine(t, ScopeHost)
		c := mustClaim(t, m.node("n1"))
		for _, name := range broken {
			writeFile(t, filepath.Join(m.data, name), "a file")
		}
		c.local.markers = []string{m.marker("n1"), m.marker("n2")}
		c.SetRecord("c@1-0123")
		problems := fmt.Sprint(c.local.Problems())
		for _, name := range []string{"n1", "n2"} {
			if slices.Contains(broken, name) != strings.Contains(problems, filepath.Join(m.data, name)) {
				t.Errorf("%v cannot be written: got the problems %s", broken, problems)
			}
			if !slices.Contains(broken, name) {
				m.remembers(name, c.Volume().Disk)
			}
		}
	}
}

func TestMarkerInTheRootIsNoWitness(t *testing.T) {
	m := newMachine(t, ScopeHost)
	l := m.node("n1")
	if got := l.Problems(); got != nil {
		t.Errorf("outside: got problems %v, want none", got)
	}
	l.markers = []string{filepath.Join(m.root, "data", MarkerName)}
	if got := fmt.Sprint(l.Problems()); !strings.Contains(got, "node.data-dir ("+filepath.Join(m.root, "data")+") lies in volume.local.root") {
		t.Errorf("inside: got problems %s", got)
	}
}
