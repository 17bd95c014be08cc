package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// DatabasePath returns the path of the database in a data directory. Rebuild expects it there.
func DatabasePath(dir string) string { return datadir.ToBackendFileName(dir) }

// Database is [DatabasePath].
func (Disk) Database(dir string) string { return DatabasePath(dir) }

// partialWAL is the WAL's name, beside its final place, while a data directory is rebuilt.
const partialWAL = "wal.partial"

// Rebuild turns the data directory dir, which holds only a database, into that of one founder of a new cluster. Slot,
// Token and Peers of spec say which. Founders that begin with equal databases form one cluster, and each may be started
// with Start. When Rebuild returns nil, everything is durable.
//
// Leases, users and versions stay. The members of the database's old cluster are dropped, and so is its alarm NOSPACE.
// The alarm CORRUPT stays. Members of that cluster disagreed on the content, no program can tell which was right, and
// etcd serves nothing until someone runs `etcdctl alarm disarm`. bump, if positive, raises the revision by that much
// and marks everything up to it compacted. So anyone who watches or lists at an old revision is told to start over.
//
// Rebuild does what `etcdutl snapshot restore` does (etcdutl/snapshot/v3_snapshot.go), but in place. It opens the
// database once instead of four times, because each opening reads all pages to find the free ones. It checks neither
// the database's digest nor its pages, which were checked when the file was made. Damage is still an error wherever
// bbolt or etcd panic in the caller's goroutine. But bbolt looks for free pages in a goroutine of its own (db.go,
// freepages), and a damaged page tree ends the process there. A process that must not end checks the pages first, or
// calls Rebuild in another process.
//
// The database is changed in place. So an attempt after a failure needs another copy of it, and an interrupted attempt
// is recognised and refused. dir has a WAL only when everything is done.
func (d Disk) Rebuild(ctx context.Context, dir string, spec plan.Spec, bump int64) (err error) {
	defer during(&err, "rebuild data directory %s", dir)
	if bump < 0 {
		return fmt.Errorf("the revision cannot be raised by %d", bump)
	}
	f, err := newFounder(spec, d.Names)
	if err != nil {
		return err
	}
	if err := databaseOnly(dir); err != nil {
		return err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	member := filepath.Dir(datadir.ToWALDir(dir))
	partial := filepath.Join(member, partialWAL)
	// Write the log first. From here on the directory shows that an attempt was made, and a full disk is noticed before
	// the database is touched.
	for _, step := range []func() error{
		func() error { return guard(func() error { return f.writeLog(partial, datadir.ToSnapDir(dir)) }) },
		func() error { return errors.Join(durable.SyncDir(partial), durable.SyncDir(member)) },
		func() error { // all of it or nothing
			return changeDatabase(DatabasePath(dir), func(tx *bolt.Tx) error {
				if err := checkVersions(tx); err != nil {
					return err
				}
				if err := f.replaceMembers(tx); err != nil || bump == 0 {
					return err
				}
				return raiseRevision(tx, bump)
			})
		},
		func() error { return os.Rename(partial, datadir.ToWALDir(dir)) },
		func() error {
			return errors.Join(durable.SyncDir(datadir.ToSnapDir(dir)), durable.SyncDir(member), durable.SyncDir(dir),
				durable.SyncDir(filepath.Dir(dir)))
		},
	} {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// databaseOnly returns an error unless dir holds a database and nothing else.
func databaseOnly(dir string) error {
	for path := DatabasePath(dir); path != dir; path = filepath.Dir(path) {
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			return err
		}
		if want := filepath.Base(path); !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == want }) {
			return fmt.Errorf("there is no %s", path)
		}
		for _, e := range entries {
			if e.Name() != filepath.Base(path) {
				return fmt.Errorf("%s is there besides the database: a data directory is rebuilt once, and an attempt that "+
					"failed begins with another copy of the database", filepath.Join(filepath.Dir(path), e.Name()))
			}
		}
	}
	return nil
}

// changeDatabase opens a database as etcd does, and changes it in one transaction.
func changeDatabase(path string, change func(*bolt.Tx) error) error {
	return guard(func() error {
		// guard keeps the process alive. After a panic the database is not closed, because that might wait forever for
		// a lock that the panic left behind.
		db, err := bolt.Open(path, 0o600,
			&bolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bolt.FreelistMapType})
		if errors.Is(err, bolterrors.ErrTimeout) {
			err = fmt.Errorf("%w: %s is locked", errLocked, path)
		}
		if err != nil {
			return fmt.Errorf("open database: %w", err)
		}
		return errors.Join(db.Update(change), db.Close())
	})
}

// viewDatabase reads a database on which no etcd runs. It changes nothing.
func viewDatabase(path string, read func(*bolt.Tx) error) error {
	return guard(func() error {
		db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return fmt.Errorf("open database: %w", err)
		}
		return errors.Join(db.View(read), db.Close())
	})
}

// guard runs f, which may panic on a damaged database or when etcd logs Fatal, and turns a panic into an error, even a
// fault in mapped memory. It guards only f's own goroutine.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the data is damaged or not etcd's: %v", r)
		}
	}()
	return f()
}

// during begins an error, if there is one, with what was being done. It is deferred by a function with a named error.
func during(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// checkVersions refuses a database on which this etcd would panic because a newer one made it. An older one, from 3.4
// on, needs no change: etcd raises its versions once all members run (server/storage/schema, membership.Recover).
func checkVersions(tx *bolt.Tx) error {
	if tx.Bucket(schema.Key.Name()) == nil || tx.Bucket(schema.Meta.Name()) == nil {
		return errors.New("it has no bucket key or meta: not an etcd database")
	}
	return databaseNewer(tx)
}

// replaceMembers replaces the cluster in the database by the founder's, at the beginning of its log.
func (f founder) replaceMembers(tx *bolt.Tx) error {
	if err := f.writeMembers(tx); err != nil {
		return err
	}
	// A downgrade of the old cluster does not continue in the new one.
	if b := tx.Bucket(schema.Cluster.Name()); b != nil {
		if err := b.Delete(schema.ClusterDowngradeKeyName); err != nil {
			return err
		}
	}
	if err := removeNoSpace(tx); err != nil {
		return err
	}
	meta := tx.Bucket(schema.Meta.Name())
	return errors.Join(
		meta.Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, f.lastIndex())),
		meta.Put(schema.MetaTermKeyName, binary.BigEndian.AppendUint64(nil, foundingTerm)),
	)
}

// writeMembers makes the founder's cluster the one whose members the database lists.
func (f founder) writeMembers(tx *bolt.Tx) error {
	for _, bucket := range [][]byte{schema.Members.Name(), schema.MembersRemoved.Name()} {
		if tx.Bucket(bucket) != nil {
			if err := tx.DeleteBucket(bucket); err != nil {
				return err
			}
		}
		if _, err := tx.CreateBucket(bucket); err != nil {
			return err
		}
	}
	members := tx.Bucket(schema.Members.Name())
	for _, m := range f.cluster.Members() {
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := members.Put(schema.BackendMemberKey(m.ID), text); err != nil {
			return err
		}
	}
	state, err := json.Marshal(f.confState())
	if err != nil {
		return err
	}
	return tx.Bucket(schema.Meta.Name()).Put(schema.MetaConfStateName, state)
}

// removeNoSpace removes the alarm of a database that was too large for its quota. etcd raises it again if the database
// is too large for ours. See Rebuild for CORRUPT.
func removeNoSpace(tx *bolt.Tx) error {
	alarms := tx.Bucket(schema.Alarm.Name())
	if alarms == nil {
		return nil
	}
	var keys [][]byte
	err := alarms.ForEach(func(k, _ []byte) error {
		var alarm pb.AlarmMember
		if err := unmarshal(k, &alarm); err != nil {
			return fmt.Errorf("read alarms: %w", err)
		}
		if alarm.Alarm == pb.AlarmType_NOSPACE {
			keys = append(keys, k)
		}
		return nil
	})
	for _, k := range keys {
		err = errors.Join(err, alarms.Delete(k))
	}
	return err
}

// raiseRevision writes an entry at the new revision and schedules a compaction up to it, as etcdutl does. etcd compacts
// when it starts. The entry has no value, so etcd reads it as a key without a name. No client can read or watch such a
// key, and compactions keep it. Every member has it, so it is in every member's HashKV.
func raiseRevision(tx *bolt.Tx, bump int64) error {
	last := lastRevision(tx)
	if last > math.MaxInt64-bump {
		return fmt.Errorf("the revision is %d and cannot be raised by %d", last, bump)
	}
	rev := mvcc.RevToBytes(mvcc.Revision{Main: last + bump}, mvcc.NewRevBytes())
	return errors.Join(tx.Bucket(schema.Key.Name()).Put(rev, []byte{}),
		tx.Bucket(schema.Meta.Name()).Put(schema.ScheduledCompactKeyName, rev))
}

// lastRevision returns the revision that etcd will report after opening the database. The rule is etcd's
// (mvcc/kvstore.go, restore): compaction may have dropped the newest entry, a tombstone, and an interrupted compaction
// is continued.
func lastRevision(tx *bolt.Tx) int64 {
	last := int64(1)
	for _, name := range [][]byte{schema.ScheduledCompactKeyName, schema.FinishedCompactKeyName} {
		if v := tx.Bucket(schema.Meta.Name()).Get(name); v != nil {
			last = max(last, mvcc.BytesToRev(v).Main)
		}
	}
	if k, _ := tx.Bucket(schema.Key.Name()).Cursor().Last(); k != nil {
		last = max(last, mvcc.BytesToRev(k).Main)
	}
	return last
}
