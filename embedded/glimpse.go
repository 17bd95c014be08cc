package embedded

import (
	"errors"
	"time"

	"holdfast/durable"
)

// glimpseWait is how long a read of the database may take before the previous result is used instead.
const glimpseWait = 500 * time.Millisecond

// errBusy: the database cannot be read at the moment, and the value was never read before.
var errBusy = errors.New("the database is being defragmented, or its disk stalls")

// lastGlimpse waits for the read in progress and prevents any further one. The database is about to be closed, and
// reading a closed database ends the process. It does not wait for a read that hangs because the disk has stalled.
func (l *life) lastGlimpse() {
	durable.Soon(2*glimpseWait, func() error {
		l.backend.Lock() // never unlocked
		return nil
	})
}

// glimpse runs read, which reads the database, and reports whether it finished in time. It does not finish during a
// defragmentation, nor while the disk stalls, because etcd blocks all readers until a commit has reached the disk. An
// abandoned read ends when the disk writes again, and no other begins before that. Its result must not be used.
func (l *life) glimpse(read func()) bool {
	if l.hung.Load() > 0 || !l.backend.TryRLock() {
		return false
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer l.backend.RUnlock()
		read()
	}()
	timeout := time.NewTimer(glimpseWait)
	defer timeout.Stop()
	select {
	case <-done:
		return true
	case <-timeout.C:
	}
	l.hung.Add(1)
	go func() {
		<-done
		l.hung.Add(-1)
	}()
	return false
}
