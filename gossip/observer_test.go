package gossip

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"
)

func watcher(name string) Meta { return node(name) }

// watching is a running observer of a test.
type watching struct {
	*Observer
	logs *observer.ObservedLogs
	stop func() // ends Run and waits for it
}

// observe starts an observer. p is nil without TLS.
func observe(t testing.TB, cluster, name string, p *papers, change func(*Config), seeds ...*member) *watching {
	t.Helper()
	cfg := Default()
	cfg.Listen = "127.0.0.1:7946"
	if seeded(seeds...)(&cfg); change != nil {
		change(&cfg)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	o, err := NewObserver(cfg, cluster, watcher(name), zap.New(core), prometheus.NewPedanticRegistry())
	must(t, err)
	if p != nil {
		o.UseTLS(p.tls())
	}
	stop, _ := background(t, name, o.Run)
	return &watching{o, logs, stop}
}

// Observers come, are told what nodes say, and go, and no node has ever heard of another node.
func TestObserversDisturbNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change func(*Config) }{
		"in the clear": {func(*Config) {}}, "with a key": {keyed(t, nil, 'x')}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, "main", node("a"), c.change)
			a.Publish([]byte("fact"))
			one := observe(t, "main", "a", nil, c.change, a) // on a's host, with its name
			two := observe(t, "main", "x", nil, c.change, a)
			for _, o := range []*watching{one, two} {
				await(t, "the observer sees a", patience, sees(o, "a"))
				await(t, "the observer is told what a says", patience, says(o, "a", "fact"))
			}
			b := start(t, "main", node("b"), func(cfg *Config) { c.change(cfg); seeded(a)(cfg) })
			await(t, "the observer sees b", patience, sees(one, "b"))
			b.Publish([]byte("news"))
			await(t, "an observer is told news", patience, says(one, "b", "news"))
			await(t, "a knows both observers", patience, func() bool { return len(a.Observers()) == 2 })
			for _, m := range []hearer{a, b, one, two} {
				await(t, "all know the two nodes", patience, func() bool { return len(m.Nodes()) == 2 })
			}
			for _, m := range []*member{a, b} {
				if at, ok := m.Twin(); ok {
					t.Errorf("%s has a twin at %s", m.self.process(), at)
				}
			}
			one.stop()
			two.stop()
			await(t, "the observers are forgotten", 2*time.Second, func() bool { return len(a.Observers()) == 0 })
			if got := a.count(false); got != 0 {
				t.Errorf("lost nodes: got %v, want none", got)
			}
		})
	}
}

// An observer connects to another node when its own ends, is killed or is suspended. It takes all nodes for lost when
// none answers.
func TestObserverChangesItsNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	child := spawn(t, a, writePapers(t, ca, bound("child")))
	await(t, "a hears the child", 10*time.Second, says(a, "child", "fact"))
	n, _ := find(a, "child")
	a.knowledge.mu.Lock()
	at := a.view.nodes["child"].gossip
	a.knowledge.mu.Unlock()
	o := observe(t, "main", "o", papersOf(t, ca, watcherName), func(c *Config) { c.Seeds = []string{at.String()} })
	await(t, "the observer sees both", patience, func() bool { return sees(o, "a")() && sees(o, "child")() })
	if got := a.Observers(); len(got) != 0 {
		t.Fatalf("it is connected to a: %v", got)
	}
	signal(t, child, syscall.SIGSTOP)
	stopped := time.Now()
	await(t, "the observer is connected to a", 10*time.Second, func() bool { return len(a.Observers()) == 1 })
	t.Logf("it went to another node after %v", time.Since(stopped).Round(10*time.Millisecond))
	await(t, "the observer knows that the child is lost", 10*time.Second, func() bool { return !sees(o, "child")() })
	a.Publish([]byte("later"))
	await(t, "the observer hears a", 2*time.Second, says(o, "a", "later"))
	a.stop()
	await(t, "all are lost", unheardFor+patience, func() bool { return !sees(o, "a")() })
	if got, _ := find(o, "child"); got.Boot != n.Boot || string(got.State) != "fact" {
		t.Errorf("it has forgotten what the child said: %+v", got)
	}
}

// An observer whose node hears fewer nodes than another one goes there: its own may be cut off from all others.
func TestObserverLeavesALonelyNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	lonely := start(t, "main", node("lonely"), nil)
	a := start(t, "main", node("a"), nil)
	start(t, "main", node("b"), seeded(a))
	o := observe(t, "main", "o", nil, nil, lonely)
	await(t, "it sees the lonely node", patience, sees(o, "lonely"))
	o.source = func(context.Context, bool) []string { return []string{a.Address().String()} }
	await(t, "it sees b", 15*time.Second, sees(o, "b"))
}

// A restarted node counts with its new process, and a forgotten one is forgotten by observers, too.
func TestObserverFollowsProcesses(t *testing.T) {
	now := time.Now()
	m := newKnowledge(process("self", 1), 0, zap.NewNop())
	o := newKnowledge(Meta{}, 0, zap.NewNop())
	tell := func() {
		m.frame = nil // what is below changes the view itself
		frame, _ := m.edition()
		body, err := readAnswer(bytes.NewReader(frame), maxStream)
		must(t, err)
		all, err := decodeWords(body)
		must(t, err)
		o.follow(all, all.entries)
	}
	expect := func(what string, boot uint64, live bool, state string) {
		t.Helper()
		tell()
		nodes := o.Nodes()
		if len(nodes) != 2 || nodes[0].Boot != boot || nodes[0].Live != live || string(nodes[0].State) != state {
			t.Errorf("%s: got %+v", what, nodes)
		}
	}
	one, two := process("a", 5), process("a", 9)
	m.view.up(one, at, now)
	told(m.view, one, 1, now)
	expect("heard", 5, true, "1")
	m.view.up(two, at, now)
	told(m.view, two, 2, now)
	expect("restarted", 9, true, "2")
	m.view.down(one, now)
	expect("the old one is gone", 9, true, "2")
	m.view.down(two, now)
	expect("lost", 9, false, "2")
	m.view.up(two, elsewhere, now)
	expect("back at another address", 9, true, "2")
	if heard, _ := o.addresses(); !heard[elsewhere] {
		t.Errorf("it gossips at %v", heard)
	}
	m.view.down(two, now)
	m.view.forget(lastWord{"a", 9, 2}, 0, time.Now())
	tell()
	if n := o.Nodes(); len(n) != 1 {
		t.Errorf("forgotten: got %+v", n)
	}
	for i := range 2 * maxGone {
		o.follow(words{entries: []entry{{Meta: process("many", uint64(i+1)), Gossip: at}}}, nil)
	}
	if n := len(o.view.gone); n > maxNodes {
		t.Errorf("it remembers %d processes that are gone", n)
	}
}

// A node tells so many observers and no more, and says so. Those that take nothing are dropped.
func TestObserversAreBounded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	p := papersOf(t, ca, watcherName).tls()
	ask := func(last byte) (net.Conn, error) {
		by := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, last)}}
		conn, err := p.dial(t.Context(), by, a.Address().String(), forObserver, 5*time.Second)
		must(t, err)
		t.Cleanup(conn.cut)
		_ = write(conn, framed(encode(watcher("o"))), time.Second) // it may be refused already
		return conn, (&line{peerConn: conn}).next()
	}
	var first net.Conn
	for i := range maxOfAddress {
		conn, err := ask(1)
		if err != nil {
			t.Fatalf("observer %d: %v", i, err)
		}
		if first == nil {
			first = conn
		}
	}
	if _, err := ask(1); err == nil || !strings.Contains(err.Error(), errObservers.Error()) {
		t.Errorf("one more: got %v", err)
	}
	if _, err := ask(2); err != nil {
		t.Errorf("from another address: %v", err)
	}
	await(t, "it is counted", patience, func() bool { return rejected(t, a, reasonFull) == 1 && complains(a, errObservers.Error())() })
	o := observe(t, "main", "o", papersOf(t, ca, watcherName), func(c *Config) { c.Listen = "127.0.2.1:7946" }, a)
	await(t, "it knows why it is not told", patience, complains(o, errObservers.Error()))
	if got := o.logs.FilterMessage("gossip problem seen").All(); len(got) > 0 {
		t.Errorf("it complains: %v", got[0].ContextMap())
	}
	o.stop()
	_ = first.Close()
	await(t, "there is room again", patience, func() bool { return open(&a.streams.observers) == maxOfAddress })
	if _, err := ask(1); err != nil {
		t.Errorf("after one has gone: %v", err)
	}
	d := &newDoors(nil).observers
	for i := range maxObservers + 1 {
		if (d.enter(fmt.Sprint(i), nil) == nil) != (i < maxObservers) {
			t.Errorf("observer %d: in or out?", i)
		}
	}
}

// An observer of another cluster, or with other keys, hears nothing, and both sides say why.
func TestForeignObserversHearNothing(t *testing.T) {
	t.Parallel()
	plain := start(t, "main", node("a"), nil)
	under := start(t, "main", node("b"), keyed(t, nil, 'x'))
	ca := newAuthority(t)
	over := startTLS(t, node("c"), papersOf(t, ca, nodeName))
	for name, c := range map[string]struct {
		cluster  string
		p        *papers
		change   func(*Config)
		node     *member
		observer error
		reason   string
	}{
		"another cluster":         {"other", nil, nil, plain, errCluster, reasonCluster},
		"another cluster, TLS":    {"other", papersOf(t, ca, watcherName), nil, over, errCluster, reasonCluster},
		"another key":             {"main", nil, keyed(t, nil, 'y'), under, errKeys, reasonKey},
		"no key":                  {"main", nil, nil, under, errKeys, reasonKey},
		"a key":                   {"main", nil, keyed(t, nil, 'y'), plain, errKeys, reasonKey},
		"TLS, and a node without": {"main", papersOf(t, ca, watcherName), nil, plain, errCertificate, reasonKey},
		"no TLS":                  {"main", nil, nil, over, errKeys, reasonCertificate},
		"another authority":       {"main", papersOf(t, newAuthority(t), watcherName), nil, over, errCertificate, reasonCertificate},
		"a client's certificate":  {"main", papersOf(t, ca, "client.test"), nil, over, errRefusesUs, reasonCertificate},
	} {
		before := rejected(t, c.node, c.reason)
		o := observe(t, c.cluster, "o", c.p, c.change, c.node)
		await(t, name+": the observer says why", patience, complains(o, c.observer.Error()))
		await(t, name+": the node counts it", patience, func() bool { return rejected(t, c.node, c.reason) > before })
		if n := o.Nodes(); len(n) != 0 {
			t.Errorf("%s: it knows %v", name, n)
		}
		o.stop()
	}
	fake := startTLS(t, node("fake"), papersOf(t, ca, watcherName))
	o := observe(t, "main", "o", papersOf(t, ca, watcherName), nil, fake)
	await(t, "it shows an observer's certificate", patience, complains(o, errCertificate.Error()))
}

// Who has a key in common knows the other's certificate.
func TestDerivedCertificates(t *testing.T) {
	var last derived
	for i, keys := range []string{"", "x", "yx"} {
		r := keyring{notices: newNotices(zap.NewNop(), nil)}
		if keys != "" {
			r.path = keyFile(t, []byte(keys)...)
		}
		d, err := r.now()
		must(t, err)
		again, _ := derive(d.keys)
		if fmt.Sprint(d.own.Certificate) != fmt.Sprint(again.own.Certificate) {
			t.Errorf("%d: the same keys make two certificates", i)
		}
		if last.own != nil {
			_, err := r.tls().check([]*x509.Certificate{last.own.Leaf}, 0)
			if wanted := i == 2; (err == nil) != wanted {
				t.Errorf("%d: the certificate of the keys before: %v", i, err)
			}
		}
		last = d
	}
	// Another build must make the same one: x509 compares certificates, and not keys.
	d, _ := derive([][]byte{[]byte("x")})
	if got, want := fmt.Sprintf("%x", sha256.Sum256(d.own.Certificate[0])), "88b6b13bbd7bfad1166ffa63933c51d6ebd0e620cb2dfb00060f63a14a57365b"; got != want {
		t.Errorf("the certificate of a key has changed, so that other builds refuse it: got %s, want %s", got, want)
	}
}

// A node that is alive and tells nothing is given up, so that it keeps no observer from the others.
func TestObserverGivesUpOnASilentNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", keyless().config(x509.ExtKeyUsageClientAuth, forObserver))
	must(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for write(conn, framed(nil), time.Second) == nil {
					time.Sleep(beat)
				}
			}()
		}
	}()
	o := observe(t, "main", "o", nil, func(c *Config) { c.Seeds = []string{l.Addr().String()} })
	await(t, "it says that the node is silent", writeTime+patience, complains(o, errSlow.Error()))
}

// What a node accepts gives up as soon as what it dials.
func TestAcceptedConnectionsAreImpatient(t *testing.T) {
	papers := keyless()
	r := rules{papers: papers, known: func(netip.Addr) bool { return true }}
	tr, err := listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), r)
	must(t, err)
	defer func() { _ = tr.Shutdown() }()
	conn, err := papers.dial(t.Context(), net.Dialer{}, tr.listener.Addr().String(), forStream, 5*time.Second)
	must(t, err)
	defer conn.cut()
	accepted := (<-tr.StreamCh()).(*stream)
	defer accepted.Close()
	got := 0
	raw, err := accepted.NetConn().(*net.TCPConn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
	}
	if err != nil || got != int(streamTimeout.Milliseconds()) {
		t.Errorf("got %d ms, %v", got, err)
	}
}

// An observer connects again when its certificate, or that of its node, was renewed, and complains of nothing.
func TestObserverShowsItsRenewedCertificate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	ca := newAuthority(t)
	pa := papersOf(t, ca, nodeName)
	a := startTLS(t, node("a"), pa)
	p := papersOf(t, ca, watcherName)
	o := observe(t, "main", "o", p, nil, a)
	again := func(times int) func() bool {
		return func() bool { return o.logs.FilterMessage("joined gossip").Len() == times }
	}
	await(t, "it sees a", patience, sees(o, "a"))
	p.set(ca.issue(t, watcherName, time.Now().Add(time.Hour)), ca)
	await(t, "it connects again", 15*time.Second, again(2))
	next := newAuthority(t)
	pa.set(next.issue(t, nodeName, time.Now().Add(time.Hour)), ca, next)
	own, _ := p.tls().Certificate()
	p.set(own, next)
	await(t, "it sees the node's renewed certificate", 15*time.Second, again(3))
	if problems := o.Problems(); len(problems) > 0 {
		t.Errorf("it complains: %v", problems)
	}
	await(t, "one connection is left", patience, func() bool { return len(a.Observers()) == 1 })
	if n := o.logs.FilterMessage("lost node").Len(); n != 0 {
		t.Errorf("nodes were lost %d times", n)
	}
}

// Many observers that start at once are all let in, and the node does not complain.
func TestManyObserversAtOnce(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	p := papersOf(t, ca, watcherName).tls()
	var conns [64]net.Conn
	for i := range conns {
		by := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 6, byte(1+i))}}
		var err error
		if conns[i], err = by.Dial("tcp", a.Address().String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conns[i].Close() })
	}
	for i, raw := range conns {
		if i%16 != 15 { // a handshake takes CPU
			_ = raw.Close()
			continue
		}
		conn := tls.Client(raw, p.config(x509.ExtKeyUsageServerAuth, forObserver))
		err := write(conn, framed(encode(watcher("o"))), 5*time.Second)
		if err == nil {
			err = (&line{peerConn: &peerConn{Conn: conn}}).next()
		}
		if err != nil {
			t.Errorf("observer %d: %v", i, err)
		}
	}
	if got := a.Problems(); len(got) > 0 {
		t.Errorf("the node complains: %v", got)
	}
}

// The observers of a fleet, all with the same seeds, do not all go to the first.
func TestObserversAreSpread(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := start(t, "main", node("b"), seeded(a))
	await(t, "a sees b", patience, sees(a, "b"))
	const all = 3 * maxOfAddress
	for i := range all {
		o := observe(t, "main", fmt.Sprint("o", i), nil, func(c *Config) { c.Listen = fmt.Sprintf("127.0.3.%d:7946", 1+i/maxOfAddress) }, a, b)
		await(t, "it sees both", patience, func() bool { return sees(o, "a")() && sees(o, "b")() })
	}
	await(t, "all are connected", patience, func() bool { return len(a.Observers())+len(b.Observers()) == all })
	if n := len(a.Observers()); n == all {
		t.Errorf("all %d are connected to the first seed", n)
	}
}
