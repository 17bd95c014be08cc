package integration_test

import (
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

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/embedded/plan"
	"holdfast/integration"
	"holdfast/integration/hosts"
)

// alarms collects which members the cluster's alarms name, until it is stopped.
type alarms struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	seen   map[uint64]bool
}

func watchAlarms(t *testing.T, client *clientv3.Client) *alarms {
	ctx, cancel := context.WithCancel(t.Context())
	a := &alarms{cancel: cancel, seen: map[uint64]bool{}}
	a.wg.Go(func() {
		for ctx.Err() == nil {
			call, end := context.WithTimeout(ctx, time.Second)
			r, err := client.AlarmList(call)
			end()
			if err == nil {
				for _, m := range r.Alarms {
					a.seen[m.MemberID] = true
				}
			}
			<-time.After(10 * time.Millisecond)
		}
	})
	return a
}

func (a *alarms) stop() map[uint64]bool {
	a.cancel()
	a.wg.Wait()
	return a.seen
}

// A cluster that refuses every write can still be restored, without a manual restart. The leader's consent is then a
// mark among the alarms. The restored cluster has no alarms.
func TestRestoreUnderAlarm(t *testing.T) {
	t.Parallel() // its parts are stories
	for name, raise := range map[string]func(*testing.T, *integration.Cluster, *clientv3.Client) error{
		"NOSPACE": func(t *testing.T, _ *integration.Cluster, client *clientv3.Client) error {
			fillUp(t, client, func(i int) string { return fmt.Sprintf("live/%04d", i) })
			return rpctypes.ErrNoSpace
		},
		"CORRUPT": func(t *testing.T, c *integration.Cluster, client *clientv3.Client) error {
			id := c.Members()["b"].ID
			alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: pb.AlarmType_CORRUPT}
			_, err := pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm)
			must(t, err)
			return rpctypes.ErrCorrupt
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t)
			c := founded(t, integration.Options{Keys: small(nil)})
			client := connect(t, c)
			_, err := client.Put(t.Context(), "precious", "1")
			must(t, err)
			saved := save(t, c.Nodes[0])
			want := raise(t, c, client)
			if _, err := client.Put(t.Context(), "probe", "x"); !errors.Is(err, want) {
				t.Fatalf("a write: got %v, want %v", err, want)
			}
			members := c.Members()
			a := watchAlarms(t, client)
			restore(t, c.Nodes[0], saved.Name)
			marks := 0
			for id := range a.stop() {
				if !slices.ContainsFunc([]string{"a", "b", "c"}, func(slot string) bool { return members[slot].ID == id }) {
					marks++
				}
			}
			if marks != 1 {
				t.Errorf("%d alarms named no member, want 1: the consent", marks)
			}
			generation(t, c, 2)
			if r, err := client.AlarmList(t.Context()); err != nil || len(r.Alarms) > 0 {
				t.Errorf("the restored cluster has alarms: %v %v", r, err)
			}
			_, err = client.Put(t.Context(), "after", "1")
			must(t, err)
			stored(t, client, "precious", "after")
		})
	}
}

// stored checks that the keys exist.
func stored(t *testing.T, client *clientv3.Client, keys ...string) {
	t.Helper()
	for _, key := range keys {
		got, err := client.Get(t.Context(), key)
		must(t, err)
		if len(got.Kvs) != 1 {
			t.Errorf("%s is not there", key)
		}
	}
}

// onHosts founds a cluster whose nodes run on hosts of a network. Each node has its own path to the shared store.
func onHosts(t *testing.T) (*integration.Cluster, *hosts.Network) {
	t.Helper()
	story(t)
	if os.Geteuid() != 0 {
		t.Skip("hosts in network namespaces need root")
	}
	net, err := hosts.New(hosts.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, net.Close()) })
	c := cluster(t, integration.Options{Net: net})
	for _, n := range c.Nodes {
		n.Keys["snapshot.store"] = way(n)
		giveStore(t, c, n)
	}
	c.Start()
	c.Serving()
	return c, net
}

// way returns the path by which a node reaches the store.
func way(n *integration.Node) string { return filepath.Join(n.Dir, "store") }

func giveStore(t *testing.T, c *integration.Cluster, nodes ...*integration.Node) {
	t.Helper()
	for _, n := range nodes {
		must(t, os.Symlink(c.Store, way(n)))
	}
}

func takeStore(t *testing.T, nodes ...*integration.Node) {
	t.Helper()
	for _, n := range nodes {
		must(t, os.Remove(way(n)))
	}
}

// leaderless waits until every node knows that its member has no leader.
func leaderless(t *testing.T, c *integration.Cluster, nodes ...*integration.Node) {
	t.Helper()
	for _, n := range nodes {
		c.Until(patience, n.Name+" has no leader", func() error {
			s, err := n.Self()
			if err != nil || s.Etcd == nil || s.Etcd.HasLead {
				return fmt.Errorf("it is %s: %s %v", s.State, s.Why, err)
			}
			return nil
		})
	}
}

// leaves waits until a node has left its generation. A status may come too late: when the last one leaves, the others
// conclude at once.
func leaves(t *testing.T, c *integration.Cluster, n *integration.Node) {
	t.Helper()
	c.Until(time.Minute, n.Name+" has left", func() error { // after 27 s in which the cluster may object
		all := n.Decisions()
		if !slices.ContainsFunc(all, func(d integration.Decision) bool { return d.Action == string(plan.Leave) }) {
			return fmt.Errorf("it has decided %+v", all)
		}
		return nil
	})
}

// The disks of all are here, but there is no leader, and there can be none. No disk has to be declared lost.
func TestRestoreWithoutLeader(t *testing.T) {
	c, net := onHosts(t)
	beforeAndAfter(t, c)
	for _, n := range c.Nodes {
		must(t, n.Host.Block("tcp", 2380))
	}
	leaderless(t, c, c.Nodes...)
	done := c.Nodes[0].Begin("restore", "latest", "--yes")
	c.Until(90*time.Second, "every disk has entered generation 2", func() error {
		entered := 0
		for _, n := range c.Nodes {
			s, err := n.Self()
			if err != nil {
				return err
			}
			if s.Record != nil && s.Record.Generation == 2 {
				entered++
			}
		}
		if entered < len(c.Nodes) {
			return fmt.Errorf("%d have", entered)
		}
		return nil
	})
	for _, n := range c.Nodes {
		leaves(t, c, n)
	}
	must(t, net.Heal())
	if o := <-done; o.Code != 0 {
		t.Errorf("restore: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	generation(t, c, 2)
	holdsOnly(t, c)
	for _, n := range c.Nodes {
		if aside, _ := filepath.Glob(filepath.Join(n.Volume(), "aside", "*-restored", "member")); len(aside) != 1 {
			t.Errorf("%s has set aside %v", n.Name, aside)
		}
	}
}

// parted lets n2 and n3 serve without n1 and the store, while n1 is recovered without them. Then all see each other
// again, and both ends are shown. If uneven, one of n2 and n3 is killed before, so that the other one has a longer log.
// It returns the keys that n2 and n3 acknowledged alone, and their last revision.
func parted(t *testing.T, uneven bool) (c *integration.Cluster, keys []string, last int64) {
	t.Helper()
	c, net := onHosts(t)
	one, others := c.Nodes[0], c.Nodes[1:]
	_, err := etcd(t, "", c.Nodes...).Put(t.Context(), "before", "1")
	must(t, err)
	takeStore(t, others...)
	must(t, net.Partition([]*hosts.Host{one.Host}, []*hosts.Host{others[0].Host, others[1].Host}))
	leaderless(t, c, one)
	client := etcd(t, "", others...)
	put := func() {
		t.Helper()
		c.Until(patience, "the others acknowledge a write", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			key := fmt.Sprintf("apart/%d", len(keys))
			r, err := client.Put(ctx, key, "1")
			if err == nil {
				keys, last = append(keys, key), r.Header.Revision
			}
			return err
		})
	}
	put()
	one.Says("`holdfast recover --lost b,c`")
	done(t, one, "recover", "--lost", "b,c", "--yes")
	for range 20 {
		put() // they could not hear of the recovery
	}
	_, err = etcd(t, "", one).Put(t.Context(), "meanwhile", "1")
	must(t, err)
	if leader, follower := others[0], others[1]; uneven {
		if s, err := leader.Self(); err != nil || s.State != "leader" {
			leader, follower = follower, leader
		}
		client := etcd(t, "", leader)
		follower.Kill()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := client.Put(ctx, "unacknowledged", "1"); err == nil {
			t.Errorf("%s acknowledges a write alone", leader.Name)
		}
	}
	must(t, net.Heal())
	giveStore(t, c, others...)
	for _, n := range others {
		if !n.Running() {
			n.Start()
		}
	}
	begin := time.Now()
	for _, n := range others {
		n.Says("was declared lost and is back", "`holdfast rejoin`", "`holdfast rejoin --instead`", "from slot a at term")
	}
	t.Logf("stopped within %s", time.Since(begin).Round(100*time.Millisecond))
	listed(c, one.Name, "live") // the store may tell of the other generation before the gossip does
	for _, n := range others {
		o := n.Command("status")
		if !strings.Contains(o.Out, "holdfast rejoin") {
			t.Errorf("%s: status does not show the way: %s%s", n.Name, o.Out, o.Err)
		}
		if aside, _ := filepath.Glob(filepath.Join(n.Volume(), "aside", "*")); len(aside) > 0 {
			t.Errorf("%s has set aside %v", n.Name, aside)
		}
		if _, err := os.Stat(filepath.Join(n.Volume(), "etcd", "member")); err != nil {
			t.Errorf("%s: its data is not in place: %v", n.Name, err)
		}
	}
	return c, keys, last
}

// The lost nodes come back with writes that they acknowledged alone. Their operator orders them to join the current
// generation.
func TestReturnAndRejoin(t *testing.T) {
	c, keys, _ := parted(t, false)
	refused(t, c.Nodes[0], "nothing to choose", "rejoin")
	for i, n := range c.Nodes[1:] {
		if o := n.Command("rejoin", "--dry-run"); o.Code != 0 || !strings.Contains(o.Out+o.Err, "would set the data") {
			t.Errorf("rejoin --dry-run: exit code %d: %s%s", o.Code, o.Out, o.Err)
		}
		n.Says("`holdfast rejoin`")
		done(t, n, "rejoin")
		c.Until(90*time.Second, n.Name+" is a voter", func() error {
			members, err := c.ReadMembers()
			if m, ok := members[c.Slots[i+1]]; err != nil || !ok || m.Learner {
				return fmt.Errorf("members: %v %v", members, err)
			}
			return nil
		})
		if aside, _ := filepath.Glob(filepath.Join(n.Volume(), "aside", "*", "member")); len(aside) != 1 {
			t.Errorf("%s has set aside %v", n.Name, aside)
		}
		if i == 0 {
			c.Nodes[2].Says("`holdfast rejoin`")
		}
	}
	generation(t, c, 2)
	allVoters(t, c)
	client := etcd(t, "", c.Nodes...)
	stored(t, client, "before", "meanwhile")
	if got, err := client.Get(t.Context(), keys[0]); err != nil || len(got.Kvs) > 0 {
		t.Errorf("%s is there: %v %v", keys[0], got, err)
	}
}

// The members that were declared lost come back one after the other, while the survivor is away. The first hears of the
// second before it has found it in the store, so the second could use another store. It does not start all the same:
// several such members would be a majority of the generation that is over.
func TestReturnOneAfterTheOther(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	one, others := c.Nodes[0], c.Nodes[1:]
	for _, n := range others {
		n.Kill()
	}
	one.Says("`holdfast recover --lost b,c`")
	done(t, one, "recover", "--lost", "b,c", "--yes")
	one.Says("serving as the leader")
	one.Stop()
	for _, n := range others {
		n.Start()
		n.Says("ended in", "stays in place until a leader of that is seen")
	}
	listed(c, others[1].Name, "live")
	for _, d := range others[0].Decisions() {
		if d.Action == string(plan.Start) {
			t.Errorf("%s: %s", d.Time, d.Why)
		}
	}
}

// In the same situation, the operator orders the cluster to continue from the lost nodes' data instead.
func TestReturnInstead(t *testing.T) {
	c, keys, last := parted(t, true)
	instead(t, c, keys, last)
}

// In the same situation, the current generation has lost its disks meanwhile.
func TestReturnInsteadOfTheLost(t *testing.T) {
	c, keys, last := parted(t, true)
	one := c.Nodes[0]
	one.Kill()
	listed(c, one.Name, "lost")
	for _, lost := range [][]string{nil, {"--lost", "a"}} { // b and c could be served on other disks by now
		o := c.Nodes[1].Command(append([]string{"rejoin", "--instead", "--yes"}, lost...)...)
		if o.Code == 0 || !strings.Contains(o.Err, "could still have a majority elsewhere") || !strings.Contains(o.Err, "--lost a,b,c") {
			t.Errorf("%q: exit code %d: %s%s", lost, o.Code, o.Out, o.Err)
		}
	}
	one.Wipe()
	instead(t, c, keys, last, "--lost", "a,b,c")
}

// instead orders the cluster to continue from the data of n2 or n3, whichever holds more, and checks that it does.
func instead(t *testing.T, c *integration.Cluster, keys []string, last int64, flags ...string) {
	t.Helper()
	var end int64
	if one := c.Nodes[0]; one.Running() {
		got, err := etcd(t, "", one).Get(t.Context(), "meanwhile")
		must(t, err)
		end = got.Header.Revision
	}
	more, less := c.Nodes[1], c.Nodes[2]
	dry := append([]string{"rejoin", "--instead", "--dry-run"}, flags...)
	o := more.Command(dry...)
	if o.Code != 0 {
		more, less = less, more
		o = more.Command(dry...)
	}
	if o.Code != 0 || !strings.Contains(o.Out+o.Err, "generation 3 would continue") {
		t.Errorf("dry run: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	refused(t, less, "on "+more.Name+" has a more advanced log", dry...)
	done(t, more, append([]string{"rejoin", "--instead", "--yes"}, flags...)...)
	if one := c.Nodes[0]; !one.Running() {
		one.Start()
	}
	generation(t, c, 3)
	allVoters(t, c)
	client := etcd(t, "", c.Nodes...)
	stored(t, client, append([]string{"before"}, keys...)...)
	got, err := client.Get(t.Context(), "meanwhile")
	must(t, err)
	if len(got.Kvs) > 0 {
		t.Error("what the generation in between had written is there")
	}
	if got.Header.Revision <= max(last, end) {
		t.Errorf("revision %d; the ends were at %d and %d", got.Header.Revision, last, end)
	}
}

// Both the majority and the store are lost. The survivor's operator names all other slots, and the store learns of the
// recovery later.
func TestRecoverWithoutStore(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	w := c.Write()
	bereave(t, c, w)
	for _, lost := range c.Nodes[1:] {
		lost.Wipe()
	}
	n.Says("`holdfast recover --lost b,c`")
	o := n.Command("recover", "--without-store", "--lost", "b,c", "--yes")
	if o.Code == 0 || !strings.Contains(o.Err, "the backup store answers") {
		t.Errorf("while the store answers: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	away := c.Store + ".away"
	must(t, os.Rename(c.Store, away))
	n.Says("which does not answer")
	o = n.Command("recover", "--without-store", "--lost", "b", "--yes")
	if o.Code == 0 || !strings.Contains(o.Err, "slot c is not") {
		t.Errorf("with slot c not named: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	o = n.Command("recover", "--without-store", "--lost", "b,c")
	if o.Code != 0 || !strings.Contains(o.Out+o.Err, "would continue from slot a, as generation 2") {
		t.Errorf("without --yes: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if s, err := n.Self(); err != nil || s.Restore != nil {
		t.Errorf("showing it began it: %+v %v", s.Restore, err)
	}
	ordered := n.Begin("recover", "--without-store", "--lost", "b,c", "--yes")
	c.Until(patience, "the node is at it", func() error {
		s, err := n.Self()
		if err == nil && s.Restore == nil {
			err = errors.New("it is not")
		}
		return err
	})
	must(t, os.Rename(away, c.Store))
	if o := <-ordered; o.Code == 0 || !strings.Contains(o.Err, "the backup store answers again") {
		t.Errorf("the store came back: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	must(t, os.Rename(c.Store, away))
	n.Says("which does not answer")
	if s, err := n.Self(); err != nil || s.Restore != nil {
		t.Errorf("the order holds again when the store is away again: %+v %v", s.Restore, err)
	}
	o = n.Command("recover", "--without-store", "--lost", "b,c", "--yes")
	if o.Code != 0 || !strings.Contains(o.Out, "recovered from slot a") {
		t.Fatalf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	_, err := etcd(t, "", n).Put(t.Context(), "first", "1")
	must(t, err)
	must(t, os.Rename(away, c.Store))
	c.Until(patience, "the store knows generation 2", func() error {
		records, err := filepath.Glob(filepath.Join(c.Store, "holdfast", "*", "*000002*.json"))
		if err != nil || len(records) == 0 {
			return errors.Join(err, errors.New("it does not"))
		}
		return nil
	})
	for _, lost := range c.Nodes[1:] {
		lost.Start()
	}
	generation(t, c, 2)
	allVoters(t, c)
	stored(t, etcd(t, "", c.Nodes...), "first")
	w.Verify()
}

// A member that is declared lost, but runs without a leader, objects once. The command that names its disk with
// --overrule is not stopped again: the member leaves, and joins the new generation.
func TestOverruleObjection(t *testing.T) {
	c, net := onHosts(t)
	one, two := c.Nodes[0], c.Nodes[1]
	_, err := etcd(t, "", c.Nodes...).Put(t.Context(), "precious", "1")
	must(t, err)
	c.Nodes[2].Kill()
	must(t, net.Partition([]*hosts.Host{one.Host}, []*hosts.Host{two.Host}))
	leaderless(t, c, one, two)
	one.Says("`holdfast recover --lost b,c`")
	self, err := two.Self()
	must(t, err)
	disk := self.Volume.Disk
	o := one.Command("recover", "--lost", "b,c", "--yes")
	if o.Code == 0 || !strings.Contains(o.Err, "node n2 (slot b)") || !strings.Contains(o.Err, "--overrule "+disk) {
		t.Fatalf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	done := one.Begin("recover", "--lost", "b,c", "--overrule", disk, "--yes")
	leaves(t, c, two)
	if o := <-done; o.Code != 0 {
		t.Fatalf("recover --overrule: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	must(t, net.Heal())
	c.Nodes[2].Wipe()
	c.Nodes[2].Start()
	generation(t, c, 2)
	allVoters(t, c)
	stored(t, etcd(t, "", c.Nodes...), "precious")
}
