package gossip

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
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
	must(t, os.WriteFile(path, []byte(text), 0o600))
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
	await(t, "b sees a", patience, sees(b, "a"))
	await(t, "b sees c", patience, sees(b, "c"))
	b.Publish([]byte("secret"))
	await(t, "a hears b", patience, says(a, "b", "secret"))
	await(t, "c hears b", patience, says(c, "b", "secret"))
}

func TestWrongKeyDoesNotMix(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), keyed(t, nil, 'x'))
	b := start(t, "main", node("b"), keyed(t, []*member{a}, 'y'))
	for _, m := range []*member{a, b} {
		await(t, m.self.Node+" complains", patience, complains(m, "127.0.0.1: "+errKeys.Error()))
		await(t, "several refusals", 10*time.Second, func() bool { return rejected(t, m, reasonKey) >= 3 })
		warned(t, m, errKeys.Error())
	}
	strangers(t, a, b)
}

func TestKeyOnOneSideDoesNotMix(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), keyed(t, nil, 'x'))
	b := start(t, "main", node("b"), seeded(a))
	c := startTLS(t, node("c"), papersOf(t, newAuthority(t), nodeName), a, b)
	for m, why := range map[*member]error{a: errKeys, b: errKeys, c: errCertificate} {
		await(t, m.self.Node+" complains", patience, complains(m, "127.0.0.1: "+why.Error()))
	}
	strangers(t, a, b)
	strangers(t, b, c)
}

func TestOtherClusterDoesNotMix(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	b := start(t, "events", node("b"), seeded(a))
	for _, m := range []*member{a, b} {
		await(t, m.self.Node+" complains", patience, complains(m, "127.0.0.1: "+errCluster.Error()))
		warned(t, m, errCluster.Error())
		if got := rejected(t, m, reasonCluster); got < 1 {
			t.Errorf("refused: got %v, want at least 1", got)
		}
	}
	if !complains(a, "holdfast/events")() {
		t.Errorf("a does not say which cluster: %q", a.Problems())
	}
	strangers(t, a, b)
}

// foreign is a memberlist node of our mesh that describes itself otherwise.
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
	quiet := rules{papers: a.papers, known: func(netip.Addr) bool { return true }, refused: func(string, error) {}}
	over, err := listen(context.Background(), netip.MustParseAddrPort("127.0.0.1:0"), quiet)
	must(t, err)
	conf := memberlist.DefaultLocalConfig()
	conf.Name, conf.Transport, conf.EnableCompression = name, over, false
	conf.AdvertiseAddr, conf.AdvertisePort = "127.0.0.1", over.GetAutoBindPort()
	conf.Delegate = foreign{meta: meta, state: state}
	conf.Logger = log.New(io.Discard, "", 0)
	list, err := memberlist.Create(conf)
	must(t, err)
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
	other := keyless()
	other.label += fmt.Sprintf(" %d", version+1) // so that the protocol begins as that of another version
	_, err := other.dial(t.Context(), net.Dialer{}, a.Address().String(), forStream, 5*time.Second)
	if !errors.Is(err, errCluster) {
		t.Errorf("another version: got %v, want %v", err, errCluster)
	}
	await(t, "a complains", patience, complains(a, errCluster.Error()))
}

func TestOddNodeIsRefused(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	list := stranger(t, a, "b#1", []byte("odd"), []byte("odd"))
	_, _ = list.Join([]string{a.Address().String()})
	await(t, "a complains", patience, complains(a, "127.0.0.1: refused as a node: decode message: "))
	if len(a.Nodes()) != 1 || rejected(t, a, reasonUnreadable) < 1 {
		t.Errorf("nodes: got %v, %v refused", a.Nodes(), rejected(t, a, reasonUnreadable))
	}
	warned(t, a, "refused as a node")
	if got := len(a.alive()); got != 0 {
		t.Errorf("memberlist holds %d others, want none", got)
	}

	// One odd node must not part the others, when it is a seed's neighbour or when it comes first.
	b := start(t, "main", node("c"), seeded(a))
	await(t, "c sees a", patience, sees(b, "a"))
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
	await(t, "a complains", patience, complains(a, `it calls itself "b#1"`))
	if len(a.Nodes()) != 1 {
		t.Errorf("nodes: got %v", a.Nodes())
	}
}

func TestUnknownMessagesHaveNoEffect(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	self := node("b")
	list := stranger(t, a, self.process(), encode(self), words{}.encode())
	if _, err := list.Join([]string{a.Address().String()}); err != nil {
		t.Fatal(err)
	}
	await(t, "a sees b", patience, sees(a, "b"))
	to := destination(a.self, a.Address())
	forged := words{entries: []entry{{Meta: a.self, Seq: 99, State: []byte("forged")}}}.encode()
	for _, msg := range [][]byte{{99}, {9, 1}, {0x80}, []byte("hello"), forged} {
		must(t, list.SendReliable(to, msg))
	}
	await(t, "the unknown ones counted", patience, func() bool {
		return rejected(t, a, reasonUnreadable) == 3
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
			must(t, os.WriteFile(path, []byte(c.text), c.mode))
			m, err := New(Config{Listen: "127.0.0.1:0", KeyFile: path}, "main", node("a"), echo, zap.NewNop(), prometheus.NewRegistry())
			must(t, err)
			err = m.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error with %q and the path", err, c.want)
			}
		})
	}
}
