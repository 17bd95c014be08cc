package coordinator

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

const (
	plainURL  = "http://{slot}.test:2380"
	secureURL = "https://{slot}.test:2381"
)

// A disk promises to serve TLS only if every member, including its own, can be reached with TLS.
func TestPromiseOfTLSNeedsEveryMember(t *testing.T) {
	w := newWorld(t)
	c := w.holding()
	r := record("a", "b")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.holding.record(plan.Action{Kind: plan.Commit, Record: &r}))
	o := look(t, c)
	o.Member.Members = []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}}
	a := plan.Action{Kind: plan.Note, Secured: &plan.Secured{PeerURL: secureURL}}
	for _, slot := range []string{"a", "b"} {
		w.unreachable = map[string]error{plan.PeerURL(secureURL, slot): errors.New("refused")}
		if err := c.loop.actor.act(t.Context(), o, a); err == nil || !strings.Contains(err.Error(), "reach slot "+slot) {
			t.Errorf("slot %s is not reached: got %v", slot, err)
		}
		if l, _, _ := readLedger(w.dir); l.Secured != nil {
			t.Fatalf("slot %s is not reached, and the disk notes %+v", slot, l.Secured)
		}
	}
	w.unreachable = nil
	must(c.loop.actor.act(t.Context(), o, a))
	if l, _, err := readLedger(w.dir); err != nil || l.Secured == nil || *l.Secured != *a.Secured {
		t.Errorf("got %+v, %v; want %+v", l.Secured, err, a.Secured)
	}
	w.unreachable = map[string]error{plan.PeerURL(secureURL, "b"): errors.New("refused")} // what happened needs nobody
	a.Secured = &plan.Secured{PeerURL: secureURL, Changed: true}
	must(c.loop.actor.act(t.Context(), o, a))
}

// A disk prepares nothing whose members would have URLs that this node does not serve. What it builds has the
// proposal's URLs.
func TestPrepareOtherPeerURLs(t *testing.T) {
	r := record("a", "b")
	r.Charter.PeerURL = plainURL
	p := plan.Restore{Cluster: "test", Generation: 2, Line: []string{r.ID}, ID: "00000000000000aa", PeerURL: secureURL}
	o := plan.Observation{Disk: plan.Disk{Ledger: plan.Ledger{Record: &r}}}
	if got := foundersOf(*charterOf(o, p), p); !slices.Equal([]string{got["a"], got["b"]}, []string{"https://a.test:2381", "https://b.test:2381"}) {
		t.Errorf("as proposed: got %v", got)
	}
	if p.PeerURL = ""; charterOf(o, p).PeerURL != plainURL || r.Charter.PeerURL != plainURL {
		t.Errorf("of an older holdfast: got %v", charterOf(o, p))
	}
	w := newWorld(t)
	c := w.holding()
	p.PeerURL, o.Config.PeerURL = secureURL, plainURL
	if err := c.loop.actor.restorer.build(t.Context(), o, &p); err == nil || !strings.Contains(err.Error(), "set TLS") {
		t.Errorf("without TLS: got %v", err)
	}
	o.Config.PeerURL = "https://{slot}.test:2380" // served, and the proposal says where nobody listens
	if err := c.loop.actor.restorer.build(t.Context(), o, &p); err == nil || !strings.Contains(err.Error(), "set TLS") {
		t.Errorf("another port: got %v", err)
	}
	for _, cfg := range []struct {
		url, http string
		want      bool
	}{{secureURL, "", true}, {secureURL, "2380", true}, {plainURL, "", false}} {
		if got := (plan.Config{PeerURL: cfg.url, FromHTTP: cfg.http}).Serves(secureURL); got != cfg.want {
			t.Errorf("%s with http %q serves https: %v", cfg.url, cfg.http, got)
		}
	}
	if (plan.Config{PeerURL: secureURL}).Serves(plainURL) || !(plan.Config{PeerURL: secureURL, FromHTTP: "2380"}).Serves(plainURL) {
		t.Error("http is served with tls.from-http, and not without")
	}
}
