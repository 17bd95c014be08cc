package embedded

import (
	"errors"
	"testing"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

// etcd is not started on a database or a log of a newer etcd, whether or not the log is trusted.
func TestNewer(t *testing.T) {
	n := found(t, "a")[0]
	stop(t, n, 0)
	if err := checkNewer(n.spec.DataDir); err != nil {
		t.Fatalf("our own data: %v", err)
	}
	for name, in := range map[string]struct {
		bucket []byte
		key    []byte
	}{
		"cluster version": {schema.Cluster.Name(), schema.ClusterClusterVersionKeyName},
		"storage version": {schema.Meta.Name(), schema.MetaStorageVersionName},
	} {
		before := set(t, n.spec.DataDir, in.bucket, in.key, "3.99.0")
		n.spec.TrustWAL = true
		if err := n.begin(t); !errors.Is(err, errNewer) {
			t.Errorf("%s: got %v, want errNewer", name, err)
		}
		set(t, n.spec.DataDir, in.bucket, in.key, before)
	}
	n.spec.TrustWAL = false
	n.run(t).awaitReady(t)
}

// set writes a key of a database and returns its previous value.
func set(t *testing.T, dir string, bucket, key []byte, value string) (before string) {
	t.Helper()
	db, err := bolt.Open(DatabasePath(dir), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(func(tx *bolt.Tx) error {
		before = string(tx.Bucket(bucket).Get(key))
		return tx.Bucket(bucket).Put(key, []byte(value))
	}); err != nil {
		t.Fatal(err)
	}
	return before
}

func TestNewerInLog(t *testing.T) {
	raised := func(v string) []byte {
		data, err := marshal(&pb.InternalRaftRequest{Header: &pb.RequestHeader{ID: 1}, ClusterVersionSet: &membershippb.ClusterVersionSetRequest{Ver: v}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for version, want := range map[string]error{"3.6.0": nil, version.Cluster(version.Version) + ".0": nil, "3.99.0": errNewer} {
		dir := t.TempDir()
		makeWAL(t, dir, entry(1, 1, request(t)), entry(1, 2, raised(version)), entry(1, 3, request(t)))
		if err := checkWAL(dir); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", version, err, want)
		}
	}
}
