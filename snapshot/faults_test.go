package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// faulty is a store with faults on demand.
type faulty struct {
	snapshot.Store
	put func(ctx context.Context, name string, r io.Reader) error
	get func(name string, r io.ReadCloser) (io.ReadCloser, error)
	// reserve is what PutIfAbsent waits for, ignoring its context.
	reserve func()
	// lost is the end of the names that PutIfAbsent acknowledges and does not store.
	lost string
}

func (f faulty) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if f.reserve != nil {
		f.reserve()
		ctx = context.WithoutCancel(ctx)
	}
	if f.lost != "" && strings.HasSuffix(name, f.lost) {
		return nil
	}
	return f.Store.PutIfAbsent(ctx, name, data)
}

func (f faulty) Put(ctx context.Context, name string, r io.Reader) error {
	if f.put != nil {
		return f.put(ctx, name, r)
	}
	return f.Store.Put(ctx, name, r)
}

func (f faulty) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := f.Store.Get(ctx, name)
	if err == nil && f.get != nil {
		return f.get(name, r)
	}
	return r, err
}

// forgetful returns a store that acknowledges sidecars and does not keep them, as a proxy does that answers with status
// 200 and an error in the body.
func forgetful(s snapshot.Store) snapshot.Store {
	return faulty{Store: s, lost: "holdfast.meta.json", put: func(ctx context.Context, name string, r io.Reader) error {
		if strings.HasSuffix(name, "holdfast.meta.json") {
			_, err := io.Copy(io.Discard, r)
			return err
		}
		return s.Put(ctx, name, r)
	}}
}

// brokenTx fails in the middle of the copy.
type brokenTx struct{ *snapshottest.Tx }

func (t brokenTx) WriteTo(w io.Writer) (int64, error) {
	n, _ := w.Write(make([]byte, 4096))
	return int64(n), errors.New("disk error")
}

// shortTx ends before its size.
type shortTx struct{ *snapshottest.Tx }

func (t shortTx) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, 4096))
	return int64(n), err
}

// TestSaveFails causes a fault at each step. In each case the transaction is closed (the database's cleanup checks
// that), no backup is listed, and nothing is left in the store.
func TestSaveFails(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		tx    func(tx *snapshottest.Tx) snapshot.Tx
		store func(s snapshot.Store) snapshot.Store
		want  string
	}{
		"database cannot be read": {
			tx:   func(tx *snapshottest.Tx) snapshot.Tx { return brokenTx{tx} },
			want: "copy database: disk error",
		},
		"database ends early": {
			tx:   func(tx *snapshottest.Tx) snapshot.Tx { return shortTx{tx} },
			want: "copy database: want ",
		},
		"store fails at once": {
			store: func(s snapshot.Store) snapshot.Store {
				return faulty{Store: s, put: func(context.Context, string, io.Reader) error { return boom }}
			},
			want: "store backup: boom",
		},
		"store fails midway": {
			store: func(s snapshot.Store) snapshot.Store {
				return faulty{Store: s, put: func(_ context.Context, _ string, r io.Reader) error {
					_, _ = io.ReadFull(r, make([]byte, 100))
					return boom
				}}
			},
			want: "store backup: boom",
		},
		"store takes a part for the whole": {
			store: func(s snapshot.Store) snapshot.Store {
				return faulty{Store: s, put: func(ctx context.Context, name string, r io.Reader) error {
					return s.Put(ctx, name, io.LimitReader(r, 100))
				}}
			},
			want: "store backup: the store stopped reading",
		},
		"sidecar cannot be stored": {
			store: func(s snapshot.Store) snapshot.Store {
				return faulty{Store: s, put: func(ctx context.Context, name string, r io.Reader) error {
					if strings.HasSuffix(name, ".json") {
						return errors.Join(s.Put(ctx, name, r), boom) // it succeeded, but the answer was lost
					}
					return s.Put(ctx, name, r)
				}}
			},
			want: "store sidecar: boom",
		},
		"sidecar is acknowledged and not stored": {
			store: func(s snapshot.Store) snapshot.Store { return forgetful(s) },
			want:  "read the sidecar back: ",
		},
		"store changes a byte": {
			store: func(s snapshot.Store) snapshot.Store {
				return faulty{Store: s, put: func(ctx context.Context, name string, r io.Reader) error {
					b, err := io.ReadAll(r)
					if err != nil {
						return err
					}
					b[len(b)/2] ^= 1
					return s.Put(ctx, name, bytes.NewReader(b))
				}}
			},
			want: "stored bytes: want sha256 ",
		},
		"store loses the end": {
			store: func(s snapshot.Store) snapshot.Store {
				return faulty{Store: s, get: func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
					return struct {
						io.Reader
						io.Closer
					}{io.LimitReader(r, 100), r}, nil
				}}
			},
			want: "stored size: want ",
		},
		"store breaks while reading back": {
			store: func(s snapshot.Store) snapshot.Store {
				return faulty{Store: s, get: func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
					return struct {
						io.Reader
						io.Closer
					}{io.MultiReader(io.LimitReader(r, 100), &breaksOnce{err: boom}), r}, nil
				}}
			},
			want: "read stored bytes: boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := snapshottest.NewDB(t)
			db.Fill(100, 1000)
			root := t.TempDir()
			var tx snapshot.Tx = db.Begin()
			if test.tx != nil {
				tx = test.tx(tx.(*snapshottest.Tx))
			}
			var store snapshot.Store = snapshot.NewDir(root)
			if test.store != nil {
				store = test.store(store)
			}
			_, err := snapshot.Save(t.Context(), store, tx, identity, snapshot.Options{Scratch: t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Save: want an error with %q, got %v", test.want, err)
			}
			if got := files(t, root); len(got) != 1 {
				t.Errorf("store: want only its hidden directory, got %v", got)
			}
		})
	}
}

// breaksOnce fails once and then pretends to be at its end, as a connection does.
type breaksOnce struct{ err error }

func (b *breaksOnce) Read([]byte) (int, error) {
	err := b.err
	b.err = io.EOF
	return 0, err
}

// TestSaveReleasesTx lets the store hang and ignore everything. The transaction must still be closed when the context
// ends, and when nothing has moved for a minute.
func TestSaveReleasesTx(t *testing.T) {
	for name, cancelled := range map[string]bool{"context ends": true, "store stalls": false} {
		t.Run(name, func(t *testing.T) {
			db := snapshottest.NewDB(t)
			db.Fill(7000, 4000) // more than is in progress at a time
			dir, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wake := make(chan struct{})
				store := faulty{Store: dir, put: func(_ context.Context, _ string, r io.Reader) error {
					_, _ = io.ReadFull(r, make([]byte, 10))
					<-wake
					return errors.New("woken")
				}}
				done := make(chan error)
				go func() {
					_, err := snapshot.Save(ctx, store, db.Begin(), identity, snapshot.Options{Scratch: scratch})
					done <- err
				}()
				synctest.Wait()
				if got := db.Open(); got != 1 {
					t.Fatalf("open transactions while copying: want 1, got %d", got)
				}
				want := "accepted nothing"
				if cancelled {
					cancel()
					want = "canceled"
				} else {
					time.Sleep(61 * time.Second)
				}
				synctest.Wait()
				if got := db.Open(); got != 0 {
					t.Errorf("open transactions: want 0, got %d", got)
				}
				close(wake)
				if err := <-done; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Save: want an error with %q, got %v", want, err)
				}
			})
		})
	}
}

// TestSaveReleasesTxEarly lets the store hang before the first byte. If a name is reserved late, nothing is left of it.
func TestSaveReleasesTxEarly(t *testing.T) {
	db := smallDB(t)
	dir, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake, done := make(chan struct{}), make(chan error)
		store := faulty{Store: dir, reserve: func() { <-wake }}
		go func() {
			_, err := snapshot.Save(ctx, store, db.Begin(), identity, snapshot.Options{Scratch: scratch})
			done <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := db.Open(); got != 0 {
			t.Errorf("open transactions: want 0, got %d", got)
		}
		close(wake)
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Save: want %v, got %v", context.Canceled, err)
		}
	})
	if left, err := dir.List(t.Context(), ""); err != nil || len(left) > 0 {
		t.Errorf("left in the store: %v, %v", left, err)
	}
}

// TestSaveSlowStore takes minutes, but always makes progress: that is not a stall.
func TestSaveSlowStore(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Fill(600, 1000)
	dir, scratch := snapshot.NewDir(t.TempDir()), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := faulty{Store: dir, put: func(ctx context.Context, name string, r io.Reader) error {
			return dir.Put(ctx, name, readerFunc(func(p []byte) (int, error) {
				time.Sleep(40 * time.Second) // once for each chunk that it is given
				return r.Read(p)
			}))
		}}
		start := time.Now()
		if _, err := snapshot.Save(t.Context(), store, db.Begin(), identity, snapshot.Options{Scratch: scratch}); err != nil {
			t.Errorf("Save: want no error, got %v", err)
		}
		if took := time.Since(start); took < 2*time.Minute {
			t.Errorf("the store was not slow: %s", took)
		}
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestSaveClosesEarly wants the transaction closed before the store has finished.
func TestSaveClosesEarly(t *testing.T) {
	db := smallDB(t)
	dir := snapshot.NewDir(t.TempDir())
	store := faulty{Store: dir, put: func(ctx context.Context, name string, r io.Reader) error {
		err := dir.Put(ctx, name, r)
		if got := db.Open(); got != 0 {
			t.Errorf("open transactions when %s was stored: want 0, got %d", name, got)
		}
		return err
	}}
	if _, err := snapshot.Save(t.Context(), store, db.Begin(), identity, snapshot.Options{Scratch: t.TempDir()}); err != nil {
		t.Error(err)
	}
}

func TestSaveRefusesCluster(t *testing.T) {
	db := smallDB(t)
	for _, cluster := range []string{"", "..", "a/b", "a b"} {
		if _, err := snapshot.Save(t.Context(), snapshot.NewDir(t.TempDir()), db.Begin(), snapshot.Meta{Cluster: cluster}, snapshot.Options{}); err == nil {
			t.Errorf("Save for cluster %q: want an error", cluster)
		}
	}
}
