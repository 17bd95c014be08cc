package snapshot_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// stagedTx is a transaction with other ways to read it.
type stagedTx struct {
	*snapshottest.Tx
	writeTo func(w io.Writer) (int64, error)
	keys    func() *bbolt.Bucket
	aborted chan struct{}
}

func (t stagedTx) Aborted() <-chan struct{} { return t.aborted }

func (t stagedTx) WriteTo(w io.Writer) (int64, error) {
	if t.writeTo == nil {
		return t.Tx.WriteTo(w)
	}
	return t.writeTo(w)
}

func (t stagedTx) Bucket(name []byte) *bbolt.Bucket {
	if t.keys == nil || string(name) != "key" {
		return t.Tx.Bucket(name)
	}
	return t.keys()
}

// TestSaveSlowContent reads the content for minutes after the file is copied. The store waits for us: that is no stall.
func TestSaveSlowContent(t *testing.T) {
	db := smallDB(t)
	store, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		tx := stagedTx{Tx: db.Begin()}
		tx.keys = func() *bbolt.Bucket {
			time.Sleep(5 * time.Minute)
			return tx.Tx.Bucket([]byte("key"))
		}
		if _, err := snapshot.Save(t.Context(), store, tx, identity, snapshot.Options{Scratch: scratch}); err != nil {
			t.Errorf("Save: want no error, got %v", err)
		}
	})
}

// TestSaveStopsReading fails to store, or stops the member, while the content is read, and wants that this ends before its next
// entry, and the transaction with it. How much is read shows in the number of cursors.
func TestSaveStopsReading(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		put   error
		stops bool
		want  string
	}{
		"the store fails":  {put: boom, want: "store backup: boom"},
		"the member stops": {stops: true, want: "copy database: the member is about to stop"},
	} {
		t.Run(name, func(t *testing.T) {
			db := smallDB(t)
			db.Compact()
			db.Put("d", "4") // so that entries are gone through twice
			whole := db.Begin()
			defer whole.Close()
			before := cursors(whole)
			_, err := snapshot.ContentOf(t.Context(), whole)
			must(t, err)
			all := cursors(whole) - before
			dir, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				tx := stagedTx{Tx: db.Begin(), aborted: make(chan struct{})}
				tx.keys = func() *bbolt.Bucket {
					before = cursors(tx.Tx)
					if test.stops {
						close(tx.aborted)
					}
					time.Sleep(time.Second)
					return tx.Tx.Bucket([]byte("key"))
				}
				store := faulty{Store: dir}
				if test.put != nil {
					store.put = func(context.Context, string, io.Reader) error { return test.put }
				}
				start := time.Now()
				_, err := snapshot.Save(t.Context(), store, tx, identity, snapshot.Options{Scratch: scratch})
				if err == nil || err.Error() != test.want {
					t.Errorf("Save: want %q, got %v", test.want, err)
				}
				if got := cursors(tx.Tx) - before; got >= all || time.Since(start) != time.Second {
					t.Errorf("want fewer cursors than the %d of the whole content within 1 s, got %d in %s", all, got, time.Since(start))
				}
			})
		})
	}
}

func cursors(tx *snapshottest.Tx) int64 {
	stats := tx.Stats()
	return stats.GetCursorCount()
}

// TestSaveStopsCopying finds the content damaged, and wants that nothing is copied, also where the store accepts nothing.
func TestSaveStopsCopying(t *testing.T) {
	for name, hangs := range map[string]bool{"the store takes all": false, "the store hangs": true} {
		t.Run(name, func(t *testing.T) {
			db := smallDB(t)
			dir, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var n int64
				tx := stagedTx{Tx: db.Begin(), writeTo: func(w io.Writer) (_ int64, err error) {
					n, err = io.Copy(w, io.LimitReader(rand.NewChaCha8([32]byte{}), 256<<20))
					return n, err
				}}
				tx.keys = func() *bbolt.Bucket { return nil }
				store := faulty{Store: dir}
				if hangs {
					store.put = func(ctx context.Context, _ string, _ io.Reader) error { <-ctx.Done(); return ctx.Err() }
				}
				start := time.Now()
				_, err := snapshot.Save(t.Context(), store, tx, identity, snapshot.Options{Scratch: scratch})
				if err == nil || !strings.HasPrefix(err.Error(), "read database: ") || n > 0 || time.Since(start) != 0 {
					t.Errorf("Save: want at once that the database cannot be read, got %v after %s and %d bytes", err, time.Since(start), n)
				}
			})
		})
	}
}
