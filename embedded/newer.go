package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"holdfast/embedded/plan"
)

// errNewer: the cluster's version is above that of the etcd in this binary, which would panic on the data.
var errNewer = errors.New("the data is of a newer etcd")

// newer returns an errNewer if a version is of a later minor than our etcd. Our etcd can open data of an earlier one.
func newer(made string) error {
	v, known := plan.MinorOf(made)
	switch {
	case !known:
		return fmt.Errorf("%q is not a version", made)
	case !plan.Older(version.Version, made):
		return nil
	}
	return fmt.Errorf("%w: it was made by etcd %s, and this holdfast embeds %s, which cannot open it: use a holdfast "+
		"that embeds etcd %s or newer", errNewer, v, version.Version, v)
}

// checkNewer refuses a data directory whose database is of a newer etcd. It has either a cluster version on which our
// etcd panics (etcdserver/version, MustDetectDowngrade) or a storage version that it cannot read.
func checkNewer(dir string) error {
	path := DatabasePath(dir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := viewDatabase(path, databaseNewer); err != nil {
		return fmt.Errorf("check the version of %s: %w", path, err)
	}
	return nil
}

// databaseNewer returns an errNewer if a newer etcd has made the database. A member that never ran may leave a database
// without these buckets.
func databaseNewer(tx *bolt.Tx) error {
	if tx.Bucket(schema.Meta.Name()) != nil {
		if v := schema.ReadStorageVersionFromSnapshot(tx); v != nil {
			if err := newer(v.String()); err != nil {
				return err
			}
		}
	}
	if b := tx.Bucket(schema.Cluster.Name()); b != nil {
		if v := b.Get(schema.ClusterClusterVersionKeyName); v != nil {
			return newer(string(v))
		}
	}
	return nil
}

// requestNewer returns an errNewer if a request in the log raises the cluster version above ours. The database may not
// contain that version yet.
func requestNewer(r *pb.InternalRaftRequest) error {
	if r.ClusterVersionSet == nil {
		return nil
	}
	return newer(r.ClusterVersionSet.Ver)
}
