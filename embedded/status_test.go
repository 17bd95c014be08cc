package embedded

import (
	"testing"
	"time"
)

// A slow read of the database that is in progress when the member stops finishes before the database is closed.
// Otherwise it would end the process.
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
			time.Sleep(glimpseWait / 2) // longer than etcd takes to close
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
