package gossip

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// The first nameserver is gone: a resolver asks the next one after 5 s (resolv.conf(5)). Seeds are found all the same.
func TestSeedsBesideADeadNameserver(t *testing.T) {
	// net makes a channel at the first lookup of the process, which may not be in the bubble.
	_, _ = (&net.Resolver{PreferGo: true}).LookupHost(t.Context(), "localhost")
	synctest.Test(t, func(t *testing.T) {
		asked := atomic.Int32{}
		nameservers := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, its := net.Pipe()
			if asked.Add(1) > 2 { // one question each for A and AAAA
				go answerOne(its)
			} else {
				go func() { _, _ = its.Read(make([]byte, dns.MinMsgSize)) }()
			}
			return ours, nil
		}}
		s := seeking(t, "seed.example.com.")
		s.dns = nameservers
		want := netip.MustParseAddrPort("10.0.0.1:7946")
		if got := s.seeds(t.Context()); len(got) != 1 || got[0].at != want {
			t.Errorf("got %v, %v, want %s", got, s.Problems(), want)
			time.Sleep(time.Minute) // the lookup ends
		}
	})
}

// seeking returns a seeker of one seed.
func seeking(t *testing.T, seed string) *seeker {
	t.Helper()
	cfg, known := Config{Listen: "10.0.0.9:7946", Seeds: []string{seed}}, newKnowledge(node("a"), 0, zap.NewNop())
	p, err := newParts(cfg, "main", node("a"), known, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	return newSeeker(p, cfg, DefaultPort)
}

// answerOne answers questions over TCP, each for an address.
func answerOne(conn net.Conn) {
	c := dns.Conn{Conn: conn}
	for {
		q, err := c.ReadMsg()
		if err != nil {
			return
		}
		m := new(dns.Msg).SetReply(q)
		m.RecursionAvailable = true
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA,
				Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(10, 0, 0, 1)}}
		}
		_ = c.WriteMsg(m)
	}
}

// A seed may be a member's name: members are known only once a seed was found, so the nameservers are asked.
func TestSeedsAreMembersNames(t *testing.T) {
	const zone = "main.holdfast.internal"
	r := NewResolver(zone, "etcd-{slot}.example.com", zap.NewNop())
	was := net.DefaultResolver
	net.DefaultResolver = r.Resolver()
	defer func() { net.DefaultResolver = was }()
	s := seeking(t, "etcd-b.example.com")
	s.dns.PreferGo, s.dns.Dial = true, func(context.Context, string, string) (net.Conn, error) {
		ours, its := net.Pipe()
		go answerOne(its)
		return ours, nil
	}
	if got := s.seeds(t.Context()); len(got) != 1 || got[0].at != netip.MustParseAddrPort("10.0.0.1:7946") {
		t.Errorf("got %v, %v", got, s.Problems())
	}
}
