package cmd

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
)

func TestDemoPlan(t *testing.T) {
	former := &demoPlan{Version: 1, Nodes: 4, Slots: []string{"a", "b", "c"}, Base: netip.MustParseAddr("127.0.9.1")}
	for _, test := range []struct {
		name   string
		o      demoOptions
		former *demoPlan
		nodes  int
		slots  string
		base   string
		err    string
	}{
		{"nothing said", demoOptions{}, nil, 3, "abc", "127.0.0.1", ""},
		{"one", demoOptions{nodes: 1}, nil, 1, "a", "127.0.0.1", ""},
		{"two serve one slot", demoOptions{nodes: 2}, nil, 2, "a", "127.0.0.1", ""},
		{"a standby", demoOptions{nodes: 4}, nil, 4, "abc", "127.0.0.1", ""},
		{"slots need nodes", demoOptions{slots: 5}, nil, 5, "abcde", "127.0.0.1", ""},
		{"resumed", demoOptions{}, former, 4, "abc", "127.0.9.1", ""},
		{"resumed with fewer", demoOptions{nodes: 1}, former, 1, "abc", "127.0.9.1", ""},
		{"resumed elsewhere", demoOptions{base: "127.0.2.1"}, former, 4, "abc", "127.0.2.1", ""},
		{"too many", demoOptions{nodes: 10}, nil, 0, "", "", "--nodes: must be 1–9, got 10"},
		{"negative", demoOptions{nodes: -1}, nil, 0, "", "", "--nodes: must be 1–9"},
		{"negative slots", demoOptions{slots: -1}, nil, 0, "", "", "--slots: must be 1–3"},
		{"more slots than nodes", demoOptions{nodes: 2, slots: 3}, nil, 0, "", "", "--slots: must be 1–2"},
		{"slots stay", demoOptions{slots: 5}, former, 0, "", "", "keeps them"},
		{"no address", demoOptions{base: "here"}, nil, 0, "", "", "--address-base: must be a loopback address"},
		{"not for others", demoOptions{base: "10.0.0.1"}, nil, 0, "", "", "--address-base: must be a loopback address"},
		{"beyond loopback", demoOptions{base: "127.255.255.254"}, nil, 0, "", "", "leads to 128.0.0.0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := planDemo(test.o, test.former)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(p.Slots, ""); p.Nodes != test.nodes || got != test.slots || p.Base.String() != test.base {
				t.Errorf("got %d nodes, slots %s at %s, want %d, %s at %s", p.Nodes, got, p.Base, test.nodes, test.slots, test.base)
			}
		})
	}
}

func openTestDir(t *testing.T, o demoOptions) (*demoDir, []demoNode, error) {
	t.Helper()
	d, err := openDemoDir(t.Context(), o, func(string, ...any) {})
	if err != nil {
		return nil, nil, err
	}
	defer d.lock.Close()
	nodes, err := d.write()
	return d, nodes, err
}

func TestDemoConfigIsTheNodes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a "dir": #1`)
	_, nodes, err := openTestDir(t, demoOptions{dir: dir, nodes: 4, base: "127.0.1.254"})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) != 4 {
		t.Fatalf("got %d nodes, want 4", len(nodes))
	}
	n := nodes[2]
	for _, test := range []struct{ what, got, want string }{
		{"name", n.cfg.Node.Name, "n3"},
		{"address", n.cfg.Node.Address, "127.0.2.0"},
		{"slots", strings.Join(n.cfg.Cluster.Slots, ","), "a,b,c"},
		{"root", n.cfg.Volume.Local.Root, filepath.Join(dir, "volumes")},
		{"scope", n.cfg.Volume.Local.Scope, "machine"},
		{"takeover", n.cfg.Volume.Local.TakeoverAfter.String(), "0s"},
		{"store", n.cfg.Snapshot.Store, filepath.Join(dir, "snapshots")},
		{"socket", n.cfg.Control.Socket, filepath.Join(dir, "n3", "holdfast.sock")},
		{"seeds", strings.Join(n.cfg.Gossip.Seeds, ","), "127.0.1.254,127.0.1.255,127.0.2.0,127.0.2.1"},
		{"stop", n.cfg.Stop.Wait.String(), "0s"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.what, test.got, test.want)
		}
	}
	if d, _, err := openTestDir(t, demoOptions{dir: dir}); err != nil || d.plan.Nodes != 4 {
		t.Errorf("resumed: got %+v, %v, want 4 nodes", d, err)
	}
}

func TestDemoCleanRemovesOnlyItsOwn(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := openTestDir(t, demoOptions{dir: dir}); err != nil {
		t.Fatal(err)
	}
	data, notes := filepath.Join(dir, "volumes", "data"), filepath.Join(dir, "notes.txt")
	for _, path := range []string{data, notes} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := openTestDir(t, demoOptions{dir: dir, clean: true}); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("beside a file of the user: got %v, want a refusal that names it", err)
	}
	if _, _, err := openTestDir(t, demoOptions{dir: dir, clean: true, nodes: 99}); err == nil {
		t.Error("with a wrong option: got no error")
	}
	if _, err := os.Stat(data); err != nil {
		t.Fatalf("it refused, but: %v", err)
	}
	if err := os.Remove(notes); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openTestDir(t, demoOptions{dir: dir, clean: true, slots: 1}); err != nil {
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
		if _, _, err := openTestDir(t, demoOptions{dir: dir, clean: clean}); err == nil || !strings.Contains(err.Error(), "no demo made it") {
			t.Errorf("clean %t: got %v, want a refusal", clean, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "volumes")); err != nil {
			t.Error(err)
		}
	}
}

func TestDemoPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.78.3.2:2381")
	if err != nil {
		t.Skip(err) // not every system has all of 127.0.0.0/8
	}
	defer l.Close()
	_, nodes, err := openTestDir(t, demoOptions{dir: t.TempDir(), base: "127.78.3.1"})
	if err != nil {
		t.Fatal(err)
	}
	err = checkPorts(nodes)
	for _, want := range []string{"127.78.3.2:2381", "n2", "metrics.listen", "--address-base 127.78.4.1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

// testScene is a cluster in which n2 has died.
func testScene() demoScene {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	nodes := []health.NodeStatus{
		{Node: "n1", Address: "127.0.0.1", State: "leader", Reached: true, Since: now, Why: strings.Repeat("a word and ", 20) + "the\x1b[2Jend",
			Volume: &health.VolumeStatus{Slot: "a"}, Etcd: &health.EtcdStatus{Leader: true, Term: 2, Revision: 123456, Size: 20480}},
		{Node: "n2", Address: "127.0.0.2", State: "silent"},
	}
	d := &demo{dir: "demo", started: now.Add(-time.Minute), healthy: time.Second, events: []string{"03:04:05  n2 died"}}
	d.status = health.ClusterStatus{Cluster: "demo", Asked: "n1", Health: health.Healthy, Nodes: nodes, Time: now}
	for i, name := range []string{"n1", "n2", "n3"} {
		c := &demoChild{node: demoNode{name: name, address: nodes[min(i, 1)].Address}, since: now}
		if i != 1 {
			c.process = &os.Process{Pid: 100 + i}
		} else {
			c.death = "signal: killed"
		}
		d.children = append(d.children, c)
	}
	return d.scene(now)
}

func TestDemoSceneKnowsBetterThanTheNodes(t *testing.T) {
	s := testScene()
	if s.verdict != "DEGRADED" {
		t.Errorf("a node is down, and the others have not noticed: got %s, want DEGRADED", s.verdict)
	}
	var got []string
	for _, n := range s.status.Nodes {
		got = append(got, n.Node+" "+n.State)
	}
	if want := []string{"n1 leader", "n2 down", "n3 starting"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if want := "kill -9 100   # n1, the leader"; s.hints[len(s.hints)-1] != want {
		t.Errorf("got %q, want %q", s.hints[len(s.hints)-1], want)
	}
}

func TestDemoFrameFits(t *testing.T) {
	s := testScene()
	for columns := 1; columns <= 200; columns++ {
		for _, rows := range []int{1, 2, 5, 10, 24, 60} {
			lines := s.frame(columns, rows)
			if got := height(lines, columns); got > rows && len(lines) > 1 {
				t.Fatalf("%d×%d: got %d rows", columns, rows, got)
			}
			for _, l := range lines {
				if strings.ContainsFunc(l.text, func(r rune) bool { return r < ' ' }) {
					t.Fatalf("%d×%d: a control character in %q", columns, rows, l.text)
				}
				if n := len([]rune(l.text)); n > columns && !l.whole && columns >= 30 {
					t.Fatalf("%d×%d: %d columns: %q", columns, rows, n, l.text)
				}
			}
		}
	}
	for _, l := range s.frame(80, 60) {
		if strings.Contains(l.text, "…") {
			t.Errorf("80 columns are enough, but: %q", l.text)
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

func TestJournalSaysChangesOnce(t *testing.T) {
	var b strings.Builder
	j := &journal{out: &b, started: time.Now(), said: map[string]string{}}
	s := testScene()
	j.show(s)
	first := b.Len()
	s.status.Nodes[1].Why += "17" // a number is no change
	s.now = s.now.Add(time.Minute)
	j.show(s)
	if got := b.String()[first:]; got != "" {
		t.Errorf("got %q, want nothing new", got)
	}
	s.status.Nodes[1].State = "claiming"
	j.show(s)
	if got := b.String()[first:]; strings.Count(got, "\n") != 1 || !strings.Contains(got, "n2: no slot, claiming") {
		t.Errorf("got %q, want one line about n2", got)
	}
	if strings.Contains(b.String(), "\x1b") {
		t.Error("got an escape sequence")
	}
}

// What the nodes said before one of them was started again is not true of that one any more.
func TestDemoSceneDoesNotBelieveAnOldStatus(t *testing.T) {
	then := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := &demo{dir: "demo", started: then.Add(-time.Minute), healthy: time.Second, status: health.ClusterStatus{
		Cluster: "demo", Asked: "n1", Health: health.Healthy, Time: then,
		Nodes: []health.NodeStatus{{Node: "n1", State: "leader", Reached: true, Since: then}},
	}}
	d.children = []*demoChild{{node: demoNode{name: "n1"}, since: then.Add(time.Second), process: &os.Process{Pid: 1}}}
	if s := d.scene(then.Add(2 * time.Second)); s.verdict != "DEGRADED" || s.status.Nodes[0].State != "starting" {
		t.Errorf("got %s, n1 %s, want DEGRADED, starting", s.verdict, s.status.Nodes[0].State)
	}
}
