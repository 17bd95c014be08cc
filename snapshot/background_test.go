package snapshot

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBackgroundGivesWay(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := priority(t)
	if before >= niceness {
		t.Skip("the test itself gives way")
	}
	var inside int
	background(func() { inside = priority(t) })
	if inside != niceness {
		t.Errorf("niceness inside: got %d, want %d", inside, niceness)
	}
	if after := priority(t); after != before {
		t.Errorf("niceness of the caller: got %d, want %d as before", after, before)
	}
}

// TestBackgroundMakesRoom checks that there are processors for background threads while such threads exist: not more
// for more of them, none if the runtime may not use all cores, and no change afterwards.
func TestBackgroundMakesRoom(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	cores := runtime.NumCPU()
	for _, test := range []struct{ before, inside int }{{cores, cores + room}, {cores - 1, cores - 1}} {
		if test.before == 0 {
			continue
		}
		t.Setenv("GOMAXPROCS", "set")
		runtime.GOMAXPROCS(test.before)
		background(func() {
			background(func() {
				if got := runtime.GOMAXPROCS(0); got != test.inside {
					t.Errorf("processors inside: got %d, want %d", got, test.inside)
				}
			})
			if got := runtime.GOMAXPROCS(0); got != test.inside {
				t.Errorf("processors beside one that is left: got %d, want %d", got, test.inside)
			}
		})
		if got := runtime.GOMAXPROCS(0); got != test.before {
			t.Errorf("processors afterwards: got %d, want %d as before", got, test.before)
		}
	}
}

// TestBackgroundFollowsQuota checks that the runtime's own choice, which follows the control group's quota, is
// restored.
func TestBackgroundFollowsQuota(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	t.Setenv("GOMAXPROCS", "")
	runtime.SetDefaultGOMAXPROCS()
	before := runtime.GOMAXPROCS(0)
	background(func() {})
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("processors afterwards: got %d, want the runtime's %d", got, before)
	}
}

// priority returns the niceness of this thread. Linux returns 20 minus the niceness (getpriority(2)).
func priority(t *testing.T) int {
	t.Helper()
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - raw
}
