package discover

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/zap"
)

func members(n int) []Entry {
	var all []Entry
	for i := range n {
		all = append(all, Entry{Slot: string(rune('a' + i)), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), Live: i > 0,
			Clients: []string{"https://x:2379"}, PeerURL: "http://x:2380"})
	}
	return append(all, Entry{Slot: "v6", Address: netip.MustParseAddr("fd00::1")})
}

func query(name string, kind uint16, edns uint16) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, kind)
	if edns > 0 {
		m.SetEdns0(edns, false)
	}
	return m
}

// show writes an answer in one line.
func show(m *dns.Msg) string {
	var parts []string
	for _, r := range m.Answer {
		switch b := r.(type) {
		case *dns.A:
			parts = append(parts, b.A.String())
		case *dns.AAAA:
			parts = append(parts, b.AAAA.String())
		case *dns.SRV:
			parts = append(parts, fmt.Sprintf("%s:%d", b.Target, b.Port))
		case *dns.SOA:
			parts = append(parts, "SOA")
		}
	}
	if len(m.Ns) > 0 {
		parts = append(parts, "authority")
	}
	if m.Authoritative {
		parts = append(parts, "aa")
	}
	return dns.RcodeToString[m.Rcode] + " " + strings.Join(parts, " ")
}

func TestZone(t *testing.T) {
	z := newZone(Names{Zone: zone}, members(2), 1)
	for _, c := range []struct {
		name string
		kind uint16
		want string
	}{
		{"a." + zone + ".", dns.TypeA, "NOERROR 10.0.0.1 aa"},
		{"A.K8s." + zone[4:] + ".", dns.TypeA, "NOERROR 10.0.0.1 aa"},
		{"a." + zone + ".", dns.TypeAAAA, "NOERROR authority aa"},
		{"v6." + zone + ".", dns.TypeAAAA, "NOERROR fd00::1 aa"},
		{"a." + zone + ".", dns.TypeTXT, "NOERROR authority aa"},
		{"c." + zone + ".", dns.TypeA, "NXDOMAIN authority aa"},
		{"x.a." + zone + ".", dns.TypeA, "NXDOMAIN authority aa"},
		{zone + ".", dns.TypeA, "NOERROR 10.0.0.2 aa"}, // of those that are live
		{zone + ".", dns.TypeSOA, "NOERROR SOA aa"},
		{"_tcp." + zone + ".", dns.TypeSRV, "NOERROR authority aa"},
		{"_etcd-client-ssl._tcp." + zone + ".", dns.TypeSRV, "NOERROR a." + zone + ".:2379 b." + zone + ".:2379 aa"},
		{"_etcd-client._tcp." + zone + ".", dns.TypeSRV, "NXDOMAIN authority aa"},
		{"_etcd-server._tcp." + zone + ".", dns.TypeSRV, "NOERROR a." + zone + ".:2380 b." + zone + ".:2380 aa"},
		{"_etcd-server._tcp." + zone + ".", dns.TypeA, "NOERROR authority aa"},
		{"example.com.", dns.TypeA, "REFUSED "},
		{"not" + zone + ".", dns.TypeA, "REFUSED "},
		{".", dns.TypeNS, "REFUSED "},
		{zone + ".", dns.TypeAXFR, "REFUSED "},
	} {
		q := query(c.name, c.kind, 0)
		m := z.Answer(q, false)
		if got := show(m); got != c.want || m.Id != q.Id || !m.Response || !m.RecursionDesired || m.RecursionAvailable {
			t.Errorf("%s %s: got %s, %+v, want %s", c.name, dns.TypeToString[c.kind], got, m.MsgHdr, c.want)
		}
	}
	if got := show(newZone(Names{Zone: zone}, nil, 1).Answer(query("a."+zone+".", dns.TypeA, 0), false)); got != "SERVFAIL " {
		t.Errorf("nothing known: got %s", got)
	}
}

func TestAnswerSizes(t *testing.T) {
	z := newZone(Names{Zone: zone}, members(26), 1)
	name := "_etcd-server._tcp." + zone + "."
	for _, c := range []struct {
		question  *dns.Msg
		tcp       bool
		truncated bool
		most      int
	}{
		{query(name, dns.TypeSRV, 0), false, true, dns.MinMsgSize},
		{query(name, dns.TypeSRV, 4096), false, true, largest},
		{query(name, dns.TypeSRV, 1), false, true, dns.MinMsgSize},
		{query(name, dns.TypeSRV, 0), true, false, dns.MaxMsgSize},
		{query("a."+zone+".", dns.TypeA, 1232), false, false, dns.MinMsgSize},
	} {
		m := z.Answer(c.question, c.tcp)
		b, err := m.Pack()
		if err != nil || len(b) > c.most || m.Truncated != c.truncated || len(m.Answer) == 0 {
			t.Errorf("got %d bytes, %v, truncated %t, %d answers, want at most %d, %t", len(b), err, m.Truncated, len(m.Answer), c.most, c.truncated)
		}
	}
}

// ask sends a packet to a server that serves z, by UDP, and returns its answer, nil for none before that to a good
// question.
func ask(t *testing.T, s *Server, packet []byte) *dns.Msg {
	t.Helper()
	conn, err := net.Dial("udp", s.Address().String())
	must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	last := query("b."+zone+".", dns.TypeA, 0)
	last.Id = 4711
	good, err := last.Pack()
	must(t, err)
	buffer := make([]byte, dns.MaxMsgSize)
	for _, packet := range [][]byte{packet, good} {
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	for {
		n, err := conn.Read(buffer)
		must(t, err)
		m := new(dns.Msg)
		must(t, m.Unpack(buffer[:n]))
		if m.Id != last.Id {
			return m
		}
		if len(packet) < 12 || packet[2]&0x80 != 0 { // to be dropped
			return nil
		}
	}
}

func TestOddQuestions(t *testing.T) {
	s, end := serving(t, newZone(Names{Zone: zone}, members(2), 1))
	defer end()
	bytes := func(m *dns.Msg) []byte {
		m.Id = 9
		b, err := m.Pack()
		must(t, err)
		return b
	}
	good := bytes(query("a."+zone+".", dns.TypeA, 0))
	change := func(f func(b []byte)) []byte { b := slices.Clone(good); f(b); return b }
	newer := query("a."+zone+".", dns.TypeA, 1232)
	newer.IsEdns0().SetVersion(1)
	for name, c := range map[string]struct {
		packet []byte
		want   string // "" for no answer
	}{
		"an answer":      {change(func(b []byte) { b[2] |= 0x80 }), ""},
		"a short header": {good[:11], ""},
		"nothing":        {nil, ""},
		"a notification": {change(func(b []byte) { b[2] |= 4 << 3 }), "NOTIMP "},
		"an update":      {change(func(b []byte) { b[2] |= 5 << 3 }), "NOTIMP "},
		"no question":    {change(func(b []byte) { b[5] = 0 })[:12], "FORMERR "},
		"only promised":  {good[:12], "FORMERR "},
		"cut short":      {good[:20], "FORMERR "},
		"two questions":  {append(change(func(b []byte) { b[5] = 2 }), good[12:]...), "FORMERR "},
		"another class":  {change(func(b []byte) { b[len(b)-1] = 3 }), "REFUSED "},
		"EDNS 1":         {bytes(newer), "BADSIG "}, // as 16 is called, which is BADVERS here
	} {
		m := ask(t, s, c.packet)
		if (m != nil) != (c.want != "") {
			t.Errorf("%s: answered with %v", name, m)
		} else if m != nil && show(m) != c.want {
			t.Errorf("%s: got %s, want %s", name, show(m), c.want)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"a." + zone + ".", zone + ".", "_etcd-client-ssl._tcp." + zone + "."} {
		b, err := query(name, dns.TypeANY, 1232).Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	z := newZone(Names{Zone: zone}, members(9), 1)
	f.Fuzz(func(t *testing.T, packet []byte) {
		q := new(dns.Msg)
		if q.Unpack(packet) != nil {
			return
		}
		m := z.Answer(q, false)
		b, err := m.Pack()
		if err != nil || !m.Response || len(b) > largest || m.Id != q.Id {
			t.Errorf("%x: answered with %d bytes %s (%v)", packet, len(b), m, err)
		}
	})
}

// serving is a server of z, and what ends it.
func serving(t *testing.T, z *Zone) (*Server, func()) {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	must(t, err)
	s.Set(z)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestServer(t *testing.T) {
	s, end := serving(t, newZone(Names{Zone: zone}, members(26), 1))
	question := query("_etcd-server._tcp."+zone+".", dns.TypeSRV, 0)
	if m, _, err := new(dns.Client).Exchange(question, s.Address().String()); err != nil || !m.Truncated {
		t.Errorf("by UDP: got %v, %v, want a truncated answer", m, err)
	}
	conn, err := dns.Dial("tcp", s.Address().String())
	must(t, err)
	defer conn.Close()
	for range 2 { // one connection, several questions
		m, _, err := new(dns.Client).ExchangeWithConn(question, conn)
		if err != nil || m.Truncated || len(m.Answer) != 26 {
			t.Errorf("by TCP: got %v, %v", m, err)
		}
	}
	end() // with a connection open
}
