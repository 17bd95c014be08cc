package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// backendSnapshot is what etcd's backend.Snapshot really returns. The interface there hides the bolt transaction that
// it embeds.
type backendSnapshot interface {
	Size() int64
	WriteTo(w io.Writer) (int64, error)
	Bucket(name []byte) *bolt.Bucket
	DB() *bolt.DB
	Close() error
}

// Tx is one open read transaction of the database. Its buckets have the same content that WriteTo copies. While it is
// open, pages freed by writers cannot be reused, and neither a defragmentation nor Stop can continue. So always close
// it soon.
type Tx struct {
	snap  backendSnapshot
	abort *latch
	close func() error // may be repeated
}

// Snapshot opens a transaction on the database as it is now, without a quorum and without blocking writers. ctx bounds
// only the wait for a defragmentation. The error is errStopped if the member is not running or is about to stop.
func (m *Member) Snapshot(ctx context.Context) (tx *Tx, err error) {
	defer during(&err, "open snapshot")
	l, err := m.running()
	if err != nil {
		return nil, err
	}
	if err := l.gate.acquire(ctx); err != nil {
		return nil, err
	}
	// Check inside the gate, because Stop first drops abort and then takes the whole gate.
	if l.abort.dropped() {
		l.gate.release()
		return nil, errStopped
	}
	snap := l.etcd.Server.Backend().Snapshot()
	read, ok := snap.(backendSnapshot)
	if !ok {
		l.gate.release()
		return nil, errors.Join(fmt.Errorf("etcd's %T has no buckets", snap), snap.Close())
	}
	return &Tx{snap: read, abort: l.abort, close: sync.OnceValue(func() error {
		// Pages that were read stay in the kernel's cache, but no longer count as memory of this process, which could
		// otherwise be the size of the database. The mapping is the one that was read, because it stays in place while
		// the transaction is open.
		at := read.DB().Info()
		_ = unix.Madvise(unsafe.Slice(*(**byte)(unsafe.Pointer(&at.Data)), read.Size()), unix.MADV_DONTNEED)
		defer l.gate.release()
		return read.Close()
	})}, nil
}

// Size returns the size in bytes of the database, which is also what WriteTo writes.
func (t *Tx) Size() int64 { return t.snap.Size() }

// Bucket returns the bucket of that name, nil if there is none. Do not use it, or what was read from it, after Close:
// the memory is unmapped then.
func (t *Tx) Bucket(name []byte) *bolt.Bucket { return t.snap.Bucket(name) }

// Aborted is closed when the member is about to stop. The member waits for Close, but not long.
func (t *Tx) Aborted() <-chan struct{} { return t.abort.Done() }

// WriteTo writes the database file as of this transaction. Once the member is about to stop, it fails with errStopped
// at the next chunk. A chunk is 32 KiB, or what w reads at a time if it is an io.ReaderFrom.
func (t *Tx) WriteTo(w io.Writer) (int64, error) {
	n, err := t.snap.WriteTo(abortable{w, t.abort})
	if err != nil {
		// bbolt does not wrap an error in its first pages.
		if t.abort.dropped() {
			err = errStopped
		}
		return n, fmt.Errorf("write snapshot: %w", err)
	}
	return n, nil
}

// Close ends the transaction. Further calls do nothing and return the same result.
func (t *Tx) Close() error { return t.close() }

// abortable fails instead of writing or reading once its latch has dropped.
type abortable struct {
	w     io.Writer
	abort *latch
}

func (a abortable) Write(p []byte) (int, error) {
	if a.abort.dropped() {
		return 0, errStopped
	}
	return a.w.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that w can choose the size of the chunks.
func (a abortable) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(a.w, abortableReader{r, a.abort})
}

type abortableReader struct {
	r     io.Reader
	abort *latch
}

func (a abortableReader) Read(p []byte) (int, error) {
	if a.abort.dropped() {
		return 0, errStopped
	}
	return a.r.Read(p)
}
