package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) {
	if seed := os.Getenv(childSeed); seed != "" {
		child(seed)
		return
	}
	code := m.Run()
	// memberlist's last probe ends by itself, up to a second after Shutdown.
	var leak error
	for end := time.Now().Add(5 * time.Second); code == 0 && time.Now().Before(end); {
		if leak = goleak.Find(); leak == nil {
			break
		}
	}
	if leak != nil {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// member is a running mesh of a test.
type member struct {
	*Mesh
	logs *observer.ObservedLogs
	stop func() // ends Run and waits for it
}

var boots atomic.Uint64

// node returns the Meta of a process that is younger than all before it.
func node(name string) Meta {
	return Meta{
		Node:    name,
		Boot:    uint64(time.Now().UnixNano()) + boots.Add(1),
		Address: netip.MustParseAddr("127.0.0.1"),
		Version: "test",
	}
}

func echo(ctx context.Context, q []byte) ([]byte, error) {
	switch string(q) {
	case "fail":
		return nil, errors.New("no such thing")
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return append([]byte("re: "), q...), nil
}

func start(t *testing.T, cluster string, self Meta, change func(*Config)) *member {
	t.Helper()
	return startWith(t, cluster, self, change)
}

// startWith starts a mesh that has sources of seeds.
func startWith(t *testing.T, cluster string, self Meta, change func(*Config), sources ...func(context.Context, bool) []string) *member {
	t.Helper()
	return launch(t, cluster, self, change, func(m *Mesh) {
		for _, s := range sources {
			m.UseSeeds(s)
		}
	})
}

func launch(t testing.TB, cluster string, self Meta, change func(*Config), prepare func(*Mesh)) *member {
	t.Helper()
	cfg := Default()
	cfg.Listen = "127.0.0.1:0"
	if change != nil {
		change(&cfg)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	m, err := New(cfg, cluster, self, echo, zap.New(core), prometheus.NewPedanticRegistry())
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	prepare(m)
	stop, ended := background(t, self.Node, m.Run)
	select {
	case <-m.Started():
	case err := <-ended:
		t.Fatalf("Run: %v", err)
	}
	return &member{m, logs, stop}
}

// background calls run until the test, or stop, ends it. stop may be called again.
func background(t testing.TB, name string, run func(context.Context) error) (stop func(), ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-result; err != nil {
			t.Errorf("Run of %s: %v", name, err)
		}
	}
	t.Cleanup(stop)
	return stop, result
}

// seeded makes seeds of running members.
func seeded(to ...*member) func(*Config) {
	return func(c *Config) {
		for _, m := range to {
			c.Seeds = append(c.Seeds, m.Address().String())
		}
	}
}

// patience is the limit for what takes a moment on a machine that is not busy.
const patience = 20 * time.Second

// await waits until cond holds, looking whenever something may have changed.
func await(t testing.TB, what string, limit time.Duration, cond func() bool) {
	t.Helper()
	end := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-end:
			t.Fatalf("waited %v in vain: %s", limit, what)
		case <-tick.C:
		}
	}
}

func count(t *testing.T, c prometheus.Metric) float64 {
	t.Helper()
	var m dto.Metric
	must(t, c.Write(&m))
	return m.GetCounter().GetValue()
}

// hearer is a node or an observer.
type hearer interface {
	Nodes() []Node
	Problems() []Problem
}

func find(m hearer, name string) (Node, bool) {
	nodes := m.Nodes()
	i := slices.IndexFunc(nodes, func(n Node) bool { return n.Node == name })
	if i < 0 {
		return Node{}, false
	}
	return nodes[i], true
}

func sees(m hearer, name string) func() bool {
	return func() bool { n, ok := find(m, name); return ok && n.Live }
}

func says(m hearer, name, state string) func() bool {
	return func() bool { n, _ := find(m, name); return string(n.State) == state }
}

func complains(m hearer, part string) func() bool {
	return func() bool {
		return slices.ContainsFunc(m.Problems(), func(p Problem) bool { return strings.Contains(p.Text, part) })
	}
}

// swap has one node do a push/pull with another, without waiting for pushPullInterval.
func swap(t *testing.T, m, with *member) {
	t.Helper()
	if _, err := m.list.Join([]string{with.Address().String()}); err != nil {
		t.Fatalf("push/pull of %s with %s: %v", m.self.Node, with.self.Node, err)
	}
}

func TestNodesMeetAndPublish(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	a.Publish([]byte("early")) // before anybody can hear it
	b := start(t, "main", node("b"), seeded(a))
	c := start(t, "main", node("c"), seeded(a))
	for _, m := range []*member{a, b, c} {
		for _, name := range []string{"a", "b", "c"} {
			await(t, m.self.Node+" sees "+name, patience, sees(m, name))
		}
		await(t, "the early state", patience, says(m, "a", "early"))
	}
	var names []string
	for _, n := range b.Nodes() {
		names = append(names, n.Node)
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("names: got %v, want %v", names, want)
	}

	began := time.Now()
	b.Publish([]byte("later"))
	await(t, "c hears b", patience, says(c, "b", "later"))
	await(t, "a hears b", patience, says(a, "b", "later"))
	// Sending at once, not by push/pull after 10 s, is what this is about.
	if took := time.Since(began); took > time.Second {
		t.Errorf("a state took %v to arrive", took)
	}
	if n, _ := find(a, "b"); n.Seq != 1 || n.Meta != b.self {
		t.Errorf("b at a: got seq %d and %+v, want 1 and %+v", n.Seq, n.Meta, b.self)
	}
	b.Publish([]byte("later"))
	if n, _ := find(b, "b"); n.Seq != 1 {
		t.Errorf("the same state again: got seq %d, want 1", n.Seq)
	}
	if got := count(t, b.joins.WithLabelValues("joined")); got < 1 {
		t.Errorf("joins: got %v, want at least 1", got)
	}
	if got := b.count(true); got != 3 {
		t.Errorf("live nodes: got %v, want 3", got)
	}
}

func TestLeavingIsSeenAtOnceAndRemembered(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := start(t, "main", node("b"), seeded(a))
	b.Publish([]byte("fact"))
	await(t, "a hears b", patience, says(a, "b", "fact"))
	await(t, "b sees a", patience, sees(b, "a")) // one that ends while it joins can tell nobody
	before, _ := find(a, "b")
	began := time.Now()
	b.stop()
	await(t, "a sees b leave", 2*time.Second, func() bool { return !sees(a, "b")() })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("leaving took %v", took)
	}
	after, _ := find(a, "b")
	if string(after.State) != "fact" || !after.Since.After(before.Since) {
		t.Errorf("the lost node: got %+v", after)
	}

	// Who comes later hears of the lost one, and what it said.
	c := start(t, "main", node("c"), seeded(a))
	await(t, "c hears of b", patience, says(c, "b", "fact"))
	if n, _ := find(c, "b"); n.Live || n.Address != b.self.Address {
		t.Errorf("b at c: got %+v, want not live, at its address", n)
	}
}

// Where all leave at the same time nobody waits for the whole of leaveTimeout until somebody has heard it.
func TestAllLeaveAtOnce(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := start(t, "main", node("b"), seeded(a))
	await(t, "a sees b", patience, sees(a, "b"))
	await(t, "b sees a", patience, sees(b, "a"))
	began := time.Now()
	var leaving sync.WaitGroup
	leaving.Go(a.stop)
	leaving.Go(b.stop)
	leaving.Wait()
	if took := time.Since(began); took >= leaveTimeout {
		t.Errorf("leaving took %v, want less than %v", took, leaveTimeout)
	}
}

// A process that is killed and starts again at its address, while it is still believed alive, counts at once.
func TestRestartSupersedesAtOnce(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	cmd := spawn(t, a)
	await(t, "a hears the old process", 10*time.Second, says(a, "child", "fact"))
	old, _ := find(a, "child")
	var where netip.AddrPort
	await(t, "a knows where it gossips", 10*time.Second, func() bool { // which may be later
		a.knowledge.mu.Lock()
		defer a.knowledge.mu.Unlock()
		where = a.view.nodes["child"].gossip
		return where.IsValid()
	})
	signal(t, cmd, syscall.SIGKILL)
	_ = cmd.Wait()

	young := start(t, "main", node("child"), func(c *Config) { seeded(a)(c); c.Listen = where.String() })
	young.Publish([]byte("young"))
	await(t, "a hears the young process", 2*time.Second, says(a, "child", "young"))
	n, _ := find(a, "child")
	a.knowledge.mu.Lock()
	believed := a.view.peers[old.process()] != nil
	a.knowledge.mu.Unlock()
	if n.Boot != young.self.Boot || !n.Live || !believed || len(a.Nodes()) != 2 {
		t.Errorf("got %+v, %d nodes, the old one believed alive: %v", n, len(a.Nodes()), believed)
	}
}

// A process with the name of a node, at another address, whose clock is behind: the node keeps its name with everybody
// who knew it, both are answered, and each knows of the other. Who comes later takes it for the first one, until it is
// gone.
func TestTwinInTheMesh(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	first := start(t, "main", node("b"), seeded(a))
	first.Publish([]byte("first"))
	await(t, "a hears b", patience, says(a, "b", "first"))
	a.knowledge.mu.Lock()
	a.view.peers[first.self.process()].since = time.Now().Add(-together)
	a.knowledge.mu.Unlock()

	twin := start(t, "main", Meta{Node: "b", Boot: first.self.Boot - 1, Address: netip.MustParseAddr("127.0.0.2")}, seeded(a))
	twin.Publish([]byte("twin"))
	knows := func(m, other *member) func() bool {
		return func() bool {
			m.knowledge.mu.Lock()
			defer m.knowledge.mu.Unlock()
			return m.view.peers[other.self.process()] != nil
		}
	}
	await(t, "a knows the twin", patience, knows(a, twin))
	await(t, "the twin knows a", patience, sees(twin, "a"))
	await(t, "the first knows the twin", patience, func() bool { at, ok := first.Twin(); return ok && at == twin.self.Address })
	await(t, "the twin knows the first", patience, func() bool { _, ok := twin.Twin(); return ok })
	late := start(t, "main", node("late"), seeded(a))
	await(t, "the newcomer knows both", patience, func() bool { return knows(late, first)() && knows(late, twin)() })
	await(t, "the first knows the newcomer", patience, sees(first, "late"))
	first.Publish([]byte("first again"))
	await(t, "a hears the first", patience, says(a, "b", "first again"))
	for m, want := range map[*member]*member{a: first, first: first, twin: twin, late: twin} {
		if n, _ := find(m, "b"); n.Boot != want.self.Boot || !n.Live {
			t.Errorf("%s takes b for %+v", m.self.process(), n)
		}
	}
	for _, m := range []*member{first, twin} {
		if got, err := m.Ask(t.Context(), "a", []byte("who")); err != nil || string(got) != "re: who" {
			t.Errorf("%s is answered %q, %v", m.self.process(), got, err)
		}
	}

	for m, hidden := range map[*member]*member{a: twin, late: first} {
		if got := m.Twins(); !slices.Equal(got, []string{hidden.self.process()}) {
			t.Errorf("%s hides %v", m.self.Node, got)
		}
		if got, err := m.Ask(t.Context(), hidden.self.process(), []byte("who")); err != nil || string(got) != "re: who" {
			t.Errorf("the hidden one answers %s with %q, %v", m.self.Node, got, err)
		}
	}
	if got := first.Twins(); got != nil {
		t.Errorf("the first hides %v", got)
	}

	twin.stop()
	for _, m := range []*member{a, late} {
		await(t, "the first counts", patience, says(m, "b", "first again"))
		await(t, "the first is live", patience, sees(m, "b"))
	}
	await(t, "the first has no twin", patience, func() bool { _, ok := first.Twin(); return !ok })
}

func TestAsk(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := start(t, "main", node("b"), seeded(a))
	await(t, "a sees b", patience, sees(a, "b"))
	await(t, "b sees a", patience, sees(b, "a"))
	long := strings.Repeat("x", maxMessage-len("re: "))
	for _, m := range []*member{a, b} {
		for _, to := range []string{"a", "b"} {
			for _, q := range []string{"", "who", long} {
				got, err := m.Ask(t.Context(), to, []byte(q))
				if err != nil || string(got) != "re: "+q {
					t.Errorf("%s asks %s (%d bytes): got %d bytes, %v", m.self.Node, to, len(q), len(got), err)
				}
			}
			if _, err := m.Ask(t.Context(), to, []byte("fail")); err == nil || !strings.Contains(err.Error(), "no such thing") {
				t.Errorf("%s asks %s to fail: got %v", m.self.Node, to, err)
			}
		}
	}
	if _, err := a.Ask(t.Context(), "b", []byte(long+"too long")); err == nil {
		t.Error("too long a question: got no error")
	}
	if _, err := a.Ask(t.Context(), "nobody", nil); err == nil {
		t.Error("asking nobody: got no error")
	}
	if _, err := a.Ask(t.Context(), "b", []byte(long+"abc")); err == nil || !strings.Contains(err.Error(), "answer has") {
		t.Errorf("too long an answer: got %v", err)
	}
	await(t, "no question is left", patience, func() bool { return open(&a.streams.questions)+open(&b.streams.questions) == 0 })
	b.stop()
	if _, err := b.Ask(t.Context(), "a", nil); !errors.Is(err, errNotRunning) {
		t.Errorf("asking after Run: got %v, want %v", err, errNotRunning)
	}
	await(t, "a sees b leave", patience, func() bool { return !sees(a, "b")() })
	if _, err := a.Ask(t.Context(), "b", nil); err == nil || !strings.Contains(err.Error(), "not live") {
		t.Errorf("asking a lost node: got %v", err)
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	start(t, "main", node("b"), seeded(a))
	await(t, "a sees b", patience, sees(a, "b"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := a.Ask(ctx, "b", []byte("wait")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer mute.Close()
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	to := memberlist.Address{Addr: mute.Addr().String()}
	if _, err := a.streams.ask(ctx, to, []byte("who")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in the handshake: got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestSeedsFile(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	file := filepath.Join(t.TempDir(), "seeds")
	b := start(t, "main", node("b"), func(c *Config) { c.SeedsFile = file })
	await(t, "a complaint about the missing file", patience, complains(b, "no such file"))
	text := "# the first\n\n" + a.Address().String() + " # a\n"
	must(t, os.WriteFile(file, []byte(text), 0o644))
	await(t, "b sees a", 10*time.Second, sees(b, "a"))
	await(t, "the complaint's end", 10*time.Second, func() bool { return !complains(b, "no such file")() })
}

func TestSeedThatIsNotThere(t *testing.T) {
	t.Parallel()
	gone := start(t, "main", node("gone"), nil)
	seed := gone.Address().String()
	gone.stop()
	a := start(t, "main", node("a"), func(c *Config) { c.Seeds = []string{seed, "nowhere.invalid"} })
	await(t, "the seed among the problems", patience, complains(a, "seed "+seed))
	await(t, "the seed that has no address", patience, complains(a, "seed nowhere.invalid: "))
	for _, p := range a.Problems() {
		if p.Kind != ProblemSeed {
			t.Errorf("got %+v, want it to be about a seed", p)
		}
		if strings.Contains(p.Text, ":0->") {
			t.Errorf("got %q: nobody dials from port 0", p.Text)
		}
	}
	for _, entry := range a.logs.All() {
		if entry.Level > zapcore.InfoLevel {
			t.Errorf("a lone node is normal, but it logged %q", entry.Message)
		}
	}
	// It comes up where it was expected.
	start(t, "main", node("gone"), func(c *Config) { c.Listen = seed })
	await(t, "a sees the seed", 10*time.Second, sees(a, "gone"))
	await(t, "the problem's end, before the next look", 2*time.Second, func() bool { return !complains(a, "seed "+seed)() })
}

func TestUnusableBeginnings(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	cfg := Config{Listen: a.Address().String()}
	m, err := New(cfg, "main", node("b"), echo, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), cfg.Listen) {
		t.Errorf("Run on a taken address: got %v", err)
	}
	if _, err := m.Ask(t.Context(), "a", nil); !errors.Is(err, errNotRunning) {
		t.Errorf("Ask: got %v, want %v", err, errNotRunning)
	}
	for _, cluster := range []string{"", strings.Repeat("x", 250)} {
		if _, err := New(cfg, cluster, node("b"), echo, zap.NewNop(), prometheus.NewRegistry()); err == nil {
			t.Errorf("cluster %q: got no error", cluster)
		}
	}
	if _, err := New(cfg, "main", node("b#1"), echo, zap.NewNop(), prometheus.NewRegistry()); err == nil {
		t.Error("node name with #: got no error")
	}
	if _, err := New(Default(), "main", node("b"), echo, zap.NewNop(), prometheus.NewRegistry()); err == nil {
		t.Error("nowhere to listen: got no error")
	}
}

func TestTooLargeAStateIsRefusedLoudly(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	a.Publish([]byte("fine"))
	a.Publish(make([]byte, maxState+1))
	if n, _ := find(a, "a"); string(n.State) != "fine" || n.Seq != 1 {
		t.Errorf("got state %q, seq %d; want the one before", n.State, n.Seq)
	}
	if !complains(a, "not published")() {
		t.Errorf("problems: got %q", a.Problems())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
