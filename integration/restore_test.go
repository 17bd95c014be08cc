package integration_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/integration"
	"holdfast/snapshot"
)

// save saves a backup through a node.
func save(t *testing.T, n *integration.Node) (saved snapshot.Meta) {
	t.Helper()
	ask(t, n, &saved, "snapshot", "save", "-o", "json")
	return saved
}

// restored is the answer of `holdfast restore -o json`.
type restored struct {
	Restore plan.Restore
	Record  *plan.Record
	Health  string
}

// restore restores a backup and waits for the end.
func restore(t *testing.T, n *integration.Node, name string, args ...string) (r restored) {
	t.Helper()
	ask(t, n, &r, append([]string{"restore", name, "--yes", "-o", "json"}, args...)...)
	return r
}

// etcd returns a client of the nodes, which is closed at the end of the test.
func etcd(t *testing.T, user string, nodes ...*integration.Node) *clientv3.Client {
	t.Helper()
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.ClientURL())
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: urls, Logger: zap.NewNop(), DialTimeout: 2 * time.Second, Username: user, Password: user})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// generation waits until every running node is in this generation, and the cluster is healthy.
func generation(t *testing.T, c *integration.Cluster, want uint64) {
	t.Helper()
	c.Until(90*time.Second, fmt.Sprintf("every node is in generation %d", want), func() error {
		for _, n := range c.Running() {
			s, err := n.Self()
			if err != nil {
				return err
			}
			if s.Record == nil || s.Record.Generation != want || s.Etcd == nil || !s.Etcd.HasLead || s.Etcd.Learner {
				return fmt.Errorf("%s is %s: %s", n.Name, s.State, s.Why)
			}
		}
		return nil
	})
	c.Healthy()
}

// A restore brings back what Kubernetes needs and a copy of the keys alone would lose: leases, versions and users. The
// revision only rises, and watchers of an old revision get an error.
func TestRestore(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	client := etcd(t, "", c.Nodes...)
	ctx := t.Context()
	lease, err := client.Grant(ctx, 3600)
	must(t, err)
	const masterLease, pod = "/registry/masterleases/10.0.0.1", "/registry/pods/a"
	_, err = client.Put(ctx, masterLease, "10.0.0.1", clientv3.WithLease(lease.ID))
	must(t, err)
	for i := range 3 {
		_, err = client.Put(ctx, pod, fmt.Sprint(i))
		must(t, err)
	}
	_, err = client.RoleAdd(ctx, "root")
	must(t, err)
	_, err = client.UserAdd(ctx, "root", "root")
	must(t, err)
	_, err = client.UserGrantRole(ctx, "root", "root")
	must(t, err)
	_, err = client.AuthEnable(ctx)
	must(t, err)
	before := oneCluster(t, c)
	saved := save(t, c.Nodes[1])

	root := etcd(t, "root", c.Nodes...)
	_, err = root.Put(ctx, "/registry/pods/late", "x")
	must(t, err)
	_, err = root.Delete(ctx, pod)
	must(t, err)
	late, err := root.Put(ctx, masterLease, "10.0.0.9")
	must(t, err)

	r := restore(t, c.Nodes[0], saved.Name)
	if r.Record == nil || r.Record.Generation != 2 || r.Health != "healthy" {
		t.Errorf("restored: %+v", r)
	}
	generation(t, c, 2)
	if got := oneCluster(t, c); got == before {
		t.Errorf("the cluster ID is still %s", got)
	}
	for _, n := range c.Nodes {
		root := etcd(t, "root", n)
		got, err := root.Get(ctx, "/registry/", clientv3.WithPrefix())
		must(t, err)
		keys := map[string]int64{}
		for _, kv := range got.Kvs {
			keys[string(kv.Key)] = kv.Version
		}
		if len(keys) != 2 || keys[pod] != 3 || keys[masterLease] != 1 {
			t.Errorf("%s: keys and their versions: got %v", n.Name, keys)
		}
		if got.Header.Revision <= late.Header.Revision+1_000_000 {
			t.Errorf("%s: revision %d, before the restore it was %d", n.Name, got.Header.Revision, late.Header.Revision)
		}
		left, err := root.TimeToLive(ctx, lease.ID, clientv3.WithAttachedKeys())
		must(t, err)
		if left.TTL <= 0 || len(left.Keys) != 1 || string(left.Keys[0]) != masterLease {
			t.Errorf("%s: lease: got %+v", n.Name, left)
		}
		watch := <-root.Watch(clientv3.WithRequireLeader(ctx), "/registry/", clientv3.WithPrefix(), clientv3.WithRev(late.Header.Revision))
		if !errors.Is(watch.Err(), rpctypes.ErrCompacted) {
			t.Errorf("%s: a watch from revision %d: got %v, want compacted", n.Name, late.Header.Revision, watch.Err())
		}
		if _, err := etcd(t, "", n).Put(ctx, "x", "y"); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Errorf("%s: a write by nobody: got %v", n.Name, err)
		}
		if aside, _ := filepath.Glob(filepath.Join(n.Volume(), "aside", "*-restored", "member")); len(aside) != 1 {
			t.Errorf("%s: set aside: %v", n.Name, aside)
		}
	}
}

// answer is an acknowledged write through one node.
type answer struct {
	node       string
	begin, end time.Time
	cluster    uint64
}

// pins writes through each node alone, all the time.
type pins struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	all    []answer
}

func pinned(t *testing.T, c *integration.Cluster) *pins {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &pins{cancel: cancel}
	for _, n := range c.Nodes {
		client := etcd(t, "", n)
		p.wg.Go(func() {
			for ctx.Err() == nil {
				call, end := context.WithTimeout(ctx, time.Second)
				begin := time.Now()
				r, err := client.Put(call, "pinned/"+n.Name, begin.String())
				if err != nil {
					<-time.After(10 * time.Millisecond)
				} else {
					p.mu.Lock()
					p.all = append(p.all, answer{n.Name, begin, time.Now(), r.Header.ClusterId})
					p.mu.Unlock()
				}
				end()
			}
		})
	}
	return p
}

// everywhere waits until every node has acknowledged writes in count clusters, and returns all writes.
func (p *pins) everywhere(t *testing.T, c *integration.Cluster, count int) []answer {
	t.Helper()
	c.Until(patience, "every node acknowledges a write", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		clusters := map[string]map[uint64]bool{}
		for _, a := range p.all {
			if clusters[a.node] == nil {
				clusters[a.node] = map[uint64]bool{}
			}
			clusters[a.node][a.cluster] = true
		}
		for _, n := range c.Nodes {
			if len(clusters[n.Name]) < count {
				return fmt.Errorf("%s has in %v", n.Name, clusters[n.Name])
			}
		}
		return nil
	})
	p.cancel()
	p.wg.Wait()
	return p.all
}

// switched checks that no node served the old generation after one had served the new one. It returns how long no
// write was acknowledged in between.
func switched(t *testing.T, all []answer) time.Duration {
	t.Helper()
	slices.SortFunc(all, func(a, b answer) int { return a.end.Compare(b.end) })
	old := all[0].cluster
	i := slices.IndexFunc(all, func(a answer) bool { return a.cluster != old })
	if i < 0 {
		t.Fatal("no write was acknowledged in the new generation")
	}
	first := all[i]
	for _, a := range all[i:] {
		if a.cluster == old && a.begin.After(first.end) {
			t.Errorf("%s acknowledged a write in the old generation %s after %s had in the new one", a.node, a.begin.Sub(first.end), first.node)
		}
		if a.cluster != old && a.cluster != first.cluster {
			t.Errorf("%s is in a third cluster %x", a.node, a.cluster)
		}
	}
	return first.end.Sub(all[i-1].end)
}

// Clients write through every node while the cluster is restored. The old generation stops before the new one serves,
// and the clients continue. They notice only the new revision.
func TestRestoreWhileWriting(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(200)
	saved := save(t, c.Nodes[0])
	w.More(100)
	var watches []clientv3.WatchChan
	for _, n := range c.Nodes {
		watches = append(watches, etcd(t, "", n).Watch(t.Context(), "record/", clientv3.WithPrefix(), clientv3.WithRev(saved.Content.Revision)))
	}
	p := pinned(t, c)
	w.More(100)
	begin := time.Now()
	restore(t, c.Nodes[0], "latest")
	took := time.Since(begin)
	w.More(100)
	t.Logf("restored and healthy within %s; no write was acknowledged for %s", took.Round(10*time.Millisecond), switched(t, p.everywhere(t, c, 2)).Round(time.Millisecond))
	for _, n := range c.Nodes {
		if took := enterTime(t, n); took > stopBound {
			t.Errorf("%s took %s to leave the old generation, want at most %s: all leave, and nothing is to be handed over", n.Name, took, stopBound)
		}
	}
	for i, watch := range watches {
		for {
			r, ok := <-watch
			if errors.Is(r.Err(), rpctypes.ErrCompacted) {
				break
			}
			if !ok || r.Err() != nil {
				t.Errorf("the watch through %s ended with %v, want compacted", c.Nodes[i].Name, r.Err())
				break
			}
		}
	}
	w.Stop()
	generation(t, c, 2)
	again := c.Write()
	again.More(50)
	again.Verify()
}

// enterTime returns the time from a node's decision to enter a generation to its next decision.
func enterTime(t *testing.T, n *integration.Node) time.Duration {
	t.Helper()
	all := n.Decisions()
	i := slices.IndexFunc(all, func(d integration.Decision) bool { return d.Action == "enter" })
	if i < 0 || i+1 == len(all) {
		t.Fatalf("%s has not entered:\n%s", n.Name, n.Report())
	}
	from, err := time.Parse(time.RFC3339Nano, all[i].Time)
	must(t, err)
	to, err := time.Parse(time.RFC3339Nano, all[i+1].Time)
	must(t, err)
	t.Logf("%s entered in %s", n.Name, to.Sub(from).Round(time.Millisecond))
	return to.Sub(from)
}

// A member that was away during the restore comes back later, sets its data aside and follows. It never continues on
// its own.
func TestRestoreWithoutOne(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	saved := save(t, c.Nodes[0])
	away := c.Nodes[2]
	away.Kill()
	o := c.Nodes[0].Command("restore", saved.Name, "--yes", "--timeout", "10s")
	if o.Code == 0 || !strings.Contains(o.Err, "past the point of no return") || !strings.Contains(o.Err, "slot c") {
		t.Errorf("restore: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	var before health.NodeStatus
	c.Until(30*time.Second, "the others run etcd", func() (err error) {
		if before, err = c.Nodes[0].Self(); err == nil && before.Etcd == nil {
			err = errors.New(before.Why)
		}
		return err
	})
	away.Start()
	generation(t, c, 2)
	if got := oneCluster(t, c); got != before.Etcd.Cluster.String() {
		t.Errorf("cluster ID: got %s, want %s", got, before.Etcd.Cluster)
	}
	// It founds if it was still seen as live when the restore was concluded, and otherwise it joins.
	if aside, _ := filepath.Glob(filepath.Join(away.Volume(), "aside", "*", "member")); len(aside) != 1 {
		t.Errorf("%s has set aside %v", away.Name, aside)
	}
	if members := c.Members(); len(members) != 3 {
		t.Errorf("members: %v", members)
	}
	w.Stop()
	again := c.Write()
	again.More(50)
	again.Verify()
}

// Every disk is gone, and the store knows the cluster. The nodes wait and name the command that restores it, and the
// command works.
func TestRestoreWhenAllIsLost(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"restore.reclaim-after": "2s"}})
	client := etcd(t, "", c.Nodes...)
	_, err := client.Put(t.Context(), "precious", "1")
	must(t, err)
	save(t, c.Nodes[0])
	c.Kill()
	for _, n := range c.Nodes {
		n.Wipe()
		n.Start()
	}
	var command string
	for _, n := range c.Nodes {
		n.Says("the backup store knows the cluster as story@1-", "`holdfast restore ")
		s, err := n.Self()
		must(t, err)
		_, rest, _ := strings.Cut(s.Why, "`holdfast ")
		command, _, _ = strings.Cut(rest, "`")
	}
	refused(t, c.Nodes[1], "--lost a,b,c", "restore", "latest", "--yes")
	done(t, c.Nodes[1], append(strings.Fields(command), "--yes")...)
	generation(t, c, 2)
	got, err := etcd(t, "", c.Nodes...).Get(t.Context(), "precious")
	must(t, err)
	if len(got.Kvs) != 1 {
		t.Error("what was saved is not there")
	}
	// A second restore sets data aside, which is deleted after the members have served for a while.
	restore(t, c.Nodes[0], "latest")
	for _, n := range c.Nodes {
		c.Until(patience, n.Name+" reclaims what was set aside", func() error {
			if aside, _ := filepath.Glob(filepath.Join(n.Volume(), "aside", "*")); len(aside) > 0 {
				return fmt.Errorf("there is %v", aside)
			}
			return nil
		})
		n.Logs("deleted data that was set aside")
	}
}

// With restore.automatic no order is needed.
func TestRestoreAutomatic(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"restore.automatic": true}})
	_, err := etcd(t, "", c.Nodes...).Put(t.Context(), "precious", "1")
	must(t, err)
	save(t, c.Nodes[0])
	c.Kill()
	for _, n := range c.Nodes {
		n.Wipe()
		n.Start()
	}
	generation(t, c, 2)
	got, err := etcd(t, "", c.Nodes...).Get(t.Context(), "precious")
	must(t, err)
	if len(got.Kvs) != 1 {
		t.Error("what was saved is not there")
	}
}

// A command that etcd-manager-ctl has left in the store is carried out once, also with a backup of etcd-manager: gzip,
// with its own metadata and none of holdfast's.
func TestRestoreOfEtcdManager(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"restore.foreign-commands": true}})
	n := c.Nodes[0]
	client := etcd(t, "", c.Nodes...)
	_, err := client.Put(t.Context(), "precious", "1")
	must(t, err)
	saved := save(t, n)
	const name = "2026-07-01T00:15:03Z-000042"
	dir := filepath.Join(c.Store, name)
	must(t, os.MkdirAll(dir, 0o700))
	plain := filepath.Join(c.Dir, "plain.db")
	unpack(t, content(t, c.Store, saved.Stored.Size), plain)
	repack(t, plain, filepath.Join(dir, "etcd.backup.gz"))
	must(t, os.WriteFile(filepath.Join(dir, "_etcd_backup.meta"),
		[]byte(`{"etcdVersion": "3.6.11", "timestamp": "1782864903", "clusterSpec": {"memberCount": 3, "etcdVersion": "3.6.11"}}`), 0o600))
	_, err = client.Put(t.Context(), "late", "1")
	must(t, err)

	order := filepath.Join(c.Store, "control", "2026-07-01T01:02:03Z-000000", "_command.json")
	must(t, os.MkdirAll(filepath.Dir(order), 0o700))
	must(t, os.WriteFile(order, fmt.Appendf(nil, `{"timestamp": "%d", "restoreBackup": {"clusterSpec": {"memberCount": 3}, "backup": "%s"}}`, time.Now().UnixNano(), name), 0o600))
	generation(t, c, 2)
	got, err := etcd(t, "", c.Nodes...).Get(t.Context(), "", clientv3.WithPrefix())
	must(t, err)
	if len(got.Kvs) != 1 || string(got.Kvs[0].Key) != "precious" {
		t.Errorf("restored: %v", got.Kvs)
	}
	c.Until(patience, "the command is deleted", func() error {
		if _, err := os.Stat(order); !os.IsNotExist(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	done(t, n, "restore", name, "--yes")
	generation(t, c, 3)
}

func repack(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	f, err := os.Create(to)
	must(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write(data)
	must(t, errors.Join(err, z.Close(), f.Close()))
}
