package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// Tx is one open read transaction of the database. The snapshot of etcd's backend satisfies it.
type Tx interface {
	// Size is the number of bytes WriteTo writes.
	Size() int64
	// WriteTo writes the whole database as the transaction sees it.
	WriteTo(w io.Writer) (int64, error)
	// Bucket is the named top level bucket, nil if there is none.
	Bucket(name []byte) *bbolt.Bucket
	// Close ends the transaction. It is called exactly once: etcd's panics at the second call.
	Close() error
}

// Content says what is in a database. Read inside a transaction, it belongs to exactly the bytes of that transaction.
type Content struct {
	// Revision is the store's revision, as etcd itself would report it after opening these bytes: 1 when empty.
	Revision int64 `json:"revision"`
	// Keys is the number of entries in bucket "key": every kept version of every key and its tombstones. It is not
	// the number of live keys, which cannot be counted in constant memory.
	Keys int64 `json:"keys"`
	// CRC is the CRC-32C of bucket "key", computed as etcd's HashKV does. It equals HashKV where nothing was
	// compacted; in any case it is equal for equal buckets.
	CRC uint32 `json:"crc"`
	// ConsistentIndex is the last raft entry applied to these bytes.
	ConsistentIndex uint64 `json:"consistentIndex"`
	// Term is the term of that entry, 0 in a database last written by etcd 3.4.
	Term uint64 `json:"term"`
	// Size is the size of the database in bytes.
	Size int64 `json:"size"`
}

// ContentOf reads the content of the database tx sees. It returns an error for what is no etcd database, a damaged
// one included, and when ctx ends. It does not close tx.
func ContentOf(ctx context.Context, tx interface {
	Size() int64
	Bucket(name []byte) *bbolt.Bucket
}) (c Content, err error) {
	err = guard(func() error {
		c, err = readContent(ctx, tx.Bucket([]byte("key")), tx.Bucket([]byte("meta")))
		c.Size = tx.Size()
		return err
	})
	if err != nil {
		return Content{}, err
	}
	return c, nil
}

// readContent does the work of ContentOf, and panics where bbolt does.
func readContent(ctx context.Context, keys, meta *bbolt.Bucket) (c Content, err error) {
	if keys == nil || meta == nil {
		return c, errors.New("no bucket key or meta: not an etcd database")
	}
	// etcd's own rule (mvcc/kvstore.go, restore): compaction may have dropped the newest entry, a tombstone; the
	// revision is then the compacted one. An empty store is at 1.
	c.Revision = 1
	for _, name := range []string{"scheduledCompactRev", "finishedCompactRev"} {
		if v := meta.Get([]byte(name)); v != nil {
			rev, err := mainRevision(v)
			if err != nil {
				return c, fmt.Errorf("read %s: %w", name, err)
			}
			c.Revision = max(c.Revision, rev)
		}
	}
	if c.ConsistentIndex, err = number(meta.Get([]byte("consistent_index"))); err != nil {
		return c, fmt.Errorf("read consistent_index: %w", err)
	}
	if c.Term, err = number(meta.Get([]byte("term"))); err != nil {
		return c, fmt.Errorf("read term: %w", err)
	}

	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	sum.Write([]byte("key"))
	var last []byte
	cursor := keys.Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		if c.Keys%1024 == 0 && ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		// Disorder is damage; it is also what a loop in the tree looks like, which would never end.
		if bytes.Compare(k, last) <= 0 {
			return c, fmt.Errorf("entry %x of bucket key follows %x", k, last)
		}
		last = append(last[:0], k...)
		rev, err := mainRevision(k)
		if err != nil {
			return c, fmt.Errorf("read bucket key: %w", err)
		}
		c.Revision = max(c.Revision, rev)
		c.Keys++
		sum.Write(k)
		sum.Write(v)
	}
	c.CRC = sum.Sum32()
	return c, nil
}

// mainRevision decodes the main part of a revision as etcd stores it: 8 bytes, '_', 8 bytes, and 't' for a tombstone.
func mainRevision(b []byte) (int64, error) {
	if len(b) != 17 && (len(b) != 18 || b[17] != 't') || b[8] != '_' {
		return 0, fmt.Errorf("%x is not a revision", b)
	}
	rev := int64(binary.BigEndian.Uint64(b))
	if rev < 0 {
		return 0, fmt.Errorf("revision %d is negative", rev)
	}
	return rev, nil
}

// number decodes a value of bucket meta: 8 bytes, big endian, 0 if absent.
func number(b []byte) (uint64, error) {
	switch len(b) {
	case 0:
		return 0, nil
	case 8:
		return binary.BigEndian.Uint64(b), nil
	}
	return 0, fmt.Errorf("want 8 bytes, got %x", b)
}

// differ returns an error that names every field in which got is not want, nil if they are equal.
func (want Content) differ(got Content) error {
	if want == got {
		return nil
	}
	var errs []error
	for _, f := range []struct {
		name      string
		want, got any
	}{
		{"revision", want.Revision, got.Revision},
		{"keys", want.Keys, got.Keys},
		{"crc", want.CRC, got.CRC},
		{"consistent index", want.ConsistentIndex, got.ConsistentIndex},
		{"term", want.Term, got.Term},
		{"size", want.Size, got.Size},
	} {
		if f.want != f.got {
			errs = append(errs, fmt.Errorf("%s: want %d, got %d", f.name, f.want, f.got))
		}
	}
	return errors.Join(errs...)
}

// guard runs f and turns a panic into an error, a fault in mapped memory included. bbolt answers damage with both,
// and neither may take down the process, which is also the member that serves. It guards f's goroutine only.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("read damaged database: %v", r)
		}
	}()
	return f()
}
