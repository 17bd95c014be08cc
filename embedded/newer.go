package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/coreos/go-semver/semver"
	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// errNewer: the cluster's version is above that of the etcd in this binary, which would panic on the data.
var errNewer = errors.New("the data is of a newer etcd")

// newer returns an errNewer if v is of a later minor version than our etcd. Our etcd can open data of an earlier one.
func newer(v *semver.Version) error {
	server := semver.Must(semver.NewVersion(version.Version))
	if v == nil || !(semver.Version{Major: server.Major, Minor: server.Minor}).LessThan(*v) {
		return nil
	}
	return fmt.Errorf("%w: it was made by etcd %d.%d, and this holdfast embeds %s, which cannot open it: use a holdfast "+
		"that embeds etcd %d.%d or newer",
		errNewer, v.Major, v.Minor, version.Version, v.Major, v.Minor)
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
		if err := newer(schema.ReadStorageVersionFromSnapshot(tx)); err != nil {
			return err
		}
	}
	if b := tx.Bucket(schema.Cluster.Name()); b != nil {
		if text := b.Get(schema.ClusterClusterVersionKeyName); text != nil {
			v, err := semver.NewVersion(string(text))
			if err != nil {
				return fmt.Errorf("read cluster version: %w", err)
			}
			return newer(v)
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
	v, err := semver.NewVersion(r.ClusterVersionSet.Ver)
	if err != nil {
		return fmt.Errorf("read the cluster version in the log: %w", err)
	}
	return newer(v)
}
