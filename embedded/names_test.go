package embedded

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// names returns the member list as this member knows it, by name.
func (n *node) names() map[string]uint64 {
	ids := map[string]uint64{}
	for id, name := range n.MemberNames() {
		ids[name] = id
	}
	return ids
}

// patiently repeats a change that etcd refuses for a while after each change of the member list.
func patiently(t *testing.T, what string, change func() error) {
	t.Helper()
	await(t, what, func() bool {
		err := change()
		if err != nil && !errors.Is(err, plan.ErrUnhealthy) && !errors.Is(err, plan.ErrNotReady) {
			t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// etcd's names follow the pattern through founding, restart and replacement. A member's identity does not depend on it.
func TestMemberNames(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	peers := map[string]string{}
	var nodes []*node
	for _, slot := range []string{"a", "b", "c"} {
		n := newNode(t, slot)
		n.cfg.Names.Member = "etcd-{slot}"
		peers[slot] = n.spec.PeerURL
		nodes = append(nodes, n)
	}
	runAll(t, nodes, peers)
	a, b, c := nodes[0], nodes[1], nodes[2]
	ids, _, err := FounderIDs(a.spec.Token, peers)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]uint64{"etcd-a": ids["a"], "etcd-b": ids["b"], "etcd-c": ids["c"]}
	for _, n := range nodes {
		if got := n.names(); !maps.Equal(got, want) {
			t.Errorf("founded, as %s sees it: got %x, want %x", n.spec.Slot, got, want)
		}
	}

	// Another pattern gives the same member another name, and the old pattern gives the old name again.
	for _, pattern := range []string{"", "etcd-{slot}"} {
		stop(t, b, 0)
		b.Member, b.cfg.Names.Member = nil, pattern
		name := b.cfg.Names.of("b")
		b.run(t).awaitReady(t)
		await(t, "a hears the name "+name, func() bool { return a.names()[name] == ids["b"] })
		if got := b.Status().ID; got != ids["b"] || len(a.Members()) != 3 {
			t.Errorf("as %s: got member %x of %x, want %x of 3", name, got, a.names(), ids["b"])
		}
	}

	// The disk of c is gone. Another one takes the slot, and its name.
	c.Kill()
	awaitClosed(t, "c ends", c.Done())
	leads(t, a, b) // a follower's request to a leader that is gone is lost
	patiently(t, "removal of c", func() error { return a.Remove(soon(t), ids["c"]) })
	d := newNode(t, "c")
	var id uint64
	patiently(t, "addition of a learner", func() (err error) { id, err = a.AddLearner(soon(t), d.spec.PeerURL); return err })
	d.spec.Join, d.cfg.Names.Member = true, "etcd-{slot}"
	d.spec.Peers = map[string]string{"a": a.spec.PeerURL, "b": b.spec.PeerURL, "c": d.spec.PeerURL}
	d.run(t).awaitReady(t)
	patiently(t, "promotion", func() error { return a.Promote(soon(t), id) })
	want["etcd-c"] = id
	for _, n := range []*node{a, b, d} {
		await(t, n.spec.Slot+" knows the new member by its name", func() bool { return maps.Equal(n.names(), want) })
	}
	stop(t, d, 0)
	d.run(t).awaitReady(t)
	if got := d.Status(); got.ID != id || got.Learner {
		t.Errorf("the replacement after a restart: got %x, learner %v, want the voter %x", got.ID, got.Learner, id)
	}
}

func TestMemberNameHoldsTheSlotOnce(t *testing.T) {
	n := newNode(t, "a")
	for pattern, want := range map[string]string{"etcd": "0 times", "{slot}-{slot}": "2 times"} {
		n.cfg.Names.Member = pattern
		if _, err := etcdConfig(n.resolved(), n.spec, n.lg, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", pattern, err, want)
		}
	}
	n.cfg.Names.Member = "etcd-{slot}.x"
	ec, err := etcdConfig(n.resolved(), n.spec, n.lg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := "etcd-a.x=" + n.spec.PeerURL; ec.Name != "etcd-a.x" || ec.InitialCluster != want {
		t.Errorf("got %q of %q, want etcd-a.x of %q", ec.Name, ec.InitialCluster, want)
	}
}

// The slot comes from the peer URL. The name, whatever its pattern, counts only if the URL is another program's.
func TestSlotOf(t *testing.T) {
	const ours, other = "http://b.main.holdfast.internal:2380", "http://10.0.0.1:2380"
	for _, tt := range []struct{ pattern, name, url, want string }{
		{"{slot}", "b", ours, "b"},
		{"etcd-{slot}", "etcd-b", ours, "b"},
		{"etcd-{slot}", "", ours, "b"},  // was added, and has never started
		{"etcd-{slot}", "b", ours, "b"}, // has not been restarted since the pattern changed
		{"{slot}", "etcd-c", ours, "b"}, // a name is only a name
		{"etcd-{slot}", "etcd-b", other, "b"},
		{"{slot}", "b", other, "b"},
		{"etcd-{slot}", "b", other, "b"},
		{"{slot}.etcd", "b.etcd", other, "b"},
		{"etcd-{slot}", "etcd-", other, "etcd-"},
		{"etcd-{slot}", "", other, ""},
		{"{slot}", "b", "http://b.x.main.holdfast.internal:2380", "b"}, // ends as ours, and is another's
		{"{slot}", "", "http://.main.holdfast.internal:2380", ""},
	} {
		m := ListedMember{Name: tt.name, PeerURLs: []string{tt.url}}
		n := Names{PeerURL: "http://{slot}.main.holdfast.internal:2380", Member: tt.pattern}
		if got := n.slotOf(m); got != tt.want {
			t.Errorf("%s called %q at %s: got %q, want %q", tt.pattern, tt.name, tt.url, got, tt.want)
		}
	}
}

// While members go from http to https, the list has URLs of both kinds, and a learner that never ran has no name.
func TestSlotBetweenSchemes(t *testing.T) {
	for _, tc := range []struct{ pattern, url, want string }{
		{"https://{slot}.x.test:2381", "http://b.x.test:2380", "b"},
		{"http://{slot}.x.test:2380", "https://b.x.test:2381", "b"},
		{"https://{slot}.x.test:2381", "https://b.x.test:2381", "b"},
		{"https://{slot}.x.test:2381", "http://b.y.test:2380", ""},
		{"https://{slot}.x.test:2381", "http://b.c.x.test:2380", ""},
	} {
		m := ListedMember{PeerURLs: []string{tc.url}}
		if got := (Names{PeerURL: tc.pattern}).listed(m); got.Slot != tc.want || got.PeerURL != tc.url {
			t.Errorf("%s by %s: got %+v, want slot %q", tc.url, tc.pattern, got, tc.want)
		}
	}
}
