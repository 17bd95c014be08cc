package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/integration"
)

// small are the keys of a cluster whose databases are soon full.
func small(more map[string]any) map[string]any {
	keys := map[string]any{"etcd.quota-backend-bytes": 16 << 20, "upkeep.defrag-free-bytes": 4 << 20, "upkeep.full-percent": 60}
	for k, v := range more {
		keys[k] = v
	}
	return keys
}

func connect(t *testing.T, c *integration.Cluster) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop(), DialTimeout: 2 * time.Second})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// fillUp writes values under names until the cluster has no space, and returns the last one written.
func fillUp(t *testing.T, client *clientv3.Client, name func(i int) string) (last int) {
	t.Helper()
	for i := range 1000 {
		// Every value differs, so that nothing can be compressed.
		value := strings.Repeat(fmt.Sprintf("%08d", i), 16<<10)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := client.Put(ctx, name(i), value)
		cancel()
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace):
			return i - 1
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Fatal("1000 values of 128 KiB fit in")
	return 0
}

// renewal is the time within which Kubernetes renews its leases: writes must not fail for longer than that. On a quiet
// machine a cure takes a third of it.
const renewal = 10 * time.Second

// cured waits until writes are acknowledged again. They began to be refused, or could be accepted again, at begin.
func cured(t *testing.T, c *integration.Cluster, w *integration.Writer, what string, begin time.Time) {
	t.Helper()
	w.More(1)
	took := time.Since(begin)
	w.Gap()
	w.More(200)
	gap := w.Gap()
	t.Logf("%s: writes were acknowledged again after %s, and then the longest gap was %s", what,
		took.Round(10*time.Millisecond), gap.Round(10*time.Millisecond))
	if max(took, gap) > renewal {
		t.Errorf("%s: it took %s, and then %s: want less than %s", what, took, gap, renewal)
		for _, n := range c.Nodes {
			for line := range strings.Lines(n.Log()) {
				if strings.Contains(line, "decided") || strings.Contains(line, "the database") || strings.Contains(line, "compact") {
					t.Logf("%s: %s", n.Name, strings.TrimSpace(line))
				}
			}
		}
	}
}

// decisions counts how often each node has decided on an action since its start.
func decisions(c *integration.Cluster, kind string) map[string]int {
	counts := map[string]int{}
	for _, n := range c.Nodes {
		for _, d := range n.Decisions() {
			if d.Action == kind {
				counts[n.Name]++
			}
		}
	}
	return counts
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// A cluster whose space is full of history cures itself, under writes. One that is full of live data says so and stays
// as it is until something is deleted. Neither takes longer than Kubernetes' controllers can wait.
func TestNoSpace(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: small(nil)})
	client := connect(t, c)
	w := c.Write()
	w.More(50)
	fillUp(t, client, func(int) string { return "history" })
	begin := time.Now()
	cured(t, c, w, "history only", begin)
	c.Healthy()
	if compacts, defrags := decisions(c, "compact"), decisions(c, "defrag"); total(compacts) != 1 || len(defrags) != 3 {
		t.Errorf("compacted %v, defragmented %v; want once by one, and all", compacts, defrags)
	}
	w.Verify()

	w = c.Write()
	last := fillUp(t, client, func(i int) string { return fmt.Sprintf("live/%04d", i) })
	c.Nodes[0].Says("NOSPACE", "full of live data (slots a, b, c)", "delete keys or raise etcd.quota-backend-bytes")
	s, err := c.Nodes[0].Status()
	if err != nil || !strings.Contains(strings.Join(health.Texts(s.Findings), "\n"), "of its quota of 16.0 MiB") {
		t.Errorf("the status does not tell of the quota: %q %v", health.Texts(s.Findings), err)
	}
	before := total(decisions(c, "disarm"))
	for i := range last / 2 { // one by one, as kubectl does
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := client.Delete(ctx, fmt.Sprintf("live/%04d", i))
		cancel()
		must(t, err)
	}
	cured(t, c, w, "live data", time.Now())
	w.Verify()
	if n := total(decisions(c, "disarm")); n != before+1 {
		t.Errorf("disarmed %d times, want once more than %d", n, before)
	}
	got, err := client.Get(t.Context(), "live/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	must(t, err)
	left := map[string]bool{}
	for _, kv := range got.Kvs { // a refused write may have been carried out
		left[string(kv.Key)] = true
	}
	for i := range last + 1 {
		if key := fmt.Sprintf("live/%04d", i); left[key] != (i >= last/2) {
			t.Errorf("%s is there: %t; those before %d were deleted", key, left[key], last/2)
		}
	}
}

// Fragmented databases are defragmented one after the other, the leader's last and after it has handed over the lead,
// while clients write.
func TestDefragmentation(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"upkeep.defrag-free-bytes": 24 << 20}})
	client := connect(t, c)
	for i := range 400 {
		if _, err := client.Put(t.Context(), fmt.Sprintf("k%03d", i), strings.Repeat("x", 128<<10)); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := client.Delete(t.Context(), "k", clientv3.WithPrefix())
	must(t, err)
	w := c.Write()
	w.More(50)
	w.Gap()
	if _, err := client.Compact(t.Context(), gone.Header.Revision); err != nil {
		t.Fatal(err)
	}
	type defrag struct{ at, node string }
	var order []defrag
	c.Until(60*time.Second, "every database has been defragmented", func() error {
		order = nil
		for _, n := range c.Nodes {
			for line := range strings.Lines(n.Log()) {
				if strings.Contains(line, "defragmented the database") {
					_, at, _ := strings.Cut(line, `"ts":"`)
					order = append(order, defrag{at[:30], n.Name})
				}
			}
		}
		if len(order) < 3 {
			return fmt.Errorf("only %v", order)
		}
		return nil
	})
	w.More(50)
	t.Logf("longest time without a write: %s", w.Gap().Round(time.Millisecond))
	slices.SortFunc(order, func(a, b defrag) int { return strings.Compare(a.at, b.at) })
	// The last one led when it decided. It may have decided before it heard that all others had to be defragmented too.
	last := c.Nodes[slices.IndexFunc(c.Nodes, func(n *integration.Node) bool { return n.Name == order[2].node })]
	all := last.Decisions()
	turn := slices.IndexFunc(all, func(d integration.Decision) bool { return d.Action == "defrag" })
	if len(order) != 3 || !strings.HasPrefix(all[turn-1].Why, "serving as the leader") {
		t.Errorf("the order was %v; the last one said before: %q", order, all[turn-1].Why)
	}
	if c.Leader() == last {
		t.Errorf("%s leads still", last.Name)
	}
	for _, n := range c.Nodes {
		s, err := n.Self()
		if err != nil || s.Etcd.Size > 16<<20 || s.Upkeep.Last == nil || s.Upkeep.Last.Error != "" {
			t.Errorf("%s: %+v %+v %v", n.Name, s.Etcd, s.Upkeep, err)
		} else {
			t.Logf("%s: %d to %d bytes in %.3f s", n.Name, s.Upkeep.Last.Before, s.Upkeep.Last.After, s.Upkeep.Last.Seconds)
		}
	}
	w.Verify()
}

// A member's data was damaged. By the hashes of all members, all nodes name the damaged one, although etcd's alarm
// names another, which stays. The damaged one is replaced when an operator says so.
func TestCorrupt(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: small(nil)})
	client := connect(t, c)
	_, err := client.Put(t.Context(), "k", "an honest value")
	must(t, err)
	bad, good := c.Leader(), c.Nodes[0]
	if bad == good {
		good = c.Nodes[1]
	}
	c.Until(patience, "every member has the key", func() error {
		s, err := bad.Status()
		for _, n := range s.Nodes {
			if n.Etcd == nil || n.Etcd.Revision != s.Nodes[0].Etcd.Revision {
				return fmt.Errorf("not %s, %v", n.Node, err)
			}
		}
		return err
	})
	self, err := bad.Self()
	must(t, err)
	bad.Stop()
	damage(t, filepath.Join(bad.Volume(), "etcd", "member", "snap", "db"))
	bad.Start()
	c.Healthy()
	refused(t, bad, "no majority of the members reports the same hash", "rejoin")

	// The alarm names the wrong member, as etcd may do.
	blamed, err := good.Self()
	must(t, err)
	id := uint64(blamed.Etcd.Member)
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: pb.AlarmType_CORRUPT}
	_, err = pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm)
	must(t, err)
	for _, n := range c.Nodes {
		n.Says("alarm CORRUPT: etcd blames slot " + blamed.Volume.Slot + " on " + good.Name)
	}
	c.Until(patience, "all say who differs", func() error {
		return everywhere(c, func(n *integration.Node) error {
			s, err := n.Status()
			differs := func(f health.Finding) bool { return f.Code == health.MemberDiffers && f.Subject == bad.Name }
			if err == nil && !slices.ContainsFunc(s.Findings, differs) {
				err = fmt.Errorf("%s says %q", n.Name, s.Reasons())
			}
			return err
		})
	})
	views(t, c, health.Degraded)
	alerts(t, c, "HoldfastBackupOld", "HoldfastCorrupt", "HoldfastFindingCritical")
	refused(t, good, "does not differ from what a majority of the members has", "rejoin")
	if out := bad.Command("rejoin", "--dry-run"); out.Code != 0 || !strings.Contains(out.Out, "nothing was changed") {
		t.Errorf("rejoin --dry-run: %+v", out)
	}
	done(t, bad, "rejoin")
	c.Until(60*time.Second, "the member has joined anew", func() error {
		s, err := bad.Self()
		if err != nil || s.Etcd == nil || s.Etcd.Member == self.Etcd.Member || s.State != "follower" {
			return fmt.Errorf("it is %s: %s %v", s.State, s.Why, err)
		}
		return nil
	})
	s, err := good.Self()
	if err != nil || len(s.Etcd.Alarms) != 2 {
		t.Errorf("the alarms are %v, %v: want CORRUPT of two members still", s.Etcd, err)
	}
	aside, err := filepath.Glob(filepath.Join(bad.Volume(), "aside", "*-"+plan.Differed))
	if err != nil || len(aside) != 1 {
		t.Errorf("set aside is %v, %v", aside, err)
	}
	if out := good.Holdfast("etcdctl", "--endpoints", good.ClientURL(), "alarm", "disarm"); out.Code != 0 {
		t.Fatalf("etcdctl alarm disarm: %+v", out)
	}
	c.Healthy()
	for _, n := range c.Nodes {
		got, err := etcd(t, "", n).Get(t.Context(), "k", clientv3.WithSerializable())
		if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "an honest value" {
			t.Errorf("the key on %s is %v, %v", n.Name, got, err)
		}
	}
}

// damage changes a value in the database of a member that does not run.
func damage(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	defer db.Close()
	must(t, db.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		for at, kv := keys.Cursor().First(); at != nil; at, kv = keys.Cursor().Seek(append(bytes.Clone(at), 0)) {
			if spoilt := bytes.Replace(kv, []byte("an honest"), []byte("a hollow "), 1); !bytes.Equal(spoilt, kv) {
				return keys.Put(bytes.Clone(at), spoilt)
			}
		}
		return errors.New("the value is not there")
	}))
}
