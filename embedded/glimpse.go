package embedded

import (
	"errors"
	"time"
)

// glimpseWait is how long a look at the database may take before what was seen last is good enough.
const glimpseWait = 500 * time.Millisecond

// errBusy: the database cannot be read at present, and what was asked for was never read before.
var errBusy = errors.New("the database is being defragmented, or its disk stalls")

// lastGlimpse waits for who looks at the database, and lets nobody look again: it is about to be closed, and a look at
// a closed one ends the process. A look that hangs, beside a disk that stalls, is not waited for.
func (l *life) lastGlimpse() {
	alone := make(chan struct{})
	go func() {
		l.backend.Lock() // for good
		close(alone)
	}()
	select {
	case <-alone:
	case <-time.After(2 * glimpseWait):
	}
}

// glimpse runs read, which looks at the database, and reports whether it came to its end in time. It does not while the
// database is defragmented, and while its disk stalls: etcd keeps all readers out until a commit has reached the disk.
// A look that was given up ends when the disk writes again, and there is no other before; what it sees must not be
// used.
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
