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

	"holdfast/integration"
)

// etcd cannot start because something else uses its port. The node says so, stays alive without being ready, and
// serves as soon as the port is free. First with a blank disk, then with data.
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

// readyz returns the answer that a load balancer gets.
func readyz(t *testing.T, n *integration.Node) int {
	t.Helper()
	code, _ := page(t, n, "/readyz")
	return code
}

// livez returns the answer that a supervisor gets.
func livez(t *testing.T, n *integration.Node) int {
	t.Helper()
	code, _ := page(t, n, "/livez")
	return code
}

// alive checks that the nodes are still the processes that the story has started.
func alive(t *testing.T, nodes ...*integration.Node) {
	t.Helper()
	for _, n := range nodes {
		if !n.Running() {
			t.Fatalf("%s has ended with code %d", n.Name, n.Exit(time.Second))
		}
	}
}

// A running follower is removed from the member list by hand. Its data is set aside, once, and the same process comes
// back as a learner, then as a voter.
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
	decided(t, follower, "accept") // as a learner
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

// removeMember does what `etcdctl member remove` does. etcd refuses it until all members have been connected for some
// seconds.
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

// aside returns what was set aside on all volumes of the host.
func aside(t *testing.T, n *integration.Node) []string {
	t.Helper()
	kept, err := filepath.Glob(filepath.Join(n.Root, "*", "aside", "*"))
	must(t, err)
	return kept
}

// An operator orders a disk to give up what it never had. The order is refused, and nothing of it stays that could
// take effect later.
func TestOrderWithNothingToGiveUp(t *testing.T) {
	t.Parallel() // its parts are separate stories
	for _, order := range []string{"--new", "--abandon"} {
		t.Run(order, func(t *testing.T) {
			story(t)
			c := cluster(t, integration.Options{})
			n := c.Nodes[0]
			n.Start()
			n.Says("slots b, c have no live holder")
			if o := n.Command("found", order); o.Code != 1 || !strings.Contains(o.Err, "nothing") {
				t.Errorf("found %s: exit code %d, want 1 and that there is nothing to give up: %s%s", order, o.Code, o.Out, o.Err)
			}
			n.Says("slots b, c have no live holder")
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
			kept, err := filepath.Glob(filepath.Join(c.Store, "holdfast", c.Name, "aside-*.json"))
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

// A disk has a ledger that this version cannot read: the node waits. When the ledger is set aside, everything else on
// the disk is kept. The disk counts as a new one and comes back as a learner.
func TestSetAsideKeepsEverything(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	w := c.Write()
	w.More(50)
	n := c.Nodes[1]
	n.Stop()
	ledger, identity, data := filepath.Join(n.Volume(), "founding.json"), filepath.Join(n.Volume(), "identity.json"), filepath.Join(n.Volume(), "etcd")
	former := object(t, ledger)
	former["version"] = 3
	text, err := json.Marshal(former)
	must(t, err)
	must(t, os.WriteFile(ledger, text, 0o600))
	n.Start()
	n.Says("version 3", "holdfast volume set-aside")
	disk := object(t, identity)
	files := map[string]string{"founding.json": hash(t, ledger), "identity.json": hash(t, identity), "etcd": hash(t, data)}
	replaced(t, c, n, func() {
		done(t, n, "volume", "set-aside", "--yes")
	})
	decided(t, n, "accept") // as a learner
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

// object reads a JSON file.
func object(t *testing.T, path string) (o map[string]any) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return o
}

// The store hangs, like a network file system whose server is gone. A node that founds and a node that saves a backup
// can still be stopped, and a member starts without the store.
func TestStoreHangs(t *testing.T) {
	story(t)
	const bound = 12 * time.Second
	c := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{"snapshot.every": "1s", "snapshot.retry": "1s"}})
	n := c.Nodes[0]
	release := hang(t, c.Store)
	n.Start()
	n.Says("the backup store does not answer", "the store "+c.Store+" does not answer")
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

// stopWithin stops a node of which something may hang. The exit code may say so.
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

// hang replaces a directory by a pipe, which blocks everybody who opens it until release.
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

// newestBackup returns the time of the newest backup that the node knows of.
func newestBackup(n *integration.Node) (time.Time, error) {
	s, err := n.Self()
	if err == nil && (s.Backup == nil || s.Backup.Time.IsZero()) {
		err = errors.New("it knows of no backup")
	}
	if err != nil {
		return time.Time{}, err
	}
	return s.Backup.Time, nil
}
