package gossip

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/dns/dnsmessage"
)

// nameserver is a real one, on UDP and TCP, that remembers what it was sent.
type nameserver struct {
	address string
	handle  func(network string, query []byte) []byte // nil: no reply

	mu   sync.Mutex
	seen []string // network and query
}

func serve(t *testing.T, handle func(network string, query []byte) []byte) *nameserver {
	t.Helper()
	s := &nameserver{handle: handle}
	stream, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.address = stream.Addr().String()
	packets, err := net.ListenPacket("udp", s.address)
	if err != nil {
		t.Skipf("the port is taken for UDP: %v", err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_, _ = stream.Close(), packets.Close()
		all.Wait()
	})
	all.Go(func() {
		buf := make([]byte, dns.MaxMsgSize)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.take("udp", buf[:n]); reply != nil {
				_, _ = packets.WriteTo(reply, from)
			}
		}
	})
	all.Go(func() {
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			var head [2]byte
			if _, err := io.ReadFull(conn, head[:]); err == nil {
				query := make([]byte, binary.BigEndian.Uint16(head[:]))
				_, _ = io.ReadFull(conn, query)
				if reply := s.take("tcp", query); reply != nil {
					_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
				}
			}
			_ = conn.Close()
		}
	})
	return s
}

func (s *nameserver) take(network string, query []byte) []byte {
	s.mu.Lock()
	s.seen = append(s.seen, network+" "+string(query))
	s.mu.Unlock()
	return s.handle(network, query)
}

func (s *nameserver) heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// replyTo answers any query with n A records, or says that they do not fit.
func replyTo(query []byte, n int, truncated bool) []byte {
	var q dns.Msg
	if err := q.Unpack(query); err != nil {
		panic(err)
	}
	msg := new(dns.Msg).SetReply(&q)
	msg.Truncated, msg.Compress = truncated, true
	name := q.Question[0].Name
	for i := range n {
		msg.Answer = append(msg.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET},
			A: net.IPv4(192, 0, byte(i>>8), byte(i))})
	}
	b, err := msg.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func TestEverythingElseIsForwarded(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ string, query []byte) []byte { return replyTo(query, 1, false) })
	r := testResolver()
	var want []string
	for _, c := range []struct {
		network, name string
		kind          dnsmessage.Type
	}{
		{"udp", "example.com.", dnsmessage.TypeA},
		{"udp", "ExAmple.com.", dnsmessage.TypeTXT},
		{"tcp", "example.com.", dnsmessage.TypeAAAA},
		{"udp", "xmain.holdfast.internal.", dnsmessage.TypeA},
		{"udp", "a.events.holdfast.internal.", dnsmessage.TypeA},
		{"udp", "9.0.0.10.in-addr.arpa.", dnsmessage.TypePTR},
		{"udp", "1.0.0.10.in-addr.arpa.", dnsmessage.TypeTXT},
		{"udp", "x.0.0.10.in-addr.arpa.", dnsmessage.TypePTR},
		{"udp", "1.ip6.arpa.", dnsmessage.TypePTR},
	} {
		query := pack(t, c.name, c.kind)
		msg, err := converseWith(r, c.network, s.address, query)
		if err != nil || msg.ID != 4711 || !slices.Equal(texts(msg), []string{"192.0.0.0"}) {
			t.Errorf("%s %s %v: got %v %q, %v", c.network, c.name, c.kind, msg.Header, texts(msg), err)
		}
		want = append(want, c.network+" "+string(query))
	}
	if got := s.heard(); !slices.Equal(got, want) {
		t.Errorf("the nameserver heard\n%q, want\n%q", got, want)
	}
}

func TestTruncatedRepliesAreFetchedOverTCP(t *testing.T) {
	t.Parallel()
	const n = 2000 // 32 KB, more than any packet of DNS
	s := serve(t, func(network string, query []byte) []byte {
		if network == "udp" {
			return replyTo(query, 1, true)
		}
		return replyTo(query, n, false)
	})
	got, err := through(testResolver(), s.address).LookupNetIP(t.Context(), "ip4", "big.example.")
	if err != nil || len(got) != n {
		t.Errorf("got %d addresses, %v; want %d", len(got), err, n)
	}
	if got := len(s.heard()); got != 2 {
		t.Errorf("queries: got %d, want 2", got)
	}
}

func TestDeadNameserver(t *testing.T) {
	t.Parallel()
	// A closed port: an error of the socket, which net.Resolver takes as a reason to ask the next server.
	var op *net.OpError
	for _, network := range []string{"udp", "tcp"} {
		if _, err := converseWith(testResolver(), network, "127.0.0.1:1", pack(t, "example.com.", dnsmessage.TypeA)); !errors.As(err, &op) {
			t.Errorf("%s: got %v, want a net.OpError", network, err)
		}
	}
	mute := serve(t, func(string, []byte) []byte { return nil })
	conn, err := testResolver().dial(t.Context(), "udp", mute.address)
	must(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := conn.Write(pack(t, "example.com.", dnsmessage.TypeA)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 10)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("deadline: got %v, want a timeout", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := through(testResolver(), mute.address).LookupHost(ctx, "example.com."); err == nil ||
		time.Since(began) > 3*time.Second {
		t.Errorf("context: got %v after %v", err, time.Since(began))
	}
}
