package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/coreos/go-semver/semver"
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

// Abortable is a Tx whose member may want it closed. Save closes it soon after Aborted is.
type Abortable interface{ Aborted() <-chan struct{} }

// Content says what is in a database. Read inside a transaction, it belongs to exactly the bytes of that transaction.
type Content struct {
	// Revision is the store's revision, as etcd itself would report it after opening these bytes: 1 when empty.
	Revision int64 `json:"revision"`
	// Keys is the number of entries in bucket "key": every kept version of every key and its tombstones. It is not
	// the number of live keys, which cannot be counted in constant memory.
	Keys int64 `json:"keys"`
	// CRC is the CRC-32C of bucket "key" with its name, every entry of it.
	CRC uint32 `json:"crc"`
	// CompactRevision is the revision up to which the history was compacted, as HashKV reports it: -1 if it never was.
	CompactRevision int64 `json:"compactRevision"`
	// HashKV is what etcd's HashKV answers for these bytes at Revision and CompactRevision. It is 0, unknown, where a
	// compaction was under way, and where more than a million keys have changed since the last one.
	HashKV uint32 `json:"hashKV"`
	// ConsistentIndex is the last raft entry applied to these bytes.
	ConsistentIndex uint64 `json:"consistentIndex"`
	// Term is the term of that entry, 0 in a database last written by etcd 3.4.
	Term uint64 `json:"term"`
	// Size is the size of the database in bytes.
	Size int64 `json:"size"`
}

// ContentOf reads the content of the database that tx sees. It returns an error if that is no etcd database, or a
// damaged one, and when ctx ends. It does not close tx.
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
	finished, scheduled, err := compacted(meta)
	if err != nil {
		return c, err
	}
	// etcd's own rule (mvcc/kvstore.go, restore): compaction may have dropped the newest entry, a tombstone; the
	// revision is then the compacted one. An empty store is at 1.
	c.CompactRevision = max(finished, scheduled)
	c.Revision = max(1, c.CompactRevision)
	if c.ConsistentIndex, err = number(meta.Get([]byte("consistent_index"))); err != nil {
		return c, fmt.Errorf("read consistent_index: %w", err)
	}
	if c.Term, err = number(meta.Get([]byte("term"))); err != nil {
		return c, fmt.Errorf("read term: %w", err)
	}

	kv, err := newKVHash(ctx, keys, c.CompactRevision, finished == scheduled)
	if err != nil {
		return c, err
	}
	c.CRC = crc32.Checksum([]byte("key"), castagnoli)
	err = entries(ctx, keys.Cursor(), nil, func(k, v []byte, rev int64) error {
		c.Revision = max(c.Revision, rev)
		c.Keys++
		c.CRC = crc32.Update(crc32.Update(c.CRC, castagnoli, k), castagnoli, v)
		return kv.add(k, v, rev)
	})
	c.HashKV = kv.result()
	return c, err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// compacted returns the revisions of the last compaction that was finished and of the last that was begun, -1 for none.
func compacted(meta *bbolt.Bucket) (finished, scheduled int64, err error) {
	finished, scheduled = -1, -1
	for name, to := range map[string]*int64{"finishedCompactRev": &finished, "scheduledCompactRev": &scheduled} {
		if v := meta.Get([]byte(name)); v != nil {
			if *to, err = mainRevision(v); err != nil {
				return 0, 0, fmt.Errorf("read %s: %w", name, err)
			}
		}
	}
	return finished, scheduled, nil
}

// storageVersionOf returns what the database that tx sees says of its schema, "" if that is nothing that etcd takes for
// a version.
func storageVersionOf(tx Tx) (version string, err error) {
	err = guard(func() error {
		meta := tx.Bucket([]byte("meta"))
		if meta == nil {
			return errors.New("no bucket meta: not an etcd database")
		}
		if v, err := semver.NewVersion(string(meta.Get([]byte("storageVersion")))); err == nil {
			version = v.String()
		}
		return nil
	})
	return version, err
}

// loadStep is how many bytes the kernel is asked for at a time. Of more, it reads only what it would read ahead, which
// is this much by default.
const loadStep = 128 << 10

// load makes the kernel read what it has not in memory of the database, in the order of the file. bbolt lets it read
// only the single page that is missing at the moment.
func load(ctx context.Context, tx Tx) error {
	return guard(func() error {
		keys := tx.Bucket([]byte("key"))
		if keys == nil {
			return nil // which ContentOf explains
		}
		for data := mapped(keys.Tx().DB(), tx.Size()); len(data) > 0 && ctx.Err() == nil; {
			step := min(len(data), loadStep)
			willNeed(data[:step])
			data = data[step:]
		}
		return context.Cause(ctx)
	})
}

// entries calls visit for every entry of bucket "key" from the revision on, nil for the first, in their order.
func entries(ctx context.Context, cursor *bbolt.Cursor, from []byte, visit func(k, v []byte, rev int64) error) error {
	var last []byte
	count := 0
	for k, v := cursor.Seek(from); k != nil; k, v = cursor.Next() {
		if count%1024 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			runtime.Gosched() // the member that serves runs in this process
		}
		count++
		// Disorder is damage; it is also what a loop in the tree looks like, which would never end.
		if bytes.Compare(k, last) <= 0 {
			return fmt.Errorf("entry %x of bucket key follows %x", k, last)
		}
		last = append(last[:0], k...)
		rev, err := mainRevision(k)
		if err != nil {
			return fmt.Errorf("read bucket key: %w", err)
		}
		if err := visit(k, v, rev); err != nil {
			return err
		}
	}
	return nil
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
	if want.HashKV == 0 || got.HashKV == 0 { // not known
		got.HashKV, got.CompactRevision = want.HashKV, want.CompactRevision
	}
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
		{"compact revision", want.CompactRevision, got.CompactRevision},
		{"hash of keys and values", want.HashKV, got.HashKV},
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
