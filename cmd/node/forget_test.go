package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/plan"
	"holdfast/gossip"
)

func lostNode(name string, f plan.Facts) gossip.Node {
	f.Version = 1
	state, _ := json.Marshal(f)
	return gossip.Node{Meta: gossip.Meta{Node: name, Boot: 7}, Since: time.Unix(1, 0), State: state, Seq: 3}
}

// gossiper is a node that only gossips.
func gossiper(t *testing.T, name string, seeds ...*node) (n *node, stop func()) {
	t.Helper()
	cfg := config.Default()
	cfg.Node.Name, cfg.Gossip.Listen = name, "127.0.0.1:0"
	for _, s := range seeds {
		cfg.Gossip.Seeds = append(cfg.Gossip.Seeds, s.mesh.Address().String())
	}
	n = &node{cfg: cfg, lg: zap.NewNop()}
	self := gossip.Meta{Node: name, Boot: uint64(time.Now().UnixNano()), Address: netip.MustParseAddr("127.0.0.1")}
	var err error
	if n.mesh, err = gossip.New(cfg.Gossip, "main", self, n.answer, n.lg, prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.mesh.Run(ctx) }()
	<-n.mesh.Started()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return n, stop
}

func TestForgetCommand(t *testing.T) {
	a, _ := gossiper(t, "a")
	b, _ := gossiper(t, "b", a)
	x, stop := gossiper(t, "x", a)
	x.mesh.Publish(lostNode("x", plan.Facts{Slot: "c", Disk: "d3"}).State)
	until(t, "all hear x", func() bool { return knows(a, "x", true) && knows(b, "x", true) && knows(x, "b", true) })
	forget := func(n *node, name, dry string) (gossip.Forgetting, string) {
		w := httptest.NewRecorder()
		q := url.Values{"node": {name}, "dry": {dry}}
		routes{n}.routes().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/gossip/forget?"+q.Encode(), nil))
		var r gossip.Forgetting
		var e struct{ Error string }
		if err := errors.Join(json.Unmarshal(w.Body.Bytes(), &r), json.Unmarshal(w.Body.Bytes(), &e)); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return r, e.Error
	}
	if _, err := forget(a, "x", "false"); !strings.Contains(err, "x is live") {
		t.Errorf("a live node: got %q", err)
	}
	stop()
	until(t, "both have lost x", func() bool { return knows(a, "x", false) && knows(b, "x", false) })
	want := gossip.Forgetting{Node: "x", Dry: true, Witness: gossip.Witness{Slot: "c", Disk: "d3"}, Told: []string{"a", "b"}}
	got, err := forget(a, "x", "true")
	if got.Since = (time.Time{}); err != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("dry: got %+v, %q, want %+v", got, err, want)
	}
	if !knows(a, "x", false) || !knows(b, "x", false) {
		t.Error("a dry run has forgotten it")
	}
	want.Dry = false
	got, err = forget(a, "x", "false")
	if got.Since = (time.Time{}); err != "" || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %q, want %+v", got, err, want)
	}
	for _, n := range []*node{a, b} {
		if _, err := forget(n, "x", "false"); !strings.Contains(err, "no node is lost") {
			t.Errorf("again: got %q", err)
		}
	}
}

// knows reports whether x is known to a node as live, or as lost.
func knows(n *node, name string, live bool) bool {
	return slices.ContainsFunc(n.mesh.Nodes(), func(m gossip.Node) bool { return m.Node == name && m.Live == live })
}

func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}
