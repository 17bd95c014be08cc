package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/datadir"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// DatabasePath is where the database lies in a data directory. Rebuild expects it there.
func DatabasePath(dir string) string { return datadir.ToBackendFileName(dir) }

// Database is [DatabasePath].
func (Disk) Database(dir string) string { return DatabasePath(dir) }

// partialWAL is the WAL's name, beside its place, while a data directory is rebuilt.
const partialWAL = "wal.partial"

// Rebuild makes the data directory dir, which holds nothing but a database, that of one founder of a new cluster, as
// spec says who: Slot, Token and Peers. The founders that begin with equal databases are one cluster, and
// each may be started with Start. Leases, users and versions stay; the members of the cluster the database comes from
// are forgotten, and so is its alarm NOSPACE. The alarm CORRUPT stays: members of that cluster did not agree on what
// the database holds, no program can tell which was right, and etcd serves nothing until somebody has said `etcdctl
// alarm disarm`. bump, if positive, raises the revision by as much and marks everything up to it compacted, so that
// anyone who watches or lists at an old revision is told to start over. When it returns nil everything is durable.
//
// It does what `etcdutl snapshot restore` does (etcdutl/snapshot/v3_snapshot.go), in place and with one opening of the
// database instead of four, each of which reads all its pages to find the free ones. It does not check the database's
// digest nor its pages: who made the file has. A damaged one is an error nonetheless wherever bbolt or etcd panic in
// the caller's goroutine; but bbolt looks for free pages in one of its own (db.go, freepages), and a damaged tree of
// pages ends the process there. A process that must not end checks the pages first, or calls Rebuild in another one.
//
// The database is changed in place: an attempt that failed has to begin with another copy of it, and one that was cut
// short is recognised and refused. dir has a WAL once all is done, not before.
func (d Disk) Rebuild(ctx context.Context, dir string, spec plan.Spec, bump int64) error {
	if err := d.rebuild(ctx, dir, spec, bump); err != nil {
		return fmt.Errorf("rebuild data directory %s: %w", dir, err)
	}
	return nil
}

func (d Disk) rebuild(ctx context.Context, dir string, spec plan.Spec, bump int64) error {
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
	// The log first: from here on the directory says that an attempt was made, and a full disk is noticed before the
	// database is touched.
	for _, step := range []func() error{
		func() error { return guard(func() error { return f.writeLog(partial, datadir.ToSnapDir(dir)) }) },
		func() error { return errors.Join(durable.SyncDir(partial), durable.SyncDir(member)) },
		func() error { return f.adoptDatabase(DatabasePath(dir), bump) },
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
					"failed begins with another copy of the database",
					filepath.Join(filepath.Dir(path), e.Name()))
			}
		}
	}
	return nil
}

// writable opens a database as etcd does.
var writable = &bolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bolt.FreelistMapType}

// adoptDatabase makes the database the founder's, in one transaction: it is either as it was or done.
func (f founder) adoptDatabase(path string, bump int64) error {
	return guard(func() error {
		// Not to end the process when something is wrong. After a panic it is not closed: that
		// might wait forever for a lock the panic has left behind.
		db, err := bolt.Open(path, 0o600, writable)
		if errors.Is(err, bolterrors.ErrTimeout) {
			err = fmt.Errorf("%w: %s is locked", errLocked, path)
		}
		if err != nil {
			return fmt.Errorf("open database: %w", err)
		}
		err = db.Update(func(tx *bolt.Tx) error {
			if err := checkVersions(tx); err != nil {
				return err
			}
			if err := f.replaceMembers(tx); err != nil {
				return err
			}
			if bump > 0 {
				return raiseRevision(tx, bump)
			}
			return nil
		})
		return errors.Join(err, db.Close())
	})
}

// viewDatabase reads a database on which etcd does not run. It changes nothing.
func viewDatabase(path string, read func(*bolt.Tx) error) error {
	return guard(func() error {
		db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return fmt.Errorf("open database: %w", err)
		}
		return errors.Join(db.View(read), db.Close())
	})
}

// guard runs what panics on a damaged database or when etcd says Fatal, and turns that into an error, a fault in mapped
// memory included. It guards f's goroutine only.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the data is damaged or not etcd's: %v", r)
		}
	}()
	return f()
}
