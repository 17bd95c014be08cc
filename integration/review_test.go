package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/integration"
)

// etcd cannot start, because something else has its port: the node says so, lives on without being ready,
// and serves as soon as the port is free. First with a blank disk, then with data.
func TestStartFails(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	n := c.Nodes[0]
	startOnTakenPort(t, c, n)
	w := c.Write()
	w.More(20)
	before := c.Members()
	n.Stop()
	startOnTakenPort(t, c, n)
	sameMembers(t, c, before)
	w.More(20)
	w.Verify()
}

func startOnTakenPort(t *testing.T, c *integration.Cluster, n *integration.Node) {
	t.Helper()
	const why = "address already in use"
	port, err := net.Listen("tcp", net.JoinHostPort(n.Address, "2380"))
	must(t, err)
	defer port.Close()
	n.Start()
	c.Until(patience, "the node says that its port is taken", func() error {
		s, err := n.Self()
		if err == nil && !strings.Contains(s.Error+s.Why, why) {
			err = fmt.Errorf("it says %s: %s; error %q", s.Action, s.Why, s.Error)
		}
		return err
	})
	if o := n.Command("status"); o.Code != 2 || !strings.Contains(o.Out, why) {
		t.Errorf("status: exit code %d, want 2 and %q: %s%s", o.Code, why, o.Out, o.Err)
	}
	if got, want := readyz(t, n), http.StatusServiceUnavailable; got != want {
		t.Errorf("/readyz: got %d, want %d", got, want)
	}
	must(t, port.Close())
	c.Healthy()
	alive(t, n)
	c.Until(patience, "the node is ready", func() error {
		if got := readyz(t, n); got != http.StatusOK {
			return fmt.Errorf("/readyz answers %d", got)
		}
		return nil
	})
}

// readyz returns what a load balancer is answered.
func readyz(t *testing.T, n *integration.Node) int {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + net.JoinHostPort(n.Address, "2381") + "/readyz")
	must(t, err)
	must(t, resp.Body.Close())
	return resp.StatusCode
}

// alive checks that the nodes still are the processes that the story has started.
func alive(t *testing.T, nodes ...*integration.Node) {
	t.Helper()
	for _, n := range nodes {
		if !n.Running() {
			t.Fatalf("%s has ended with code %d", n.Name, n.Exit(time.Second))
		}
	}
}

// A running follower is removed from the member list by hand: its data is set aside, once, and the same
// process comes back as a learner, then as a voter.
func TestRemovedWhileRunning(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	w := c.Write()
	w.More(50)
	leader := c.Leader()
	follower := c.Nodes[slices.IndexFunc(c.Nodes, func(n *integration.Node) bool { return n != leader })]
	slot := follower.Keys["volume.local.slot"].(string)
	replaced(t, c, follower, func() { removeMember(t, c, leader, slot) })
	decided(t, follower, "set-aside")
	decided(t, follower, "accept") // a learner's place
	c.Healthy()
	w.More(50)
	alive(t, c.Nodes...)
	for _, n := range c.Nodes {
		want := 0
		if n == follower {
			want = 1
		}
		if got := aside(t, n); len(got) != want {
			t.Errorf("set aside on %s: got %v, want %d", n.Name, got, want)
		}
	}
	w.Verify()
}

// removeMember does what `etcdctl member remove` does, which etcd refuses until all members have been
// connected for some seconds.
func removeMember(t *testing.T, c *integration.Cluster, through *integration.Node, slot string) {
	t.Helper()
	id := c.Members()[slot].ID
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(through), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	must(t, err)
	defer client.Close()
	c.Until(patience, "member "+slot+" is removed", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := client.MemberRemove(ctx, id)
		return err
	})
}

// aside returns what was set aside on any volume of the host.
func aside(t *testing.T, n *integration.Node) []string {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(n.Root, "*", "aside", "*"))
	must(t, err)
	return kept
}

// Four hosts share three slots by gossip. A member is away for a while, and its disk perhaps longer: the host
// that stands by leaves the slot to it, for a blank disk is no replacement for one that comes back.
func TestStandbyHostLeavesRestartingMember(t *testing.T) {
	for name, comeBack := range map[string]func(*testing.T, *integration.Cluster, *integration.Node, func() error){
		"with its disk":        func(_ *testing.T, _ *integration.Cluster, n *integration.Node, _ func() error) { n.Start() },
		"disk busy for a time": startWithBusyDisk,
	} {
		t.Run(name, func(t *testing.T) {
			story(t)
			c := cluster(t, integration.Options{Nodes: 4})
			for _, n := range c.Nodes {
				delete(n.Keys, "volume.local.slot")
			}
			standby := c.Nodes[3]
			for _, n := range c.Nodes[:3] {
				n.Start()
			}
			c.Serving()
			standby.Start()
			c.Until(patience, standby.Name+" stands by", func() error { return standsBy(standby, 0) })
			seen := len(standby.Decisions()) // it may have tried a slot before it heard of the others
			still := func() error { return standsBy(standby, seen) }
			c.Healthy()
			w := c.Write()
			w.More(20)
			before := c.Members()
			victim := c.Holder("b")
			for _, away := range []time.Duration{6 * time.Second, 0, 0} {
				victim.Stop()
				during(t, c, away, "every node misses "+victim.Name, still, func() error { return missed(c, victim) })
				comeBack(t, c, victim, still)
				c.Healthy()
				must(t, still())
			}
			if got := c.Holder("b"); got != victim {
				t.Errorf("slot b is held by %s, want %s", got.Name, victim.Name)
			}
			sameMembers(t, c, before)
			for _, n := range c.Nodes {
				if got := aside(t, n); len(got) > 0 {
					t.Errorf("set aside on %s: %v", n.Name, got)
				}
			}
			w.More(20)
			w.Verify()
		})
	}
}

// startWithBusyDisk starts a node whose volume something else uses for a few seconds, a check of its file
// system say: the node is there again, but holds nothing yet.
func startWithBusyDisk(t *testing.T, c *integration.Cluster, n *integration.Node, still func() error) {
	t.Helper()
	lock, err := os.Open(filepath.Join(n.Root, "b.lock"))
	must(t, err)
	defer lock.Close()
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	n.Start()
	during(t, c, 4*time.Second, n.Name+" is there without its disk", still, func() error {
		s, err := n.Self()
		switch {
		case err != nil:
			return err
		case s.Volume != nil:
			t.Fatalf("%s holds %+v", n.Name, s.Volume)
		case missed(c, n) == nil:
			return errors.New("nobody has heard of it yet")
		}
		return nil
	})
}

// during waits until check is nil and some time has passed, in which still must be nil all the time.
func during(t *testing.T, c *integration.Cluster, length time.Duration, what string, still, check func() error) {
	t.Helper()
	begin := time.Now()
	c.Until(patience, fmt.Sprintf("%s, and %s have passed", what, length), func() error {
		must(t, still())
		if err := check(); err != nil {
			return err
		}
		if left := length - time.Since(begin); left > 0 {
			return fmt.Errorf("%s are left", left.Round(time.Millisecond))
		}
		return nil
	})
}

// standsBy is nil when a node is a standby and, since it had decided seen times, has been nothing else.
func standsBy(n *integration.Node, seen int) error {
	s, err := n.Self()
	if err != nil {
		return err
	}
	if s.State != "standby" {
		return fmt.Errorf("%s is %s: %s", n.Name, s.State, s.Why)
	}
	for _, d := range n.Decisions()[seen:] {
		if seen > 0 && !strings.HasPrefix(d.Why, "standing by: ") {
			return fmt.Errorf("%s, which stood by, has decided to %s: %s", n.Name, d.Action, d.Why)
		}
	}
	return nil
}

// missed is nil when every running node takes another one to be lost.
func missed(c *integration.Cluster, other *integration.Node) error {
	for _, n := range c.Running() {
		s, err := n.Status()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.Nodes, func(m coordinator.NodeStatus) bool { return m.Node == other.Name })
		if i < 0 || s.Nodes[i].Live {
			return fmt.Errorf("%s does not miss %s yet", n.Name, other.Name)
		}
	}
	return nil
}

// A host is copied, its name and its disk: the copy never runs etcd and says which process it gives way to,
// the original goes on serving, and the status of both names the trouble until the copy is gone.
func TestTwin(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{Nodes: 2, Slots: []string{"a"}})
	original, twin := c.Nodes[0], c.Nodes[1]
	delete(original.Keys, "volume.local.slot")
	original.Keys["gossip.seeds"] = []string{original.Address}
	twin.Keys["gossip.seeds"] = []string{original.Address}
	twin.Name = original.Name
	original.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	before := c.Members()
	place(t, filepath.Join(original.Root, "a"), filepath.Join(twin.Root, "a"))
	data := filepath.Join(twin.Root, "a", "etcd")
	copied := hash(t, data)
	twin.Start()
	twin.Says(original.Address)
	for _, n := range c.Nodes {
		c.Until(patience, "the status on "+n.Address+" names the twin", func() error { return unhealthy(n, "node.name", twin.Address) })
	}
	w.More(50)
	alive(t, original, twin)
	for _, d := range twin.Decisions() {
		if d.Action == "start" {
			t.Errorf("the twin decided to start: %s", d.Why)
		}
	}
	if got := hash(t, data); got != copied {
		t.Error("the data of the twin was touched")
	}
	if s, err := twin.Self(); err != nil || s.Etcd != nil {
		t.Errorf("the twin runs etcd: %+v (%v)", s.Etcd, err)
	}
	if s, err := original.Self(); err != nil || s.Etcd == nil || !s.Etcd.HasLeader {
		t.Errorf("the original does not serve: %+v (%v)", s.Etcd, err)
	}
	twin.Stop()
	original.Stop() // the gossip knows only the later one of both, and that one is lost: say who we are again
	original.Start()
	c.Healthy()
	sameMembers(t, c, before)
	w.More(20)
	w.Verify()
}

// unhealthy is nil when `holdfast status` fails and says every one of texts among its reasons.
func unhealthy(n *integration.Node, texts ...string) error {
	o := n.Command("status")
	_, reasons, _ := strings.Cut(o.Out, "not healthy because")
	if o.Code == 0 {
		return fmt.Errorf("the exit code is 0: %s", o.Out)
	}
	for _, text := range texts {
		if !strings.Contains(reasons, text) {
			return fmt.Errorf("the exit code is %d, but %q is no reason: %s%s", o.Code, text, o.Out, o.Err)
		}
	}
	return nil
}

// Two clusters of one name, founded apart, meet in one gossip: nothing that runs is stopped, each keeps its
// data and its name, and both say what is wrong.
func TestTwoClustersInOneGossip(t *testing.T) {
	for name, slot := range map[string]string{"same slot": "a", "other slot": "b"} {
		t.Run(name, func(t *testing.T) {
			story(t)
			mine := apart(t, "n1", "a")
			yours := apart(t, "m1", slot)
			clusters := []*integration.Cluster{mine, yours}
			var ids []string
			var writers []*integration.Writer
			for _, c := range clusters {
				c.Serving()
				ids = append(ids, oneCluster(t, c))
				writers = append(writers, c.Write())
			}
			if ids[0] == ids[1] {
				t.Fatalf("both clusters are %s", ids[0])
			}
			for i, c := range clusters {
				writers[i].More(20)
				must(t, os.WriteFile(seedsFile(c), []byte(clusters[1-i].Nodes[0].Address+"\n"), 0o600))
			}
			for i, c := range clusters {
				n, other := c.Nodes[0], clusters[1-i].Nodes[0]
				c.Until(patience, n.Name+" says that two clusters claim one name", func() error {
					if code := n.Command("status").Code; code != 1 {
						return fmt.Errorf("the exit code is %d, want 1", code)
					}
					return unhealthy(n, "two clusters", other.Name)
				})
			}
			for i, c := range clusters {
				n := c.Nodes[0]
				writers[i].More(50)
				alive(t, n)
				if got := oneCluster(t, c); got != ids[i] {
					t.Errorf("cluster ID on %s: got %s, want %s", n.Name, got, ids[i])
				}
				if got, want := n.Resolves(c.Slots[0]), n.Address; got != want {
					t.Errorf("%s takes its slot %s to be at %q, want %s", n.Name, c.Slots[0], got, want)
				}
				if got := aside(t, n); len(got) > 0 {
					t.Errorf("set aside on %s: %v", n.Name, got)
				}
				writers[i].Verify()
			}
		})
	}
}

// apart starts a cluster of one that knows nobody but from a file, which is empty yet.
func apart(t *testing.T, node, slot string) *integration.Cluster {
	t.Helper()
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{slot}})
	c.Nodes[0].Name = node
	c.Set("gossip.seeds-file", seedsFile(c))
	must(t, os.WriteFile(seedsFile(c), nil, 0o600))
	c.Start()
	return c
}

func seedsFile(c *integration.Cluster) string { return filepath.Join(c.Dir, "seeds") }

// An operator orders a disk to give up what it never had: the order is refused and leaves nothing behind
// that would take effect later.
func TestOrderWithNothingToGiveUp(t *testing.T) {
	for _, order := range []string{"--new", "--abandon"} {
		t.Run(order, func(t *testing.T) {
			story(t)
			c := cluster(t, integration.Options{})
			n := c.Nodes[0]
			n.Start()
			n.Says("slot b, c has no live holder")
			if o := n.Command("found", order); o.Code != 1 || !strings.Contains(o.Err, "nothing") {
				t.Errorf("found %s: exit code %d, want 1 and that there is nothing to give up: %s%s", order, o.Code, o.Out, o.Err)
			}
			n.Says("slot b, c has no live holder")
			for _, other := range c.Nodes[1:] {
				other.Start()
			}
			c.Serving()
			oneCluster(t, c)
			for _, n := range c.Nodes {
				for _, d := range n.Decisions() {
					if d.Action == "renounce" {
						t.Errorf("%s decided to renounce: %s", n.Name, d.Why)
					}
				}
			}
			kept, err := filepath.Glob(filepath.Join(c.Store, c.Name, "control", "aside-*.json"))
			must(t, err)
			if len(kept) > 0 {
				t.Errorf("the store's record was moved aside: %v", kept)
			}
			w := c.Write()
			w.More(20)
			w.Verify()
		})
	}
}

// A disk has a ledger that this version cannot read: the node waits. Adopted, everything that was on the
// disk is kept, which is another disk from then on and comes back by way of a learner.
func TestAdoptKeepsEverything(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	w := c.Write()
	w.More(50)
	n := c.Nodes[1]
	n.Stop()
	ledger, identity, data := filepath.Join(n.Volume(), "founding.json"), filepath.Join(n.Volume(), "identity.json"), filepath.Join(n.Volume(), "etcd")
	former := object(t, ledger)
	former["version"] = 2
	text, err := json.Marshal(former)
	must(t, err)
	must(t, os.WriteFile(ledger, text, 0o600))
	n.Start()
	n.Says("version 2", "holdfast volume adopt")
	disk := object(t, identity)
	files := map[string]string{"founding.json": hash(t, ledger), "identity.json": hash(t, identity), "etcd": hash(t, data)}
	replaced(t, c, n, func() {
		if o := n.Command("volume", "adopt"); o.Code != 0 {
			t.Fatalf("adopt: exit code %d: %s", o.Code, o.Err)
		}
	})
	decided(t, n, "accept") // a learner's place
	kept := aside(t, n)
	if len(kept) != 1 {
		t.Fatalf("set aside: %v", kept)
	}
	for name, want := range files {
		if got := hash(t, filepath.Join(kept[0], name)); got != want {
			t.Errorf("%s in %s is not what was on the disk", name, kept[0])
		}
	}
	if got := object(t, identity)["disk"]; got == disk["disk"] {
		t.Errorf("the disk still is %s", got)
	}
	alive(t, c.Nodes...)
	w.More(20)
	w.Verify()
}

// object reads a file of JSON.
func object(t *testing.T, path string) (o map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

// The store hangs, as a network file system does whose server is gone: a node that founds, and one that
// saves a backup, stop all the same; and a member starts without the store.
func TestStoreHangs(t *testing.T) {
	story(t)
	const bound = 12 * time.Second
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{"snapshot.every": "1s", "snapshot.retry": "1s"}})
	n := c.Nodes[0]
	release := hang(t, c.Store)
	n.Start()
	n.Says("the backup store does not answer", "no answer within")
	stopWithin(t, n, bound)
	release()
	n.Start()
	c.Serving()
	w := c.Write()
	w.More(20)
	saved(t, c, n)
	release = hang(t, c.Store)
	c.Until(patience, "no backup is saved any more", func() error {
		newest, err := newestBackup(n)
		if err == nil && time.Since(newest) < 5*time.Second {
			err = fmt.Errorf("one was saved at %s, and one is due every second", newest)
		}
		return err
	})
	w.More(20)
	stopWithin(t, n, bound)
	n.Start()
	c.Serving()
	w.More(20)
	stopWithin(t, n, bound)
	release()
	n.Start()
	c.Serving()
	saved(t, c, n)
	w.More(20)
	w.Verify()
}

// stopWithin stops a node of which something may hang. It may say so with its exit code.
func stopWithin(t *testing.T, n *integration.Node, bound time.Duration) {
	t.Helper()
	begin := time.Now()
	n.Signal(syscall.SIGTERM)
	code := n.Exit(2 * bound)
	took := time.Since(begin)
	t.Logf("stopped in %s with code %d", took.Round(time.Millisecond), code)
	if took > bound || code != 0 && !strings.Contains(n.Log(), "still hangs") {
		t.Errorf("the stop took %s, and the exit code is %d", took, code)
	}
}

// hang puts a pipe in the place of a directory, which nobody can open without waiting for ever, until release.
func hang(t *testing.T, dir string) (release func()) {
	t.Helper()
	away := dir + ".away"
	must(t, os.Rename(dir, away))
	must(t, syscall.Mkfifo(dir, 0o600))
	return func() {
		t.Helper()
		must(t, os.Remove(dir))
		must(t, os.Rename(away, dir))
	}
}

// saved waits until the node has saved another backup.
func saved(t *testing.T, c *integration.Cluster, n *integration.Node) {
	t.Helper()
	begin := time.Now()
	c.Until(patience, "a backup is saved", func() error {
		newest, err := newestBackup(n)
		if err == nil && newest.Before(begin) {
			err = fmt.Errorf("the newest is of %s", newest)
		}
		return err
	})
}

// newestBackup is when the newest backup was made that the node knows of.
func newestBackup(n *integration.Node) (time.Time, error) {
	s, err := n.Self()
	if err == nil && (s.Backup == nil || s.Backup.Time == nil) {
		err = errors.New("it knows of no backup")
	}
	if err != nil {
		return time.Time{}, err
	}
	return *s.Backup.Time, nil
}
