package gossip

import (
	"encoding/base64"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

func keyFile(t *testing.T, keys ...byte) string {
	t.Helper()
	text := "# keys\n"
	for _, k := range keys {
		text += base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(k)), 32))) + "\n"
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func keyed(t *testing.T, seeds []*member, keys ...byte) func(*Config) {
	path := keyFile(t, keys...)
	return func(c *Config) {
		c.KeyFile = path
		seeded(seeds...)(c)
	}
}

// warned reports whether a problem was logged exactly once, at a level an operator sees.
func warned(t *testing.T, m *member, part string) {
	t.Helper()
	n := 0
	for _, entry := range m.logs.FilterMessage("gossip problem seen").All() {
		if strings.Contains(entry.ContextMap()["problem"].(string), part) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%s: got %d log lines with %q, want 1", m.self.Node, n, part)
	}
}

func strangers(t *testing.T, a, b *member) {
	t.Helper()
	if sees(a, b.self.Node)() || sees(b, a.self.Node)() {
		t.Errorf("%s and %s mix: %v, %v", a.self.Node, b.self.Node, a.Nodes(), b.Nodes())
	}
	if len(a.Nodes()) != 1 || len(b.Nodes()) != 1 {
		t.Errorf("they know of each other: %v, %v", a.Nodes(), b.Nodes())
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), keyed(t, nil, 'x'))
	// Rotation: what the second key encrypts the first node reads once it has both.
	b := start(t, "main", node("b"), keyed(t, []*member{a}, 'x', 'y'))
	c := start(t, "main", node("c"), keyed(t, []*member{b}, 'y', 'x'))
	await(t, "b sees a", 5*time.Second, sees(b, "a"))
	await(t, "b sees c", 5*time.Second, sees(b, "c"))
	b.Publish([]byte("secret"))
	await(t, "a hears b", 5*time.Second, says(a, "b", "secret"))
	await(t, "c hears b", 5*time.Second, says(c, "b", "secret"))
}

func TestWrongKeyDoesNotMix(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), keyed(t, nil, 'x'))
	b := start(t, "main", node("b"), keyed(t, []*member{a}, 'y'))
	const text = "127.0.0.1: its gossip is not readable with our keys"
	await(t, "a complains", 5*time.Second, complains(a, text))
	await(t, "b complains", 5*time.Second, complains(b, text))
	await(t, "several refusals", 10*time.Second, func() bool { return count(t, a.series.rejected.WithLabelValues(reasonKey)) >= 3 })
	strangers(t, a, b)
	warned(t, a, text)
	warned(t, b, text)

	// The same over packets.
	plain := dialUDP(t, a)
	label := "holdfast/main"
	packet := append(append([]byte{244, byte(len(label))}, label...), make([]byte, 64)...)
	if _, err := plain.Write(packet); err != nil {
		t.Fatal(err)
	}
	await(t, "a complains of packets", 5*time.Second, complains(a, "its gossip packets are not readable with our keys"))
}

func dialUDP(t *testing.T, to *member) net.Conn {
	t.Helper()
	conn, err := net.Dial("udp", to.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestKeyOnOneSideDoesNotMix(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), keyed(t, nil, 'x'))
	b := start(t, "main", node("b"), seeded(a))
	await(t, "a complains", 5*time.Second, complains(a, "127.0.0.1: it gossips without a key"))
	await(t, "b complains", 5*time.Second, complains(b, "127.0.0.1: it gossips with a key"))
	c := start(t, "main", node("c"), keyed(t, []*member{b}, 'x'))
	await(t, "b still complains", 5*time.Second, complains(b, "127.0.0.1: it gossips with a key"))
	await(t, "c complains", 5*time.Second, complains(c, "127.0.0.1: it gossips without a key"))
	strangers(t, a, b)
	strangers(t, b, c)

	if _, err := dialUDP(t, b).Write(append([]byte{244, 13}, "holdfast/main\x01not a message"...)); err != nil {
		t.Fatal(err)
	}
	await(t, "b complains of packets", 5*time.Second, complains(b, "its gossip packets are not readable"))
}

func TestOtherClusterDoesNotMix(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := start(t, "events", node("b"), seeded(a))
	await(t, "a complains", 5*time.Second, complains(a, `127.0.0.1: it belongs to another cluster ("holdfast/events")`))
	await(t, "b complains", 5*time.Second, complains(b, "it hung up (another cluster, TLS on one side alone, or not holdfast)"))
	strangers(t, a, b)
	warned(t, a, "another cluster")
	warned(t, b, "another cluster")
	if got := count(t, a.series.rejected.WithLabelValues(reasonCluster)); got < 1 {
		t.Errorf("refused: got %v, want at least 1", got)
	}
}

// foreign is a memberlist node with our label that describes itself otherwise.
type foreign struct {
	delegate
	meta, state []byte
}

func (f foreign) NodeMeta(int) []byte           { return f.meta }
func (f foreign) LocalState(bool) []byte        { return f.state }
func (f foreign) MergeRemoteState([]byte, bool) {}
func (f foreign) NotifyMsg([]byte)              {}

func stranger(t *testing.T, a *member, name string, meta, state []byte) *memberlist.Memberlist {
	t.Helper()
	conf := memberlist.DefaultLocalConfig()
	conf.Name, conf.Label = name, a.label
	conf.BindAddr, conf.BindPort, conf.AdvertisePort = "127.0.0.1", 0, 0
	conf.EnableCompression = false // as every holdfast has it
	conf.Delegate = foreign{meta: meta, state: state}
	conf.Logger = log.New(io.Discard, "", 0)
	list, err := memberlist.Create(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := list.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return list
}

func TestOtherVersionDoesNotMix(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	self := node("b")
	meta := encode(self)
	meta[0] = codecVersion + 1
	list := stranger(t, a, self.process(), meta, []byte{codecVersion + 1, byte(kindWords)})
	for range 2 {
		_, _ = list.Join([]string{a.Address().String()}) // a's refusal does not reach the joiner
	}
	await(t, "a complains", 5*time.Second, complains(a, "127.0.0.1: refused as a node: decode message: version 3, this holdfast knows 2"))
	if len(a.Nodes()) != 1 {
		t.Errorf("nodes: got %v", a.Nodes())
	}
	if got := count(t, a.series.rejected.WithLabelValues(reasonVersion)); got < 1 {
		t.Errorf("refused: got %v, want at least 1", got)
	}
	warned(t, a, "refused as a node")
	if got := len(a.alive()); got != 0 {
		t.Errorf("memberlist holds %d others, want none", got)
	}

	// One odd node must not part the others, when it is a seed's neighbour or when it comes first.
	b := start(t, "main", node("c"), seeded(a))
	await(t, "c sees a", 5*time.Second, sees(b, "a"))
}

// alive returns memberlist's other live nodes.
func (m *Mesh) alive() []string {
	var out []string
	for _, n := range m.list.Members() {
		if n.Name != m.self.process() {
			out = append(out, n.Name)
		}
	}
	return out
}

func TestNameAndDescriptionMustAgree(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	list := stranger(t, a, "b#1", encode(node("b")), nil)
	_, _ = list.Join([]string{a.Address().String()})
	await(t, "a complains", 5*time.Second, complains(a, `it calls itself "b#1"`))
	if len(a.Nodes()) != 1 {
		t.Errorf("nodes: got %v", a.Nodes())
	}
}

func TestUnknownMessagesHaveNoEffect(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	self := node("b")
	list := stranger(t, a, self.process(), encode(self), encode(words{}))
	if _, err := list.Join([]string{a.Address().String()}); err != nil {
		t.Fatal(err)
	}
	await(t, "a sees b", 5*time.Second, sees(a, "b"))
	to := destination(a.self, a.Address())
	forged := encode(words{entries: []entry{{Meta: a.self, Seq: 99, State: []byte("forged")}}})
	for _, msg := range [][]byte{{codecVersion, 99}, {9, 1}, {codecVersion}, []byte("hello"), forged, encode(answer{})} {
		if err := list.SendReliable(to, msg); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the unknown ones counted", 5*time.Second, func() bool {
		return count(t, a.series.rejected.WithLabelValues(reasonVersion)) == 3 &&
			count(t, a.series.rejected.WithLabelValues(reasonUnreadable)) == 1
	})
	if !complains(a, "some node: its messages are not understood")() {
		t.Errorf("problems: got %q", a.Problems())
	}
	if n, _ := find(a, "a"); n.Seq != 0 || n.State != nil {
		t.Errorf("a believes others about itself: %+v", n)
	}
}

func TestKeyFileIsRefused(t *testing.T) {
	t.Parallel()
	good := base64.StdEncoding.EncodeToString(make([]byte, 16))
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"readable by others": {good, 0o640, "chmod 600"},
		"empty":              {"# none\n", 0o600, "holds no key"},
		"not base64":         {good + "\n!!\n", 0o600, "key 2 is not base64"},
		"odd length":         {"c2hvcnQ=", 0o600, "has 5"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			m, err := New(Config{Listen: "127.0.0.1:0", KeyFile: path}, "main", node("a"), echo, zap.NewNop(), prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			err = m.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error with %q and the path", err, c.want)
			}
		})
	}
}
