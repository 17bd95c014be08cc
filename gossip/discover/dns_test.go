package discover

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/dns/dnsmessage"
)

func members(n int) []Entry {
	var all []Entry
	for i := range n {
		all = append(all, Entry{Slot: string(rune('a' + i)), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), Live: i > 0,
			Clients: []string{"https://x:2379"}, PeerURL: "http://x:2380"})
	}
	return append(all, Entry{Slot: "v6", Address: netip.MustParseAddr("fd00::1")})
}

func query(name string, kind dnsmessage.Type, edns uint16) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 9, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
	if edns > 0 {
		r := pseudo(0)
		r.Header.Class = dnsmessage.Class(edns)
		m.Additionals = []dnsmessage.Resource{r}
	}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// show writes an answer in one line.
func show(m dnsmessage.Message) string {
	var parts []string
	for _, r := range m.Answers {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			parts = append(parts, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			parts = append(parts, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.SRVResource:
			parts = append(parts, fmt.Sprintf("%s:%d", b.Target, b.Port))
		case *dnsmessage.SOAResource:
			parts = append(parts, "SOA")
		}
	}
	if len(m.Authorities) > 0 {
		parts = append(parts, "authority")
	}
	if m.Authoritative {
		parts = append(parts, "aa")
	}
	return strings.TrimPrefix(m.RCode.String(), "RCode") + " " + strings.Join(parts, " ")
}

func unpack(t *testing.T, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestZone(t *testing.T) {
	z := NewZone(zone, members(2), 1)
	for _, c := range []struct {
		name string
		kind dnsmessage.Type
		want string
	}{
		{"a." + zone + ".", dnsmessage.TypeA, "Success 10.0.0.1 aa"},
		{"A.K8s." + zone[4:] + ".", dnsmessage.TypeA, "Success 10.0.0.1 aa"},
		{"a." + zone + ".", dnsmessage.TypeAAAA, "Success authority aa"},
		{"v6." + zone + ".", dnsmessage.TypeAAAA, "Success fd00::1 aa"},
		{"a." + zone + ".", dnsmessage.TypeTXT, "Success authority aa"},
		{"c." + zone + ".", dnsmessage.TypeA, "NameError authority aa"},
		{"x.a." + zone + ".", dnsmessage.TypeA, "NameError authority aa"},
		{zone + ".", dnsmessage.TypeA, "Success 10.0.0.2 aa"}, // of those that are live
		{zone + ".", dnsmessage.TypeSOA, "Success SOA aa"},
		{"_tcp." + zone + ".", dnsmessage.TypeSRV, "Success authority aa"},
		{"_etcd-client-ssl._tcp." + zone + ".", dnsmessage.TypeSRV, "Success a." + zone + ".:2379 b." + zone + ".:2379 aa"},
		{"_etcd-client._tcp." + zone + ".", dnsmessage.TypeSRV, "NameError authority aa"},
		{"_etcd-server._tcp." + zone + ".", dnsmessage.TypeSRV, "Success a." + zone + ".:2380 b." + zone + ".:2380 aa"},
		{"_etcd-server._tcp." + zone + ".", dnsmessage.TypeA, "Success authority aa"},
		{"example.com.", dnsmessage.TypeA, "Refused "},
		{"not" + zone + ".", dnsmessage.TypeA, "Refused "},
		{".", dnsmessage.TypeNS, "Refused "},
		{zone + ".", dnsmessage.TypeAXFR, "Refused "},
	} {
		b, ok := z.Answer(query(c.name, c.kind, 0), 0)
		if !ok {
			t.Errorf("%s %s: no answer", c.name, c.kind)
			continue
		}
		m := unpack(t, b)
		if got := show(m); got != c.want || m.ID != 9 || !m.Response || !m.RecursionDesired || m.RecursionAvailable {
			t.Errorf("%s %s: got %s, %+v, want %s", c.name, c.kind, got, m.Header, c.want)
		}
	}
	b, _ := NewZone(zone, nil, 1).Answer(query("a."+zone+".", dnsmessage.TypeA, 0), 0)
	if got := show(unpack(t, b)); got != "ServerFailure " {
		t.Errorf("nothing known: got %s", got)
	}
}

func TestAnswerSizes(t *testing.T) {
	z := NewZone(zone, members(26), 1)
	ask := query("_etcd-server._tcp."+zone+".", dnsmessage.TypeSRV, 0)
	for _, c := range []struct {
		question  []byte
		limit     int
		truncated bool
		most      int
	}{
		{ask, 0, true, smallest},
		{query("_etcd-server._tcp."+zone+".", dnsmessage.TypeSRV, 4096), 0, true, largest},
		{query("_etcd-server._tcp."+zone+".", dnsmessage.TypeSRV, 1), 0, true, smallest},
		{ask, maxMessage, false, maxMessage},
		{query("a."+zone+".", dnsmessage.TypeA, 1232), 0, false, smallest},
	} {
		b, ok := z.Answer(c.question, c.limit)
		m := unpack(t, b)
		if !ok || len(b) > c.most || m.Truncated != c.truncated || m.Truncated == (len(m.Answers) > 0) {
			t.Errorf("got %d bytes, truncated %t, %d answers, want at most %d, %t", len(b), m.Truncated, len(m.Answers), c.most, c.truncated)
		}
	}
}

func TestOddQuestions(t *testing.T) {
	z := NewZone(zone, members(2), 1)
	good := query("a."+zone+".", dnsmessage.TypeA, 0)
	change := func(f func(b []byte)) []byte { b := slices.Clone(good); f(b); return b }
	newer := query("a."+zone+".", dnsmessage.TypeA, 1232)
	newer[len(newer)-5] = 1 // the version in the TTL of the OPT record
	for name, c := range map[string]struct {
		packet []byte
		want   string // "" for no answer
	}{
		"an answer":      {change(func(b []byte) { b[2] |= 0x80 }), ""},
		"a short header": {good[:11], ""},
		"nothing":        {nil, ""},
		"a notification": {change(func(b []byte) { b[2] |= 4 << 3 }), "NotImplemented "},
		"no question":    {change(func(b []byte) { b[5] = 0 })[:12], "FormatError "},
		"cut short":      {good[:20], "FormatError "},
		"two questions":  {append(change(func(b []byte) { b[5] = 2 }), good[12:]...), "FormatError "},
		"another class":  {change(func(b []byte) { b[len(b)-1] = 3 }), "Refused "},
		"EDNS 1":         {newer, "Success "},
	} {
		b, ok := z.Answer(c.packet, 0)
		if ok != (c.want != "") {
			t.Errorf("%s: answered is %t", name, ok)
		} else if ok {
			m := unpack(t, b)
			if got := show(m); got != c.want {
				t.Errorf("%s: got %s, want %s", name, got, c.want)
			}
			if name == "EDNS 1" && m.Additionals[0].Header.TTL>>24 != 1 {
				t.Errorf("EDNS 1: got %+v, want BADVERS", m.Additionals)
			}
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"a." + zone + ".", zone + ".", "_etcd-client-ssl._tcp." + zone + "."} {
		f.Add(query(name, dnsmessage.TypeALL, 1232))
	}
	z := NewZone(zone, members(9), 1)
	f.Fuzz(func(t *testing.T, packet []byte) {
		b, ok := z.Answer(packet, 0)
		if !ok {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(b); err != nil || !m.Response || len(b) > largest {
			t.Errorf("%x: answered with %x (%v)", packet, b, err)
		}
		if binary.BigEndian.Uint16(packet) != m.ID {
			t.Errorf("%x: another ID: %x", packet, b)
		}
	})
}

// serving is a server of z, and what ends it.
func serving(t *testing.T, z *Zone) (*Server, func()) {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
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
	s, err := Listen(t.Context(), "127.0.0.1:0", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s.Set(NewZone(zone, members(26), 1))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()

	udp, err := net.Dial("udp", s.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	_ = udp.SetDeadline(time.Now().Add(5 * time.Second))
	question := query("_etcd-server._tcp."+zone+".", dnsmessage.TypeSRV, 0)
	buffer := make([]byte, maxMessage)
	for _, packet := range [][]byte{{1, 2, 3}, question} { // the first is dropped
		if _, err := udp.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	n, err := udp.Read(buffer)
	if err != nil || !unpack(t, buffer[:n]).Truncated {
		t.Errorf("by UDP: got %d bytes, %v, want a truncated answer", n, err)
	}
	tcp, err := net.Dial("tcp", s.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	_ = tcp.SetDeadline(time.Now().Add(5 * time.Second))
	for range 2 { // one connection, several questions
		if _, err := tcp.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(tcp, buffer[:2]); err != nil {
			t.Fatal(err)
		}
		answer := buffer[2 : 2+binary.BigEndian.Uint16(buffer)]
		if _, err := io.ReadFull(tcp, answer); err != nil {
			t.Fatal(err)
		}
		if m := unpack(t, answer); m.Truncated || len(m.Answers) != 26 {
			t.Errorf("by TCP: got %s", show(m))
		}
	}
	cancel() // with a connection open
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}
