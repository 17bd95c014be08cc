package cmd

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

func TestForgetting(t *testing.T) {
	type answers map[string]gossip.ForgetAnswer
	record := plan.Record{Cluster: "main", Generation: 1, ID: "abc", Cause: plan.Founding}
	stray := lostNode("stray", plan.Facts{Slot: "a", Disk: "d1", Record: &record})
	live := func(name string) gossip.Node { return gossip.Node{Meta: gossip.Meta{Node: name}, Live: true} }
	nodes := []gossip.Node{live("n1"), live("n2"), stray}
	for what, c := range map[string]struct {
		node    string
		dry     bool
		answers answers // by node, to the first round
		late    answers // to the second
		broken  string
		orders  int
		told    []string
		err     string
	}{
		"forgotten":      {node: "stray", orders: 4, told: []string{"n1", "n2"}},
		"dry":            {node: "stray", dry: true, orders: 2, told: []string{"n1", "n2"}},
		"forgotten here": {node: "old", orders: 4, told: []string{"n1", "n2"}},
		"unknown":        {node: "starry", err: `no node "starry" is known; lost are stray, old`},
		"live":           {node: "n2", err: "n2 is live: stop it first"},
		"ourselves":      {node: "n1", err: "n1 is the node that was asked"},
		"live elsewhere": {node: "stray", answers: answers{"n2": {Live: true}}, orders: 2, err: "nothing was changed: node n2 hears stray"},
		"later":          {node: "stray", answers: answers{"n2": {Later: true}}, orders: 2, err: "nothing was changed: node n2 has heard more"},
		"back meanwhile": {node: "stray", late: answers{"n2": {Live: true}}, orders: 4, told: []string{"n1"}},
		"an old version": {node: "stray", broken: "n2", orders: 4, told: []string{"n1"}},
	} {
		t.Run(what, func(t *testing.T) {
			var asked []forgetOrder
			f := forgetting{self: "n1", nodes: nodes, lost: []gossip.Node{stray, lostNode("old", plan.Facts{})},
				ask: func(_ context.Context, node string, o forgetOrder) (gossip.ForgetAnswer, error) {
					asked = append(asked, o)
					if node == c.broken {
						return gossip.ForgetAnswer{}, errors.New("no answer to the question")
					}
					if o.Dry {
						return c.answers[node], nil
					}
					return c.late[node], nil
				}}
			r, err := f.run(t.Context(), c.node, c.dry)
			if len(asked) != c.orders {
				t.Errorf("orders: got %+v, want %d", asked, c.orders)
			}
			for i, o := range asked {
				if want := (gossip.Forgotten{Node: c.node, Boot: 7, Seq: 3}); o.Forgotten != want || o.Dry != (i < 2) {
					t.Errorf("order %d: got %+v, want %+v", i, o, want)
				}
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || !slices.Equal(r.Told, c.told) || len(r.Told)+len(r.Untold) != 2 {
				t.Errorf("got %+v, %v, want told %v", r, err, c.told)
			}
			var b strings.Builder
			if err := r.write(&b); err != nil {
				t.Fatal(err)
			}
			want := []string{c.node, "1970-01-01T00:00:01Z", strings.Join(c.told, ", ")}
			if c.node == "stray" {
				want = append(want, "slot a", "disk d1", record.Token(), "blank disks may found")
			}
			if c.dry {
				want = append(want, "would forget", "nothing was changed")
			}
			for node := range r.Untold {
				want = append(want, "not confirmed by "+node)
			}
			for _, w := range want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("it does not say %q:\n%s", w, &b)
				}
			}
		})
	}
}

// gossiper is a node that only gossips.
func gossiper(t *testing.T, name string, seeds ...*process) (n *process, stop func()) {
	t.Helper()
	cfg := config.Default()
	cfg.Node.Name, cfg.Gossip.Listen = name, "127.0.0.1:0"
	for _, s := range seeds {
		cfg.Gossip.Seeds = append(cfg.Gossip.Seeds, s.mesh.Address().String())
	}
	n = &process{cfg: cfg, lg: zap.NewNop()}
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
	forget := func(n *process, name, dry string) (forgetReport, string) {
		w := httptest.NewRecorder()
		q := url.Values{"node": {name}, "dry": {dry}}
		n.control().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/gossip/forget?"+q.Encode(), nil))
		var r forgetReport
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
	want := forgetReport{Node: "x", Dry: true, Slot: "c", Disk: "d3", Told: []string{"a", "b"}}
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
	if len(a.mesh.Lost())+len(b.mesh.Lost()) > 0 {
		t.Errorf("a: %v, b: %v", a.mesh.Lost(), b.mesh.Lost())
	}
	if _, err := forget(b, "x", "false"); !strings.Contains(err, "no node is lost") {
		t.Errorf("again: got %q", err)
	}
}

// knows reports whether x is known to a node as live, or as lost.
func knows(n *process, name string, live bool) bool {
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
