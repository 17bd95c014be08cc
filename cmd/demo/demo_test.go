package demo

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
)

func TestDemoPlan(t *testing.T) {
	former := &plan{nodes: 4, slots: []string{"a", "b", "c"}, base: netip.MustParseAddr("127.0.9.1")}
	for _, test := range []struct {
		name   string
		o      Options
		former *plan
		nodes  int
		slots  string
		base   string
		err    string
	}{
		{"nothing said", Options{}, nil, 3, "abc", "127.0.0.1", ""},
		{"one", Options{Nodes: 1}, nil, 1, "a", "127.0.0.1", ""},
		{"two serve one slot", Options{Nodes: 2}, nil, 2, "a", "127.0.0.1", ""},
		{"a standby", Options{Nodes: 4}, nil, 4, "abc", "127.0.0.1", ""},
		{"slots need nodes", Options{Slots: 5}, nil, 5, "abcde", "127.0.0.1", ""},
		{"resumed", Options{}, former, 4, "abc", "127.0.9.1", ""},
		{"resumed with fewer", Options{Nodes: 1}, former, 1, "abc", "127.0.9.1", ""},
		{"resumed elsewhere", Options{Base: "127.0.2.1"}, former, 4, "abc", "127.0.2.1", ""},
		{"too many", Options{Nodes: 10}, nil, 0, "", "", "--nodes: must be 1–9, got 10"},
		{"negative", Options{Nodes: -1}, nil, 0, "", "", "--nodes: must be 1–9"},
		{"negative slots", Options{Slots: -1}, nil, 0, "", "", "--slots: must be 1–3"},
		{"more slots than nodes", Options{Nodes: 2, Slots: 3}, nil, 0, "", "", "--slots: must be 1–2"},
		{"slots stay", Options{Slots: 5}, former, 0, "", "", "keeps them"},
		{"no address", Options{Base: "here"}, nil, 0, "", "", "--address-base: must be a loopback address"},
		{"not for others", Options{Base: "10.0.0.1"}, nil, 0, "", "", "--address-base: must be a loopback address"},
		{"beyond loopback", Options{Base: "127.255.255.254"}, nil, 0, "", "", "leads to 128.0.0.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := planFor(test.o, test.former)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(p.slots, ""); p.nodes != test.nodes || got != test.slots || p.base.String() != test.base {
				t.Errorf("got %d nodes, slots %s at %s, want %d, %s at %s", p.nodes, got, p.base, test.nodes, test.slots, test.base)
			}
		})
	}
}

func openTestDir(t *testing.T, o Options) (*directory, []*node, error) {
	t.Helper()
	d, err := openDir(o, func(string, ...any) {})
	if err != nil {
		return nil, nil, err
	}
	defer d.lock.Close()
	nodes, err := d.write()
	return d, nodes, err
}

func TestDemoConfigIsTheNodes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a "dir": #1`)
	_, nodes, err := openTestDir(t, Options{Dir: dir, Nodes: 4, Base: "127.0.1.254"})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 4 {
		t.Fatalf("got %d nodes, want 4", len(nodes))
	}
	n := nodes[2]
	for _, test := range []struct{ what, got, want string }{
		{"name", n.Config.Node.Name, "n3"},
		{"address", n.Config.Node.Address, "127.0.2.0"},
		{"slots", strings.Join(n.Config.Cluster.Slots, ","), "a,b,c"},
		{"root", n.Config.Volume.Local.Root, filepath.Join(dir, "volumes")},
		{"scope", n.Config.Volume.Local.Scope, "machine"},
		{"takeover", n.Config.Volume.Local.TakeoverAfter.String(), "0s"},
		{"store", n.Config.Snapshot.Store, filepath.Join(dir, "snapshots")},
		{"socket", n.Config.Control.Socket, filepath.Join(dir, "n3", "holdfast.sock")},
		{"seeds", strings.Join(n.Config.Gossip.Seeds, ","), "127.0.1.254,127.0.1.255,127.0.2.0,127.0.2.1"},
		{"stop", n.Config.Stop.Wait.String(), "0s"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.what, test.got, test.want)
		}
	}
	if d, _, err := openTestDir(t, Options{Dir: dir}); err != nil || d.plan.nodes != 4 {
		t.Errorf("resumed: got %+v, %v, want 4 nodes", d, err)
	}
}

func TestDemoCleanRemovesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := openTestDir(t, Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	data, notes := filepath.Join(dir, "volumes", "data"), filepath.Join(dir, "notes.txt")
	for _, path := range []string{data, notes} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := openTestDir(t, Options{Dir: dir, Clean: true}); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("beside a file of the user: got %v, want a refusal that names it", err)
	}
	if _, _, err := openTestDir(t, Options{Dir: dir, Clean: true, Nodes: 99}); err == nil {
		t.Error("with a wrong option: got no error")
	}
	if _, err := os.Stat(data); err != nil {
		t.Fatalf("it refused, but: %v", err)
	}
	if err := os.Remove(notes); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openTestDir(t, Options{Dir: dir, Clean: true, Slots: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("after --clean: got %v, want the data gone", err)
	}
}

func TestDemoRefusesDirectoriesOfOthers(t *testing.T) {
	for _, clean := range []bool{false, true} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "volumes"), 0o700); err != nil { // even by a name of ours
			t.Fatal(err)
		}
		if _, _, err := openTestDir(t, Options{Dir: dir, Clean: clean}); err == nil || !strings.Contains(err.Error(), "no demo made it") {
			t.Errorf("clean %t: got %v, want a refusal", clean, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "volumes")); err != nil {
			t.Error(err)
		}
	}
}

func TestDemoPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.78.3.2:2390")
	if err != nil {
		t.Skip(err) // not every system has all of 127.0.0.0/8
	}
	defer l.Close()
	_, nodes, err := openTestDir(t, Options{Dir: t.TempDir(), Base: "127.78.3.1"})
	if err != nil {
		t.Fatal(err)
	}
	err = checkPorts(nodes)
	for _, want := range []string{"127.78.3.2:2390", "n2", "metrics.listen", "--address-base"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

func TestDemoDirectoryIsLocked(t *testing.T) {
	dir := t.TempDir()
	d, err := openDir(Options{Dir: dir}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDir(Options{Dir: dir}, t.Logf); err == nil || !strings.Contains(err.Error(), "a demo runs there") {
		t.Errorf("a second demo: got %v, want a refusal", err)
	}
	if err := d.lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openTestDir(t, Options{Dir: dir}); err != nil {
		t.Errorf("after the first one: %v", err)
	}
}

func TestDemoFitsTheScreen(t *testing.T) {
	lines := []string{"äbcdefg", "", "hi"}
	for _, test := range []struct {
		columns, rows int
		want          string
	}{{80, 24, "äbcdefg||hi"}, {7, 3, "äbcdefg||hi"}, {3, 24, "äbc|def|g||hi"}, {3, 2, "äbc|def"}, {3, 0, "äbc"}} {
		if got := strings.Join(fit(lines, test.columns, test.rows), "|"); got != test.want {
			t.Errorf("%d×%d: got %q, want %q", test.columns, test.rows, got, test.want)
		}
	}
}

func TestDemoQuote(t *testing.T) {
	for in, want := range map[string]string{"./holdfast": "./holdfast", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$x": "'$x'"} {
		if got := quote(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestDemoPrintsAStatusWhenItChanges(t *testing.T) {
	then := time.Now().Add(-time.Minute)
	status := health.ClusterStatus{Cluster: "demo", Asked: "n1", Health: health.Healthy, Nodes: []health.NodeStatus{
		{Node: "n1", State: "leader", Since: then, Why: "serving", Etcd: &health.EtcdStatus{}}}}
	status.Nodes[0].Etcd.Revision, status.Nodes[0].Etcd.Size = 7, 20480
	var b strings.Builder
	s := screen{out: &b}
	s.show(health.ClusterStatus{}, "hints\n")
	s.show(status, "hints\n")
	if got := b.String(); !strings.Contains(got, "no node answers yet") || !strings.Contains(got, "cluster demo: HEALTHY") || strings.Count(got, "hints") != 2 {
		t.Errorf("got %q, want both statuses, each with hints", got)
	}
	before := b.Len()
	status.Nodes[0].Since, status.Nodes[0].Etcd.Revision = then.Add(-time.Hour), 123456 // an age and a number are no change
	s.show(status, "hints\n")
	if got := b.String()[before:]; got != "" {
		t.Errorf("got %q, want nothing new", got)
	}
	status.Nodes[0].State = "follower"
	s.show(status, "hints\n")
	s.say("n1 died (\x1b[2J)")
	if got := b.String()[before:]; strings.Count(got, "cluster demo") != 1 || !strings.Contains(got, "follower") || !strings.Contains(got, "n1 died") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q, want the new status, and what was said without an escape sequence", got)
	}
}
