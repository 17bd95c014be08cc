package gossip

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/dns/dnsmessage"
)

const testZone = "main.holdfast.internal"

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func testResolver() *Resolver {
	r := NewResolver("Main.Holdfast.Internal.", zap.NewNop())
	r.Set(map[string][]netip.Addr{
		"a": addrs("10.0.0.1"),
		"B": addrs("2001:db8::2", "10.0.0.2", "::ffff:10.0.0.2"),
		"c": nil,
	})
	return r
}

// pack writes a query as net.Resolver does, with EDNS.
func pack(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 4711, RecursionDesired: true})
	var opt dnsmessage.ResourceHeader
	err := errors.Join(
		b.StartQuestions(),
		b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}),
		b.StartAdditionals(), opt.SetEDNS0(1232, dnsmessage.RCodeSuccess, false), b.OPTResource(opt, dnsmessage.OPTResource{}))
	if err != nil {
		t.Fatal(err)
	}
	msg, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// converseWith asks over a connection of the resolver's, as net.Resolver would ask the server.
func converseWith(r *Resolver, network, server string, query []byte) (dnsmessage.Message, error) {
	var msg dnsmessage.Message
	conn, err := r.Resolver().Dial(context.Background(), network, server)
	if err != nil {
		return msg, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return msg, err
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return msg, err
	}
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return msg, err
	}
	reply := make([]byte, binary.BigEndian.Uint16(head[:]))
	if _, err := io.ReadFull(conn, reply); err != nil {
		return msg, err
	}
	return msg, msg.Unpack(reply)
}

// texts makes answers comparable.
func texts(msg dnsmessage.Message) []string {
	var out []string
	for _, a := range msg.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			out = append(out, netip.AddrFrom4(body.A).String())
		case *dnsmessage.AAAAResource:
			out = append(out, netip.AddrFrom16(body.AAAA).String())
		case *dnsmessage.PTRResource:
			out = append(out, body.PTR.String())
		}
	}
	return out
}

func TestOurNamesAreAnsweredHere(t *testing.T) {
	t.Parallel()
	const (
		ok   = dnsmessage.RCodeSuccess
		none = dnsmessage.RCodeNameError
	)
	r := testResolver()
	for _, c := range []struct {
		name  string
		kind  dnsmessage.Type
		rcode dnsmessage.RCode
		want  []string
	}{
		{"a.main.holdfast.internal.", dnsmessage.TypeA, ok, []string{"10.0.0.1"}},
		{"A.mAIN.holdfast.INTERNAL.", dnsmessage.TypeA, ok, []string{"10.0.0.1"}},
		{"a.main.holdfast.internal.", dnsmessage.TypeAAAA, ok, nil},
		{"a.main.holdfast.internal.", dnsmessage.TypeMX, ok, nil},
		{"b.main.holdfast.internal.", dnsmessage.TypeA, ok, []string{"10.0.0.2"}},
		{"b.main.holdfast.internal.", dnsmessage.TypeAAAA, ok, []string{"2001:db8::2"}},
		{"c.main.holdfast.internal.", dnsmessage.TypeA, ok, nil},
		{"d.main.holdfast.internal.", dnsmessage.TypeA, none, nil},
		{"x.a.main.holdfast.internal.", dnsmessage.TypeA, none, nil},
		{"main.holdfast.internal.", dnsmessage.TypeA, none, nil},
		{"a.main.holdfast.internal.corp.example.", dnsmessage.TypeA, none, nil},
		{"d.main.holdfast.internal.example.", dnsmessage.TypeAAAA, none, nil},
		{"1.0.0.10.in-addr.arpa.", dnsmessage.TypePTR, ok, []string{"a.main.holdfast.internal."}},
		{"2.0.0.10.in-addr.arpa.", dnsmessage.TypePTR, ok, []string{"b.main.holdfast.internal."}},
		{"2.0.0.0." + strings.Repeat("0.", 20) + "8.b.d.0.1.0.0.2.ip6.arpa.", dnsmessage.TypePTR, ok, []string{"b.main.holdfast.internal."}},
	} {
		// The server's port is closed: had we asked it, there would be an error.
		msg, err := converseWith(r, "udp", "127.0.0.1:1", pack(t, c.name, c.kind))
		if err != nil {
			t.Errorf("%s %v: %v", c.name, c.kind, err)
			continue
		}
		if msg.RCode != c.rcode || !slices.Equal(texts(msg), c.want) {
			t.Errorf("%s %v: got %v %q, want %v %q", c.name, c.kind, msg.RCode, texts(msg), c.rcode, c.want)
		}
		if !msg.Response || !msg.Authoritative || !msg.RecursionAvailable || msg.ID != 4711 || msg.Questions[0].Name.String() != c.name {
			t.Errorf("%s: got header %+v and question %v", c.name, msg.Header, msg.Questions)
		}
		for _, a := range msg.Answers {
			if a.Header.TTL != 0 {
				t.Errorf("%s: got TTL %d, want 0", c.name, a.Header.TTL)
			}
		}
	}
	r.Set(map[string][]netip.Addr{"d": addrs("10.0.0.4")})
	if msg, _ := converseWith(r, "tcp", "127.0.0.1:1", pack(t, "d.main.holdfast.internal.", dnsmessage.TypeA)); !slices.Equal(texts(msg), []string{"10.0.0.4"}) {
		t.Errorf("d after Set: got %q", texts(msg))
	}
	if msg, _ := converseWith(r, "tcp", "127.0.0.1:1", pack(t, "a.main.holdfast.internal.", dnsmessage.TypeA)); msg.RCode != none {
		t.Errorf("a after Set: got %v, want %v", msg.RCode, none)
	}
}

// The same through net.Resolver, with whatever resolv.conf this machine has.
func TestLookups(t *testing.T) {
	t.Parallel()
	net := testResolver().Resolver()
	for range 3 {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if got, err := net.LookupHost(t.Context(), "b.main.holdfast.internal"); err != nil || len(got) != 2 {
					t.Errorf("b: got %q, %v, want two addresses", got, err)
				}
				if got, err := net.LookupNetIP(t.Context(), "ip4", "b.main.holdfast.internal"); err != nil || !slices.Equal(got, addrs("10.0.0.2")) {
					t.Errorf("b: got %q, %v", got, err)
				}
				if got, err := net.LookupAddr(t.Context(), "2001:db8::2"); err != nil || !slices.Equal(got, []string{"b.main.holdfast.internal."}) {
					t.Errorf("PTR: got %q, %v", got, err)
				}
				if got, err := net.LookupHost(t.Context(), "d.main.holdfast.internal"); !notFound(err) {
					t.Errorf("d: got %q, %v, want not found", got, err)
				}
			})
		}
		all.Wait()
	}
}

func notFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

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
	if err != nil {
		t.Fatal(err)
	}
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
		buf := make([]byte, maxFrame)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := s.take("udp", buf[:n]); reply != nil {
				// Forged replies come first: another id, another question, no reply at all.
				other := slices.Clone(reply)
				other[1]++
				for _, p := range [][]byte{other, pack(t, "other.example.", dnsmessage.TypeA), slices.Clone(buf[:n]), {1}, reply} {
					_, _ = packets.WriteTo(p, from)
				}
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
	h, q, ok := question(query)
	if !ok {
		return nil
	}
	msg := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, Truncated: truncated}, Questions: []dnsmessage.Question{q}}
	for i := range n {
		msg.Answers = append(msg.Answers, resource(dnsmessage.Question{Name: q.Name, Type: dnsmessage.TypeA},
			&dnsmessage.AResource{A: [4]byte{192, 0, byte(i >> 8), byte(i)}}))
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
	msg, err := converseWith(testResolver(), "udp", s.address, pack(t, "big.example.", dnsmessage.TypeA))
	if err != nil || msg.Truncated || len(msg.Answers) != n {
		t.Errorf("got %d answers, truncated %v, %v; want %d", len(msg.Answers), msg.Truncated, err, n)
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
	query := pack(t, "example.com.", dnsmessage.TypeA)
	frame := append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	read := func(ctx context.Context, end func(net.Conn)) error {
		conn, err := testResolver().dial(ctx, "udp", mute.address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		end(conn)
		_, err = conn.Read(make([]byte, 10))
		return err
	}
	began := time.Now()
	err := read(t.Context(), func(c net.Conn) { _ = c.SetDeadline(time.Now().Add(50 * time.Millisecond)) })
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("deadline: got %v, want a timeout", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := read(ctx, func(net.Conn) {}); err == nil {
		t.Error("context: got no error")
	}
	if err := read(t.Context(), func(c net.Conn) { time.AfterFunc(50*time.Millisecond, func() { _ = c.Close() }) }); err == nil {
		t.Error("close: got no error")
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("three ends took %v", took)
	}
}

func TestExchange(t *testing.T) {
	t.Parallel()
	conn, err := testResolver().dial(t.Context(), "udp", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := conn.(net.PacketConn); ok {
		t.Error("it is a net.PacketConn: net.Resolver would not frame")
	}
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("reading without a query: got %v, want %v", err, io.EOF)
	}
	// Two queries, byte by byte; the replies, three bytes at a time.
	query := pack(t, "a.main.holdfast.internal.", dnsmessage.TypeA)
	frame := append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	for _, b := range append(frame, frame...) {
		if _, err := conn.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	var got []byte
	buf := make([]byte, 3)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			break
		}
		got = append(got, buf[:n]...)
	}
	size := int(binary.BigEndian.Uint16(got)) + 2
	if len(got) != 2*size || string(got[:size]) != string(got[size:]) {
		t.Errorf("got %d bytes, want twice %d equal ones", len(got), size)
	}
	if _, err := conn.Write(make([]byte, 3+maxFrame)); err == nil {
		t.Error("more than a frame: got no error")
	}
	_ = conn.Close()
	if _, err := conn.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading after Close: got %v", err)
	}
	if _, err := conn.Write(frame); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing after Close: got %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	r := testResolver()
	if err := r.Check(t.Context()); err != nil {
		t.Fatalf("here: %v", err)
	}
	for text, want := range map[string]string{
		"127.0.0.1 localhost\n# 1.1.1.1 a.main.holdfast.internal\n1.1.1.1 b xmain.holdfast.internal\n": "",
		"127.0.0.1 localhost\n10.0.0.1 host A.main.Holdfast.internal. # old\n":                         "line 2 fixes the address of a.main.holdfast.internal",
		"10.0.0.1 main.holdfast.internal":                                                              "line 1",
	} {
		r.hosts = write(text)
		err := r.Check(t.Context())
		if (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), r.hosts)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	r.hosts = filepath.Join(t.TempDir(), "none")
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("no hosts file: %v", err)
	}

	// Something else answers: here, a resolver of another zone under the same net.Resolver.
	r.net = NewResolver("other.zone", zap.NewNop()).Resolver()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	r.nsswitch = write("passwd: files\nhosts:\tfiles myhostname # no more\n")
	if err := r.Check(ctx); err == nil || !strings.Contains(err.Error(), "add dns") || !strings.Contains(err.Error(), r.nsswitch) {
		t.Errorf("no dns in nsswitch.conf: got %v", err)
	}
	r.nsswitch = write("hosts: files dns\n")
	if err := r.Check(ctx); err == nil || !strings.Contains(err.Error(), "a name only holdfast knows") {
		t.Errorf("not our resolver: got %v", err)
	}
}

func FuzzLocal(f *testing.F) {
	f.Add(pack(f, "a.main.holdfast.internal.", dnsmessage.TypeA))
	f.Add(pack(f, "b.main.holdfast.internal.", dnsmessage.TypeAAAA))
	f.Add(pack(f, "1.0.0.10.in-addr.arpa.", dnsmessage.TypePTR))
	f.Add(pack(f, "example.com.", dnsmessage.TypeMX))
	r := testResolver()
	f.Fuzz(func(t *testing.T, query []byte) {
		reply, ok := r.local(query)
		if !ok {
			return
		}
		if !answers(reply, query) || truncated(reply) {
			t.Errorf("%x is answered with %x", query, reply)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	q := pack(f, "a.example.", dnsmessage.TypeA)
	f.Add(q, replyTo(q, 1, true))
	f.Fuzz(func(_ *testing.T, query, reply []byte) {
		if answers(reply, query) {
			truncated(reply)
		}
	})
}
