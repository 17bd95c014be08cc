package snapshot_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// stagedTx is a transaction whose reading a test controls.
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

// TestSaveSlowContent reads the content for minutes. No store waits meanwhile, so that is not a stall.
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

// TestSaveStopsReading ends a save while the content is read. The reading, and with it the transaction, must end before
// the next entry. The number of cursors shows how much is read.
func TestSaveStopsReading(t *testing.T) {
	for name, test := range map[string]struct {
		stops bool
		want  string
	}{
		"the caller gives up": {want: "store backup: context canceled"},
		"the member stops":    {stops: true, want: "copy database: the member is about to stop"},
	} {
		t.Run(name, func(t *testing.T) {
			db := smallDB(t)
			db.Compact()
			db.Put("d", "4") // so that entries are read twice
			whole := db.Begin()
			defer whole.Close()
			before := cursors(whole)
			_, err := snapshot.ContentOf(t.Context(), whole)
			must(t, err)
			all := cursors(whole) - before
			dir, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tx := stagedTx{Tx: db.Begin(), aborted: make(chan struct{})}
				tx.keys = func() *bbolt.Bucket {
					before = cursors(tx.Tx)
					if test.stops {
						close(tx.aborted)
					} else {
						cancel()
					}
					time.Sleep(time.Second)
					return tx.Tx.Bucket([]byte("key"))
				}
				start := time.Now()
				_, err := snapshot.Save(ctx, dir, tx, identity, snapshot.Options{Scratch: scratch})
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

// TestSaveDamagedContent finds damaged content. Nothing may be copied, and the store must not be asked.
func TestSaveDamagedContent(t *testing.T) {
	tx := stagedTx{Tx: smallDB(t).Begin()}
	tx.keys = func() *bbolt.Bucket { return nil }
	tx.writeTo = func(io.Writer) (int64, error) { t.Error("the database was copied"); return 0, io.ErrUnexpectedEOF }
	dir := t.TempDir()
	_, err := snapshot.Save(t.Context(), snapshot.NewDir(dir), tx, identity, snapshot.Options{Scratch: t.TempDir()})
	if err == nil || !strings.HasPrefix(err.Error(), "read database: ") {
		t.Errorf("Save: want that the database cannot be read, got %v", err)
	}
	if got := files(t, dir); len(got) > 0 {
		t.Errorf("store: want nothing, got %v", got)
	}
}
