package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

func TestRebuild(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	for name, test := range map[string]func(*testing.T, source){
		"cluster": testRebuildCluster, "same": testRebuildSame, "refused": testRebuildRefused, "alarms": testRebuildAlarms,
		"odd": testRebuildOdd, "members": testRebuildMembers, "etcdutl": testRebuildAsEtcdutl,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// source is a database and what its member said of it.
type source struct {
	file      string
	revision  int64
	compacted int64
	hash      uint32
	lease     clientv3.LeaseID
}

// newSource runs a cluster of one and saves its database: keys with a history, a tombstone, a compaction, a lease with
// a key, users and passwords, and a removed member.
func newSource(t *testing.T) source {
	t.Helper()
	n := found(t, "a")[0]
	c := n.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for i := range 50 {
		put(t, c, fmt.Sprintf("k%d", i%10), fmt.Sprint(i))
	}
	added, err := c.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"})
	check(t, err)
	_, err = c.MemberRemove(ctx, added.Member.ID)
	check(t, err)
	_, err = c.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:2"})
	check(t, err)
	compacted := put(t, c, "k3", "again") - 10
	_, err = c.Compact(ctx, compacted, clientv3.WithCompactPhysical())
	check(t, err)
	_, err = c.Delete(ctx, "k1")
	check(t, err)
	lease, err := c.Grant(ctx, 300)
	check(t, err)
	_, err = c.Put(ctx, "/registry/masterleases/10.0.0.1", "here", clientv3.WithLease(lease.ID))
	check(t, err)
	_, err = c.RoleAdd(ctx, "reader")
	check(t, err)
	_, err = c.RoleGrantPermission(ctx, "reader", "k", "l", clientv3.PermissionType(clientv3.PermRead))
	check(t, err)
	for _, user := range []string{"root", "rita"} {
		_, err = c.UserAdd(ctx, user, "secret")
		check(t, err)
	}
	_, err = c.UserGrantRole(ctx, "root", "root")
	check(t, err)
	_, err = c.UserGrantRole(ctx, "rita", "reader")
	check(t, err)
	_, err = c.AuthEnable(ctx)
	check(t, err)
	s := source{file: filepath.Join(t.TempDir(), "db"), lease: lease.ID, compacted: compacted}
	hash, rev, err := n.current().etcd.Server.KV().HashStorage().HashByRev(0)
	check(t, err)
	s.hash, s.revision = hash.Hash, rev
	saveTo(t, n, s.file)
	stop(t, n, 0)
	return s
}

func saveTo(t *testing.T, n *node, path string) {
	t.Helper()
	tx, err := n.Snapshot(t.Context())
	check(t, err)
	defer tx.Close()
	f, err := os.Create(path)
	check(t, err)
	_, err = tx.WriteTo(f)
	check(t, errors.Join(err, f.Close()))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place puts a copy of a database into a new data directory.
func place(t *testing.T, file string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "etcd")
	placeAt(t, file, dir)
	return dir
}

func placeAt(t *testing.T, file, dir string) {
	t.Helper()
	data, err := os.ReadFile(file)
	check(t, err)
	check(t, os.MkdirAll(filepath.Dir(DatabasePath(dir)), 0o700))
	check(t, os.WriteFile(DatabasePath(dir), data, 0o600))
}

func lone() plan.Spec {
	return plan.Spec{Slot: "x", Token: "test@2", Peers: map[string]string{"x": "http://x.test.holdfast.internal:2380"}}
}

// edit changes a database by hand.
func edit(t *testing.T, path string, change func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	check(t, err)
	check(t, errors.Join(db.Update(change), db.Close()))
}

// Three founders made from one database are one cluster with all its content. Nobody who watched it before can continue
// as if nothing had happened.
func testRebuildCluster(t *testing.T, s source) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	const bump = 1_000_000
	peers := map[string]string{}
	var nodes []*node
	for _, slot := range []string{"a", "b", "c"} {
		n := newNode(t, slot)
		n.cfg.Names.Member, n.spec.Token = "etcd-{slot}", "test@2-4711"
		peers[slot] = n.spec.PeerURL
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.spec.Peers = peers
		placeAt(t, s.file, n.spec.DataDir)
		check(t, Disk{n.cfg.Names}.Rebuild(t.Context(), n.spec.DataDir, n.spec, bump))
	}
	members, cluster, err := FounderIDs("test@2-4711", peers)
	check(t, err)
	for _, n := range nodes {
		d, err := (Disk{}).Inspect(n.spec.DataDir)
		check(t, err)
		if d.Member != members[n.spec.Slot] || d.ClusterID != cluster || !d.WAL || d.Log.Index != 3 || d.Log.Term != 1 {
			t.Errorf("%s: got %+v, want member %x of %x", n.spec.Slot, d, members[n.spec.Slot], cluster)
		}
	}
	runAll(t, nodes, peers)
	for _, n := range nodes {
		names := slices.Sorted(maps.Values(n.MemberNames()))
		if want := []string{"etcd-a", "etcd-b", "etcd-c"}; !slices.Equal(names, want) {
			t.Errorf("%s: members are %q, want %q", n.spec.Slot, names, want)
		}
	}
	testContent(t, s, nodes, s.revision+bump)
}

// testContent checks that a restored cluster has everything that newSource put there.
func testContent(t *testing.T, s source, nodes []*node, revision int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := nodes[0].client(t).Get(ctx, "k0"); !errors.Is(err, rpctypes.ErrUserEmpty) {
		t.Errorf("without a name: got %v, want %v", err, rpctypes.ErrUserEmpty)
	}
	rita := nodes[1].clientOf(t, "rita")
	if _, err := rita.Get(ctx, "k0"); err != nil {
		t.Error(err)
	}
	if _, err := rita.Put(ctx, "k0", "no"); !errors.Is(err, rpctypes.ErrPermissionDenied) {
		t.Errorf("rita puts: got %v, want %v", err, rpctypes.ErrPermissionDenied)
	}
	root := nodes[2].clientOf(t, "root")
	resp, err := root.Get(ctx, "", clientv3.WithPrefix())
	check(t, err)
	if resp.Header.Revision != revision {
		t.Errorf("revision: got %d, want %d", resp.Header.Revision, revision)
	}
	values := map[string]string{}
	for _, kv := range resp.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	want := map[string]string{"k0": "40", "k2": "42", "k3": "again", "k4": "44", "k5": "45", "k6": "46", "k7": "47", "k8": "48", "k9": "49",
		"/registry/masterleases/10.0.0.1": "here"}
	if fmt.Sprint(values) != fmt.Sprint(want) {
		t.Errorf("content: got %v, want %v", values, want)
	}
	lease, err := root.TimeToLive(ctx, s.lease, clientv3.WithAttachedKeys())
	check(t, err)
	if lease.GrantedTTL != 300 || lease.TTL < 200 || len(lease.Keys) != 1 || string(lease.Keys[0]) != "/registry/masterleases/10.0.0.1" {
		t.Errorf("lease: got %+v", lease)
	}
	for _, at := range []int64{s.compacted, s.revision, revision - 1} {
		if _, err := root.Get(ctx, "k0", clientv3.WithRev(at)); !errors.Is(err, rpctypes.ErrCompacted) {
			t.Errorf("get at %d: got %v, want %v", at, err, rpctypes.ErrCompacted)
		}
		if w := <-root.Watch(ctx, "k", clientv3.WithPrefix(), clientv3.WithRev(at)); !errors.Is(w.Err(), rpctypes.ErrCompacted) || w.CompactRevision != revision {
			t.Errorf("watch from %d: got %v, compacted at %d, want %v at %d", at, w.Err(), w.CompactRevision, rpctypes.ErrCompacted, revision)
		}
	}
	// A watch that begins at the revision of the entry without a name does not see that entry.
	watch := root.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(revision))
	put, err := root.Put(ctx, "new", "1", clientv3.WithLease(s.lease))
	check(t, err)
	if w := <-watch; w.Err() != nil || len(w.Events) != 1 || string(w.Events[0].Kv.Key) != "new" {
		t.Errorf("watch: got %+v", w)
	}
	if put.Header.Revision != revision+1 {
		t.Errorf("put: got revision %d, want %d", put.Header.Revision, revision+1)
	}
	sameHash(t, nodes, put.Header.Revision)
	_, err = root.Compact(ctx, put.Header.Revision, clientv3.WithCompactPhysical())
	check(t, err)
	sameHash(t, nodes, put.Header.Revision)
	_, err = root.Revoke(ctx, s.lease)
	check(t, err)
	if resp, err := root.Get(ctx, "new"); err != nil || len(resp.Kvs) != 0 {
		t.Errorf("after revoking its lease: got %v, %v", resp, err)
	}
}

func sameHash(t *testing.T, nodes []*node, revision int64) {
	t.Helper()
	var hashes []mvcc.KeyValueHash
	for _, n := range nodes {
		await(t, n.spec.Slot+" has applied it", func() bool { return n.Status().Revision >= revision })
		h, _, err := n.current().etcd.Server.KV().HashStorage().HashByRev(revision)
		check(t, err)
		hashes = append(hashes, h)
	}
	if hashes[0].Hash != hashes[1].Hash || hashes[0].Hash != hashes[2].Hash {
		t.Errorf("hashes at %d: got %v, want equal ones", revision, hashes)
	}
}

// clientOf returns a client with a user's name.
func (n *node) clientOf(t *testing.T, user string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + n.addr + ":2379"}, DialTimeout: 5 * time.Second,
		Username: user, Password: "secret", Logger: zap.NewNop()})
	check(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
