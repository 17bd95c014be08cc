package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"holdfast/embedded/settings"
)

// schemes is a cluster of plain etcd without holdfast. It shows what etcd itself can do on the way from http to https
// (docs/tls.md). Peers listen for http on 2380 and for TLS on 2381, clients for both on 2379.
type schemes struct {
	ca    *authority
	nodes []*plainNode
}

type plainNode struct {
	slot, addr, dir string
	pair            [2]string
	etcd            *embed.Etcd
}

func (n *plainNode) peer(scheme string) string {
	return scheme + "://" + n.addr + map[string]string{"http": ":2380", "https": ":2381"}[scheme]
}

// config returns the configuration of a member that listens for its peers and clients with these schemes.
func (s *schemes) config(t *testing.T, n *plainNode, peers, clients []string) *embed.Config {
	t.Helper()
	c := embed.NewConfig()
	c.Name, c.Dir = n.slot, n.dir
	c.TickMs, c.ElectionMs = 50, 500
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	var all []string
	for _, m := range s.nodes {
		all = append(all, m.slot+"="+m.peer("http"))
	}
	c.InitialCluster, c.InitialClusterToken = strings.Join(all, ","), "schemes"
	c.AdvertisePeerUrls = urls(t, n.peer("http"))
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	for _, scheme := range peers {
		c.ListenPeerUrls = append(c.ListenPeerUrls, urls(t, n.peer(scheme))...)
	}
	for _, scheme := range clients {
		c.ListenClientUrls = append(c.ListenClientUrls, urls(t, scheme+"://"+n.addr+":2379")...)
	}
	c.AdvertiseClientUrls = c.ListenClientUrls
	if slices.Contains(peers, "https") {
		c.PeerTLSInfo = peerTLS(settings.PeerTLS{PeerCertFile: n.pair[0], PeerKeyFile: n.pair[1], PeerTrustedCAFile: s.ca.ca()},
			Names{Peer: peerName})
	}
	if slices.Contains(clients, "https") {
		c.ClientTLSInfo = transport.TLSInfo{CertFile: n.pair[0], KeyFile: n.pair[1], TrustedCAFile: s.ca.ca()}
	}
	return c
}

func urls(t *testing.T, text string) []url.URL {
	t.Helper()
	u, err := parseURLs([]string{text})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (n *plainNode) start(t *testing.T, c *embed.Config) {
	t.Helper()
	var err error
	if n.etcd, err = embed.StartEtcd(c); err != nil {
		t.Fatal(err)
	}
}

func (n *plainNode) ready(t *testing.T) {
	t.Helper()
	awaitClosed(t, n.slot+" is ready", n.etcd.Server.ReadyNotify())
}

// restart stops a member and starts it with other listeners. It returns when all have a leader again.
func (s *schemes) restart(t *testing.T, n *plainNode, peers, clients []string) {
	t.Helper()
	n.etcd.Close()
	n.start(t, s.config(t, n, peers, clients))
	n.ready(t)
	s.settled(t)
}

// settled waits until a majority confirms each member's read.
func (s *schemes) settled(t *testing.T) {
	t.Helper()
	for _, n := range s.nodes {
		await(t, n.slot+" has a leader that answers", n.serves)
	}
}

func (n *plainNode) serves() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return n.etcd.Server.LinearizableReadNotify(ctx) == nil
}

// update changes a member's peer URL.
func (s *schemes) update(t *testing.T, c *clientv3.Client, n *plainNode, scheme string) {
	t.Helper()
	if _, err := c.MemberUpdate(t.Context(), uint64(n.etcd.Server.MemberID()), []string{n.peer(scheme)}); err != nil {
		t.Fatal(err)
	}
}

func (s *schemes) client(t *testing.T, scheme string) *clientv3.Client {
	t.Helper()
	c := clientv3.Config{DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	for _, n := range s.nodes {
		c.Endpoints = append(c.Endpoints, scheme+"://"+n.addr+":2379")
	}
	if scheme == "https" {
		c.TLS = s.tlsConfig(t)
	}
	made, err := clientv3.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { made.Close() })
	return made
}

func (s *schemes) tlsConfig(t *testing.T) *tls.Config {
	t.Helper()
	text, err := os.ReadFile(s.ca.ca())
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	pair, err := tls.LoadX509KeyPair(s.ca.issue(t, "client")) // without names: etcd ties those to the source address
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

// ledger writes until it is stopped. It records what was acknowledged, and the longest time without an acknowledgement.
type ledger struct {
	prefix string
	stop   func()

	mu   sync.Mutex
	keys int
	gap  time.Duration
}

func (s *schemes) write(t *testing.T, scheme, prefix string) *ledger {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l, done, c := &ledger{prefix: prefix}, make(chan struct{}), s.client(t, scheme)
	l.stop = func() { cancel(); <-done }
	t.Cleanup(l.stop)
	go func() {
		defer close(done)
		last := time.Now()
		for i := 0; ctx.Err() == nil; {
			try, cancel := context.WithTimeout(ctx, time.Second)
			_, err := c.Put(try, fmt.Sprintf("%s/%06d", prefix, i), "")
			cancel()
			if err != nil {
				continue
			}
			i++
			l.mu.Lock()
			l.keys, l.gap = i, max(l.gap, time.Since(last))
			l.mu.Unlock()
			last = time.Now()
		}
	}()
	return l
}

// acked returns what was acknowledged and the longest gap since the last call.
func (l *ledger) acked() (keys int, gap time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys, gap, l.gap = l.keys, l.gap, 0
	return keys, gap
}

// A cluster of plain etcd goes from http to https while clients write. Each member is restarted with a second listener,
// the peer URLs are changed one by one, and each member is restarted without the first listener. No acknowledged write
// is lost.
func TestEtcdFromHTTPToHTTPS(t *testing.T) {
	t.Parallel()
	s, both := foundSchemes(t), []string{"http", "https"}
	old := s.write(t, "http", "http")
	await(t, "the first writes", func() bool { keys, _ := old.acked(); return keys > 100 })
	phase := func(name string, writers ...*ledger) {
		t.Helper()
		for _, w := range writers {
			before, gap := w.acked()
			await(t, w.prefix+" writes", func() bool { keys, g := w.acked(); gap = max(gap, g); return keys > before+50 })
			t.Logf("%-26s %-5s longest time without an acknowledgement %v", name, w.prefix, gap.Round(time.Millisecond))
		}
	}

	for _, n := range s.nodes {
		s.restart(t, n, both, both)
	}
	phase("a second listener", old)
	secure := s.write(t, "https", "https")
	await(t, "writes over TLS", func() bool { keys, _ := secure.acked(); return keys > 100 })

	c := s.client(t, "https")
	for _, n := range s.nodes {
		s.update(t, c, n, "https")
		s.settled(t)
	}
	phase("the peer URLs", old, secure)
	old.stop()

	for _, n := range s.nodes {
		s.restart(t, n, []string{"https"}, []string{"https"})
	}
	phase("without the first listener", secure)
	secure.stop()

	for _, w := range []*ledger{old, secure} {
		keys, _ := w.acked()
		got, err := c.Get(t.Context(), w.prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		if got.Count < int64(keys) { // unacknowledged writes may also be there
			t.Errorf("%s: %d writes were acknowledged, and %d are there", w.prefix, keys, got.Count)
		}
		t.Logf("%s: %d writes acknowledged, %d there", w.prefix, keys, got.Count)
	}
	list, err := c.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Members {
		if !strings.HasPrefix(cmp.Or(m.PeerURLs...), "https://") || len(m.PeerURLs) != 1 {
			t.Errorf("%s has the peer URLs %q", m.Name, m.PeerURLs)
		}
	}
}

// If a peer URL is changed before the member listens there, the member is cut off when it restarts, and does not come
// back by itself. Here all three URLs are https, and nobody listens for that. Two such restarts would end the quorum.
// The others, which still use their connections, can undo the change.
func TestEtcdPeerURLAhead(t *testing.T) {
	t.Parallel()
	s, plain := foundSchemes(t), []string{"http"}
	c := s.client(t, "http")
	for _, n := range s.nodes {
		s.update(t, c, n, "https")
		s.settled(t)
	}
	lost := s.nodes[2]
	lost.etcd.Close()
	lost.start(t, s.config(t, lost, []string{"http", "https"}, plain)) // its own TLS listener does not help it
	put(t, c, "k", "without "+lost.slot)
	for range 3 { // seconds, many elections
		if lost.serves() {
			t.Fatal("a member serves whose peers do not listen where its member list says")
		}
	}
	for _, n := range s.nodes {
		s.update(t, c, n, "http")
	}
	// The member has not learned of the change: its own list still sends it to https. It is reached because the others
	// dial it.
	lost.ready(t)
	s.settled(t)
}

// A member that joins in the middle of the change must get each member's URL as the member list has it at that moment,
// not the URL from the founding.
func TestEtcdJoinsBetweenSchemes(t *testing.T) {
	t.Parallel()
	s, both := foundSchemes(t), []string{"http", "https"}
	for _, n := range s.nodes {
		s.restart(t, n, both, both)
	}
	c := s.client(t, "http")
	s.update(t, c, s.nodes[0], "https")
	joiner := s.node(t, "d")
	await(t, "etcd takes the joiner, which it does when its members are connected for some seconds", func() bool {
		_, err := c.MemberAddAsLearner(t.Context(), []string{joiner.peer("https")})
		return err == nil
	})
	begin := func(first string) (err error) {
		cfg := s.config(t, joiner, both, both)
		cfg.ClusterState = embed.ClusterStateFlagExisting
		cfg.AdvertisePeerUrls = urls(t, joiner.peer("https"))
		cfg.InitialCluster = strings.Join([]string{"a=" + s.nodes[0].peer(first), "b=" + s.nodes[1].peer("http"),
			"c=" + s.nodes[2].peer("http"), "d=" + joiner.peer("https")}, ",")
		joiner.etcd, err = embed.StartEtcd(cfg)
		return err
	}
	if err := begin("http"); err == nil || !strings.Contains(err.Error(), "PeerURLs") {
		t.Fatalf("a joiner that is told the old URL of a member: %v", err)
	}
	if err := begin("https"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(joiner.etcd.Close)
	joiner.ready(t)
}

// etcd listens for one scheme at a peer's address and port, so the other scheme needs a port of its own.
func TestEtcdPeersShareNoPort(t *testing.T) {
	s := newSchemes(t)
	n := s.nodes[0]
	c := s.config(t, n, []string{"http", "https"}, []string{"http"})
	c.ListenPeerUrls[1].Host = c.ListenPeerUrls[0].Host
	if e, err := embed.StartEtcd(c); err == nil || !strings.Contains(err.Error(), "address already in use") {
		if e != nil {
			e.Close()
		}
		t.Errorf("both schemes on one port: %v", err)
	}
}

// foundSchemes runs a cluster without TLS.
func foundSchemes(t *testing.T) *schemes {
	t.Helper()
	if testing.Short() {
		t.Skip("several seconds")
	}
	s := newSchemes(t)
	for _, n := range s.nodes {
		n.start(t, s.config(t, n, []string{"http"}, []string{"http"}))
	}
	for _, n := range s.nodes {
		n.ready(t)
	}
	return s
}

func newSchemes(t *testing.T) *schemes {
	t.Helper()
	s := &schemes{ca: newAuthority(t)}
	for _, slot := range []string{"a", "b", "c"} {
		s.nodes = append(s.nodes, s.node(t, slot))
	}
	t.Cleanup(func() {
		for _, n := range s.nodes {
			if n.etcd != nil {
				n.etcd.Close()
			}
		}
	})
	return s
}

// node returns a member with a certificate that does not run yet.
func (s *schemes) node(t *testing.T, slot string) *plainNode {
	t.Helper()
	n := &plainNode{slot: slot, dir: filepath.Join(t.TempDir(), "etcd"),
		addr: fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))}
	n.pair[0], n.pair[1] = s.ca.issue(t, slot, peerName, n.addr)
	return n
}
