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

// backendSnapshot is what etcd's backend.Snapshot really returns: the interface hides the
// bolt transaction it embeds.
type backendSnapshot interface {
	Size() int64
	WriteTo(w io.Writer) (int64, error)
	Bucket(name []byte) *bolt.Bucket
	DB() *bolt.DB
	Close() error
}

// Tx is one open read transaction of the database: what is read from its buckets is what
// WriteTo copies. While it is open pages freed by writers cannot be reused, and neither a
// defragmentation nor Stop can continue: close it soon, always.
type Tx struct {
	snap  backendSnapshot
	abort *latch
	close func() error // again is fine
}

// Snapshot opens a transaction on the database as it is now, without a quorum and without
// blocking writers. ctx bounds only the wait for a defragmentation. errStopped when the
// member is not running or is about to stop.
func (m *Member) Snapshot(ctx context.Context) (*Tx, error) {
	l, err := m.running()
	if err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	if err := l.gate.acquire(ctx); err != nil {
		return nil, fmt.Errorf("open snapshot: %w", err)
	}
	// Looked at inside the gate: Stop drops abort first and then takes all of the gate.
	if l.abort.dropped() {
		l.gate.release()
		return nil, fmt.Errorf("open snapshot: %w", errStopped)
	}
	snap := l.etcd.Server.Backend().Snapshot()
	tx, ok := snap.(backendSnapshot)
	if !ok {
		l.gate.release()
		return nil, errors.Join(fmt.Errorf("open snapshot: etcd's %T has no buckets", snap), snap.Close())
	}
	return &Tx{snap: tx, abort: l.abort, close: sync.OnceValue(func() error {
		// What was read stays in the kernel's cache, but is no longer counted as this process's memory: it would be the
		// whole database. The mapping is the one that was read from as long as the transaction is open.
		at := tx.DB().Info()
		_ = unix.Madvise(unsafe.Slice(*(**byte)(unsafe.Pointer(&at.Data)), tx.Size()), unix.MADV_DONTNEED)
		defer l.gate.release()
		return tx.Close()
	})}, nil
}

// Size is the size of the database in bytes, and of what WriteTo writes.
func (t *Tx) Size() int64 { return t.snap.Size() }

// Bucket returns the bucket of that name, nil if there is none. It and what is read from
// it must not be used after Close: the memory is gone then.
func (t *Tx) Bucket(name []byte) *bolt.Bucket { return t.snap.Bucket(name) }

// Aborted is closed once the member is about to stop, which waits for Close, but not long.
func (t *Tx) Aborted() <-chan struct{} { return t.abort.C() }

// WriteTo writes the database file as of this transaction. It fails with errStopped at the
// next chunk, 32 KiB or what w as an io.ReaderFrom reads at a time, once the member is about to stop.
func (t *Tx) WriteTo(w io.Writer) (int64, error) {
	n, err := t.snap.WriteTo(abortable{w, t.abort})
	if err != nil {
		// bbolt formats the error of its first pages without wrapping it.
		if t.abort.dropped() {
			err = errStopped
		}
		return n, fmt.Errorf("write snapshot: %w", err)
	}
	return n, nil
}

// Close ends the transaction. Calling it again does nothing and returns the same.
func (t *Tx) Close() error { return t.close() }

// abortable fails instead of writing, or reading to write, once its latch has dropped.
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

// ReadFrom implements io.ReaderFrom: w chooses the size of the pieces, if it can.
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
