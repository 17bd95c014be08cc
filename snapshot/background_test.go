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

// TestBackgroundMakesRoom wants processors for the threads that give way as long as there are some, but not more for
// more of them, and no change without.
func TestBackgroundMakesRoom(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	background(func() {
		background(func() {
			if got := runtime.GOMAXPROCS(0); got != before+room {
				t.Errorf("processors inside: got %d, want %d", got, before+room)
			}
		})
		if got := runtime.GOMAXPROCS(0); got != before+room {
			t.Errorf("processors beside one that is left: got %d, want %d", got, before+room)
		}
	})
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("processors afterwards: got %d, want %d as before", got, before)
	}
}

// priority is the niceness of this thread. Linux returns 20 less it (getpriority(2)).
func priority(t *testing.T) int {
	t.Helper()
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - raw
}
