package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/integration"
	"holdfast/integration/hosts"
	"holdfast/integration/tier"
	"holdfast/snapshot"
)

// production is a serving cluster with writes after its newest backup, which must never be lost.
type production struct {
	*integration.Cluster
	t      *testing.T
	w      *integration.Writer
	before string // the cluster ID
}

func produce(t *testing.T, c *integration.Cluster) *production {
	t.Helper()
	p := &production{Cluster: c, t: t, w: c.Write()}
	p.w.More(50)
	p.before = oneCluster(t, c)
	save(t, c.Nodes[0])
	p.w.More(50)
	shines(t, c)
	return p
}

// untouched checks that production serves in its generation, with all its writes, and that nothing was set aside.
func (p *production) untouched() {
	p.t.Helper()
	p.w.More(20)
	p.still()
	p.w.Verify()
	p.w = p.Write()
	p.w.More(5)
}

// still checks what can be seen of that while writing continues.
func (p *production) still() {
	p.t.Helper()
	alive(p.t, p.Nodes...)
	if got := oneCluster(p.t, p.Cluster); got != p.before {
		p.t.Errorf("the cluster ID is %s, and was %s", got, p.before)
	}
	for _, n := range p.Nodes {
		if s, err := n.Self(); err != nil || s.Record == nil || s.Record.Generation != 1 {
			p.t.Errorf("%s is in %+v (%v), want generation 1", n.Name, s.Record, err)
		}
		if got, _ := filepath.Glob(filepath.Join(n.Root, "*", "aside", "*")); len(got) > 0 {
			p.t.Errorf("%s has set aside %v", n.Name, got)
		}
	}
}

// shines waits for the first beacon of a leader.
func shines(t *testing.T, c *integration.Cluster) {
	t.Helper()
	c.Until(patience, "the leader has written its beacon", func() error {
		if len(objects(t, c.Store, "beacon.json")) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}

// objects returns the names of the objects in the store about the cluster's generations.
func objects(t *testing.T, store, pattern string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(store, "holdfast", "*", pattern))
	must(t, err)
	for _, f := range found {
		names = append(names, filepath.Base(f))
	}
	return names
}

// drill makes nodes with a cluster's configuration on another network, with blank disks. By default, their names
// differ, as those of other machines do.
func drill(t *testing.T, of *integration.Cluster, store, names string, keys map[string]any) *integration.Cluster {
	t.Helper()
	d := cluster(t, integration.Options{Keys: keys})
	d.Name, d.Store = of.Name, store
	for i, n := range d.Nodes {
		n.Name = fmt.Sprintf("%s%d", names, i+1)
	}
	return d
}

// denied runs a command that must change nothing, and print all texts.
func denied(t *testing.T, n *integration.Node, args []string, texts ...string) {
	t.Helper()
	begin := time.Now()
	o := n.Command(args...)
	t.Logf("%s: %v after %s: exit code %d: %s%s", n.Name, args, time.Since(begin).Round(time.Second), o.Code, o.Out, o.Err)
	for _, text := range append([]string{"nothing was changed"}, texts...) {
		if o.Code == 0 || !strings.Contains(o.Err, text) {
			t.Errorf("%v: exit code %d, want that it says %q", args, o.Code, text)
		}
	}
}

// A disaster is rehearsed on machines that share only the store and the configuration with production. Whatever is
// ordered there, the serving cluster continues, and the operator is told so.
func TestDrillOnStoreOfServingCluster(t *testing.T) {
	t.Parallel() // its parts are stories
	// Either with other names, or with those of production's nodes.
	for _, names := range tier.Share(t, 2, []string{"d", "n"}) {
		t.Run(names, func(t *testing.T) {
			story(t)
			p := produce(t, founded(t, integration.Options{Keys: map[string]any{"etcd.election-timeout": 10000}})) // one leader
			d := drill(t, p.Cluster, p.Store, names, nil)
			d.Start()
			for _, n := range d.Nodes {
				n.Says("the backup store knows the cluster as story@1-", "`holdfast restore ")
			}
			leader := p.Leader()
			self, err := leader.Self()
			must(t, err)
			n := d.Nodes[0]
			lives := []string{"the cluster lives", "node " + leader.Name + " (slot " + self.Volume.Slot + ") at " + leader.Address + ", revision ", "--confirm", "--overrule " + self.Volume.Disk}
			denied(t, n, []string{"restore", "latest", "--lost", "a,b,c", "--yes"}, lives...)
			denied(t, n, []string{"restore", "latest", "--yes"}, lives...)
			if got := objects(t, p.Store, "restore-*"); len(got) > 0 {
				t.Errorf("proposed: %v", got)
			}
			p.untouched()

			begin := time.Now()
			denied(t, n, []string{"restore", "latest", "--lost", "a,b,c", "--yes", "--overrule", self.Volume.Disk},
				" at "+leader.Address[:strings.LastIndex(leader.Address, ".")+1], "objected", "the cluster has a leader") // whichever of its members reads it first
			t.Logf("the cluster has objected %s after the command", time.Since(begin).Round(10*time.Millisecond))
			if got := objects(t, p.Store, "record-000002*"); len(got) > 0 {
				t.Errorf("concluded: %v", got)
			}
			p.untouched()
			for _, m := range d.Nodes {
				if s, err := m.Self(); err != nil || s.Record != nil {
					t.Errorf("%s is in %+v (%v)", m.Name, s.Record, err)
				}
			}
			d.Stop()
			p.Healthy()
		})
	}
}

// One of three machines is cut off from the others, and all read the store. Orders on that machine do not end the
// generation in which the others serve.
func TestRecoverOfIsland(t *testing.T) {
	r, w := serving(t, 30)
	c := r.cluster
	island := c.Nodes[slices.IndexFunc(c.Nodes, func(n *integration.Node) bool { return n != c.Leader() })]
	others := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *integration.Node) bool { return n == island })
	w.Stop()
	must(t, r.Net.Partition([]*hosts.Host{island.Machine.Host}, []*hosts.Host{others[0].Machine.Host, others[1].Machine.Host}))
	after := c.Write(others...)
	after.More(30)
	shines(t, c)
	island.Says("waits for a quorum", "`holdfast recover --lost ")
	s, err := island.Self()
	must(t, err)
	lost := slices.DeleteFunc(slices.Clone(c.Slots), func(slot string) bool { return slot == s.Volume.Slot })
	var leader *integration.Node
	var self health.NodeStatus
	c.Until(patience, "one of the others leads", func() error {
		for _, n := range others {
			if self, err = n.Self(); err == nil && self.State == "leader" {
				leader = n
				return nil
			}
		}
		return errors.New("none does")
	})
	stand := "node " + leader.Name + " (slot " + self.Volume.Slot + ") at " + leader.Address
	args := []string{"recover", "--lost", strings.Join(lost, ","), "--yes"}
	denied(t, island, args, "the cluster lives", stand, ", revision ")
	if got := objects(t, c.Store, "restore-*"); len(got) > 0 {
		t.Errorf("proposed: %v", got)
	}
	denied(t, island, append(args, "--overrule", self.Volume.Disk), "objected", "the cluster has a leader") // whichever of both reads it first
	after.More(30)
	must(t, r.Net.Heal())
	generation(t, c, 1)
	for _, n := range c.Nodes {
		s, err := n.Self()
		if err != nil || len(s.Aside) > 0 {
			t.Errorf("%s has set aside %v (%v)", n.Name, s.Aside, err)
		}
	}
	c.Serving() // the cut-off node has a leader again
	after.Verify()
	w.Verify()
}

// A drill on a copy of the store reaches generation 2 there, with the same name and gossip key. Later a seed connects
// it with production. The drill's records prove nothing, so production continues to serve, reports the conflict, and
// survives restarts.
func TestDrillOnCopyMeetsProduction(t *testing.T) {
	tier.Long(t, "TestForgedGeneration proves that an unproven later generation stops nobody, and TestForgetStray forgets")
	story(t)
	c := cluster(t, integration.Options{})
	key := filepath.Join(c.Dir, "gossip.key")
	must(t, os.WriteFile(key, []byte(c.Nodes[0].Holdfast("gossip", "keygen").Out), 0o600))
	c.Set("gossip.key-file", key)
	c.Start()
	c.Serving()
	p := produce(t, c)

	copied := filepath.Join(c.Dir, "copied-store")
	if out, err := exec.Command("cp", "-a", c.Store, copied).CombinedOutput(); err != nil {
		t.Fatalf("copy the store: %v: %s", err, out)
	}
	d := drill(t, c, copied, "d", map[string]any{"gossip.key-file": key})
	d.Set("gossip.seeds-file", seedsFile(d))
	must(t, os.WriteFile(seedsFile(d), nil, 0o600))
	d.Start()
	n := d.Nodes[0]
	n.Says("the backup store knows the cluster as story@1-")
	o := n.Command("restore", "latest", "--lost", "a,b,c", "--yes")
	if o.Code != 0 {
		t.Fatalf("the drill: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	generation(t, d, 2)
	p.untouched()

	must(t, os.WriteFile(seedsFile(d), []byte(c.Nodes[0].Address+"\n"), 0o600))
	c.Until(time.Minute, "every node of production shows the conflict", func() error {
		for _, m := range c.Nodes {
			if err := finds(m, "d1 says that story@1-", "was followed by story@2-", "nothing proves"); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		return nil
	})
	begin := time.Now()
	c.Until(2*time.Minute, "a minute passes", func() error { // longer than a voter waits without a leader (R16)
		p.w.More(1)
		p.still()
		if time.Since(begin) < time.Minute {
			return errors.New("not yet")
		}
		return nil
	})
	p.untouched()
	m := c.Nodes[1]
	m.Stop()
	m.Start()
	c.Until(patience, m.Name+" serves again beside the drill", func() error { return serves(m) })
	p.untouched()

	d.Stop()
	for _, gone := range d.Nodes {
		listed(c, gone.Name, "lost")
	}
	for _, gone := range d.Nodes {
		c.Until(patience, gone.Name+" is forgotten", func() error { // this is refused while another node has heard of it more recently
			if o := c.Nodes[0].Command("gossip", "forget", gone.Name); o.Code != 0 {
				return errors.New(o.Err)
			}
			return nil
		})
	}
	c.Healthy()
	p.untouched()
}

// Anyone with the gossip's key can publish anything there. A published record of a later generation, descending from
// the current one, stops no node.
func TestForgedGeneration(t *testing.T) {
	story(t)
	p := produce(t, founded(t, integration.Options{}))
	leader := p.Leader()
	self, err := leader.Self()
	must(t, err)
	ours := *self.Record
	whole := coordinator.NewRestore(ours, 0, coordinator.Backup{Name: "2026-07-01T00:15:03Z-000042", Digest: strings.Repeat("0", 64), Revision: 5}, 5, 10)
	charter := ours.Charter
	charter.Generation = 2
	said := map[string]plan.Facts{
		"bare": {Version: 1, Phase: plan.PhaseData, Slot: self.Volume.Slot, Disk: "forged", Record: &plan.Record{Generation: 2, Line: []string{ours.ID}, Cause: plan.Recovered}},
		"whole": {Version: 1, Phase: plan.PhaseData, Slot: self.Volume.Slot, Disk: self.Volume.Disk, Epoch: self.Volume.Epoch + 1, Running: true, Leader: true, Confirmed: true,
			Record: &plan.Record{Cluster: ours.Cluster, Generation: 2, ID: whole.ID, Line: whole.Line, Cause: plan.Restored, Restore: &whole, Charter: charter}},
	}
	must(t, said["whole"].Valid())
	for i, name := range []string{"bare", "whole"} {
		gossiping(t, p.Cluster, name, i, said[name])
		listed(p.Cluster, name, "live")
	}
	p.Until(patience, "every node shows it", func() error {
		for _, n := range p.Nodes {
			if err := errors.Join(finds(n, "what node bare says does not count"), finds(n, "node whole says that "+ours.Token()+" was followed by story@2-", "nothing proves")); err != nil {
				return fmt.Errorf("%s: %w", n.Name, err)
			}
		}
		return nil
	})
	p.untouched()
	for _, n := range p.Nodes {
		n.Stop()
		n.Start()
		p.Until(time.Minute, n.Name+" serves again", func() error { return serves(n) })
		p.still()
	}
	p.untouched()
}

// Someone who can write to the store, but has no key of the cluster, puts a whole generation there: a restore that was
// proposed and concluded, of a real backup. Members that know their generation start as before, and name the object.
// When it is gone, an operator's own restore succeeds.
func TestForgedOrdersInTheStore(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"tls.mode": "auto"}})
	c.TLS = clientTLS(t, c, c.Nodes[0], "story")
	p := produce(t, c)
	saved := save(t, p.Nodes[0])
	self, err := p.Nodes[0].Self()
	must(t, err)
	ours := *self.Record
	forged := coordinator.NewRestore(ours, 0, coordinator.Backup{Name: saved.Name, Digest: saved.Trailer, Revision: saved.Content.Revision}, saved.Content.Revision, 10)
	born := plan.Record{Cluster: ours.Cluster, Generation: 2, ID: forged.ID, Line: forged.Line, Cause: plan.Restored, Restore: &forged, Charter: ours.Charter}
	born.Charter.Generation = 2
	thief := generations.New(snapshot.NewDir(p.Store), p.Name, nil)
	must(t, thief.Propose(t.Context(), forged))
	must(t, thief.Conclude(t.Context(), born))
	for _, n := range p.Nodes {
		n.Stop()
		n.Start()
		p.Until(time.Minute, n.Name+" serves again", func() error { return serves(n) })
		p.Until(patience, n.Name+" says what is not signed", func() error { return finds(n, "restore-000002-01.json", "it is not signed") })
		p.still()
	}
	p.untouched()
	if o := p.Nodes[0].Command("restore", saved.Name, "--yes"); o.Code == 0 {
		t.Errorf("a restore beside the forged one: %s%s", o.Out, o.Err)
	}
	for _, name := range []string{"restore-000002-01.json", "outcome-000002-01.json", "record-000002.json"} {
		must(t, os.Remove(filepath.Join(p.Store, "holdfast", p.Name, name)))
	}
	p.Until(patience, "nothing is doubted any more", func() error {
		if finds(p.Nodes[0], "it is not signed") == nil {
			return errors.New("it still is")
		}
		return nil
	})
	done(t, p.Nodes[0], "restore", saved.Name, "--yes")
	generation(t, p.Cluster, 2)
}

// gossiping joins the gossip of a cluster from this process, and publishes a state there until the test ends.
func gossiping(t *testing.T, c *integration.Cluster, name string, i int, f plan.Facts) {
	t.Helper()
	data, err := json.Marshal(f)
	must(t, err)
	at := c.Address(100 + i)
	m, err := gossip.New(gossip.Config{Listen: at + ":7946", Seeds: []string{c.Nodes[0].Address}}, c.Name,
		gossip.Meta{Node: name, Boot: uint64(time.Now().UnixNano()), Address: netip.MustParseAddr(at), Version: "forged"},
		func(context.Context, []byte) ([]byte, error) { return data, nil }, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	m.Publish(data)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A stray node of another founding with the same name came and left. No node was told to forget it, and yet all nodes
// start again.
func TestStrayKeepsNobodyFromStarting(t *testing.T) {
	story(t)
	p := produce(t, founded(t, integration.Options{}))
	stray := apart(t, "stray", "a")
	stray.Serving()
	must(t, os.WriteFile(seedsFile(stray), []byte(p.Nodes[0].Address+"\n"), 0o600))
	listed(p.Cluster, "stray", "live")
	p.Until(patience, "every node shows it", func() error {
		for _, n := range p.Nodes {
			if err := finds(n, "node stray is of another cluster of this name, story@1-"); err != nil {
				return fmt.Errorf("%s: %w", n.Name, err)
			}
		}
		return nil
	})
	stray.Stop()
	listed(p.Cluster, "stray", "lost")
	for _, n := range p.Nodes {
		n.Stop()
		n.Start()
		p.Until(time.Minute, n.Name+" serves again", func() error { return serves(n) })
		p.Serving()
	}
	p.untouched()
}

// One object in the store is incomplete, or of a newer version. No node relies on it, nor on its absence. It crashes
// no node, and keeps a member from starting only for a moment.
func TestUnreadableRecordInStore(t *testing.T) {
	t.Parallel() // its parts are stories
	contents := map[string]string{
		"not whole":          `{"id":"x","generation":2,"cause":"recover"}`,
		"of a newer version": `{"id":"0123456789abcdef","generation":2,"cause":"merge","merged":["x"]}`,
	}
	for _, what := range tier.One(t, contents) {
		t.Run(what, func(t *testing.T) {
			story(t)
			p := produce(t, founded(t, integration.Options{}))
			bad := filepath.Join(p.Store, "holdfast", "story", "record-000002.json")
			must(t, os.WriteFile(bad, []byte(contents[what]), 0o600))
			shown := func() {
				t.Helper()
				word := map[bool]string{true: "is unsupported here", false: "is damaged"}[what == "of a newer version"]
				p.Until(patience, "every node shows it", func() error {
					for _, n := range p.Nodes {
						if err := finds(n, n.Name+": what the backup store says of generations does not count", "holdfast/story/record-000002.json", word); err != nil {
							return fmt.Errorf("%s: %w", n.Name, err)
						}
					}
					return nil
				})
			}
			shown()
			p.untouched()
			n := p.Nodes[1]
			n.Stop()
			n.Start()
			p.Until(time.Minute, n.Name+" serves again", func() error { return serves(n) })
			p.Kill()
			begin := time.Now()
			for _, n := range p.Nodes {
				n.Start()
			}
			for _, n := range p.Nodes {
				n.Says("waits a moment for the backup store", "record-000002.json")
			}
			p.Until(90*time.Second, "they serve again", p.Served)
			if took := time.Since(begin); took < 25*time.Second {
				t.Errorf("all of them were started, and served after %s: they have not waited for the store", took)
			}
			shown()
			p.untouched()
			must(t, os.Remove(bad))
			p.Healthy()
			p.untouched()
		})
	}
}
