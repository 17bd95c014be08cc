package snapshottest

import (
	"encoding/binary"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// DB is a database with etcd's buckets and etcd's encoding of revisions (server/storage/mvcc/revision.go). It is not
// safe for concurrent use, but its transactions are.
type DB struct {
	t    testing.TB
	bolt *bbolt.DB
	rev  int64
	open atomic.Int64
}

// NewDB returns an empty database, at revision 1, in a directory of the test.
func NewDB(t testing.TB) *DB {
	t.Helper()
	// etcd opens its database with these options too: no freelist on disk.
	b, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600,
		&bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	d := &DB{t: t, bolt: b, rev: 1}
	t.Cleanup(func() {
		if n := d.Open(); n != 0 {
			t.Errorf("transactions left open: want 0, got %d", n)
			return // closing would block
		}
		b.Close()
	})
	d.update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"alarm", "auth", "authRoles", "authUsers", "cluster", "key", "lease", "members",
			"members_removed", "meta"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		meta := tx.Bucket([]byte("meta"))
		if err := meta.Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, 7)); err != nil {
			return err
		}
		return meta.Put([]byte("term"), binary.BigEndian.AppendUint64(nil, 3))
	})
	return d
}

// Path returns the file of the database, which contains everything written so far.
func (d *DB) Path() string { return d.bolt.Path() }

// Put writes a new version of key.
func (d *DB) Put(key, value string) {
	d.t.Helper()
	d.update(func(tx *bbolt.Tx) error { return d.put(tx, key, []byte(value)) })
}

// Fill writes n keys with values of size random bytes each, a thousand per transaction.
func (d *DB) Fill(n, size int) {
	d.t.Helper()
	random := rand.NewChaCha8([32]byte{})
	value := make([]byte, size)
	for n > 0 {
		d.update(func(tx *bbolt.Tx) error {
			for range min(n, 1000) {
				random.Read(value)
				n--
				if err := d.put(tx, "/registry/"+string(binary.BigEndian.AppendUint32(nil, uint32(n))), value); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// Delete writes a tombstone for key.
func (d *DB) Delete(key string) {
	d.t.Helper()
	d.update(func(tx *bbolt.Tx) error { return d.tombstone(tx, key) })
}

// Compact drops the newest entry, as a compaction at a tombstone does, and records it in bucket meta.
func (d *DB) Compact() {
	d.t.Helper()
	d.update(func(tx *bbolt.Tx) error {
		last, _ := tx.Bucket([]byte("key")).Cursor().Last()
		if err := tx.Bucket([]byte("key")).Delete(last); err != nil {
			return err
		}
		return compactedAt(tx, d.rev)
	})
}

// Schedule records in bucket meta that a compaction at rev was begun.
func (d *DB) Schedule(rev int64) {
	d.t.Helper()
	d.update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("scheduledCompactRev"), revision(rev))
	})
}

// compactedAt records in bucket meta that a compaction was begun and finished.
func compactedAt(tx *bbolt.Tx, rev int64) error {
	for _, name := range []string{"scheduledCompactRev", "finishedCompactRev"} {
		if err := tx.Bucket([]byte("meta")).Put([]byte(name), revision(rev)); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) tombstone(tx *bbolt.Tx, key string) error {
	d.rev++
	return d.store(tx, append(revision(d.rev), 't'), &mvccpb.KeyValue{Key: []byte(key)})
}

// marshal encodes a key as etcd does. Up to etcd 3.6 the messages marshal themselves.
func marshal(kv any) ([]byte, error) {
	if m, ok := kv.(interface{ Marshal() ([]byte, error) }); ok {
		return m.Marshal()
	}
	return proto.Marshal(kv.(proto.Message))
}

// Decode decodes a key as etcd encodes it.
func Decode(data []byte, kv *mvccpb.KeyValue) error {
	if m, ok := any(kv).(interface{ Unmarshal([]byte) error }); ok {
		return m.Unmarshal(data)
	}
	return proto.Unmarshal(data, any(kv).(proto.Message))
}

// Begin opens a transaction.
func (d *DB) Begin() *Tx {
	d.t.Helper()
	tx, err := d.bolt.Begin(false)
	if err != nil {
		d.t.Fatal(err)
	}
	d.open.Add(1)
	return &Tx{Tx: tx, db: d}
}

// Open returns the number of open transactions.
func (d *DB) Open() int { return int(d.open.Load()) }

func (d *DB) put(tx *bbolt.Tx, key string, value []byte) error {
	d.rev++
	return d.store(tx, revision(d.rev), &mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: d.rev,
		ModRevision: d.rev, Version: 1})
}

func (d *DB) store(tx *bbolt.Tx, at []byte, kv *mvccpb.KeyValue) error {
	value, err := marshal(kv)
	if err != nil {
		return err
	}
	b := tx.Bucket([]byte("key"))
	b.FillPercent = 0.9 // etcd's, for keys that only grow
	return b.Put(at, value)
}

func (d *DB) update(f func(tx *bbolt.Tx) error) {
	d.t.Helper()
	if err := d.bolt.Update(f); err != nil {
		d.t.Fatal(err)
	}
}

// revision encodes a revision whose sub part is 0.
func revision(main int64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 18), uint64(main))
	return binary.BigEndian.AppendUint64(append(b, '_'), 0)
}

// Tx is a transaction, as strict as etcd's: it panics if it is closed twice.
type Tx struct {
	*bbolt.Tx
	db     *DB
	closed atomic.Bool
}

// Close ends the transaction.
func (t *Tx) Close() error {
	if t.closed.Swap(true) {
		panic("transaction closed twice")
	}
	t.db.open.Add(-1)
	return t.Rollback()
}
