package embedded

import (
	"testing"
	"time"
)

// A look at the database that is slow when the member stops comes to its end before the database is closed: it would
// end the process.
func TestLookWhileStopping(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and stops a member")
	}
	n := found(t, "a")[0]
	l := n.current()
	looks, done := make(chan struct{}), make(chan bool, 1)
	go func() {
		done <- l.glimpse(func() {
			close(looks)
			time.Sleep(glimpseWait / 2) // it is slow, and etcd closes within less
			readStored(l.etcd.Server)
		})
	}()
	<-looks
	stop(t, n, 0)
	if !<-done {
		t.Error("the look did not come to its end")
	}
	if l.glimpse(func() {}) {
		t.Error("somebody looked at a closed database")
	}
}
