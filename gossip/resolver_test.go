package gossip

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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

	"github.com/miekg/dns"
	"go.uber.org/zap"
	"golang.org/x/net/dns/dnsmessage"
)

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func testResolver() *Resolver {
	r := NewResolver("Main.Holdfast.Internal.", "", zap.NewNop())
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
	must(t, err)
	msg, err := b.Finish()
	must(t, err)
	return msg
}

// converseWith asks over a connection of the resolver's, as net.Resolver would ask the server.
func converseWith(r *Resolver, network, server string, query []byte) (msg dnsmessage.Message, err error) {
	conn, err := r.Resolver().Dial(context.Background(), network, server)
	if err != nil {
		return msg, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return msg, err
	}
	if _, over := conn.(net.PacketConn); over != (network == "udp") {
		return msg, errors.New("net.Resolver would not speak as over " + network)
	}
	if network == "tcp" {
		query = append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	}
	if _, err := conn.Write(query); err != nil {
		return msg, err
	}
	reply := make([]byte, 1<<16)
	n := 0
	if network == "udp" {
		n, err = conn.Read(reply)
	} else if _, err = io.ReadFull(conn, reply[:2]); err == nil {
		n, err = io.ReadFull(conn, reply[:binary.BigEndian.Uint16(reply)])
	}
	if err != nil {
		return msg, err
	}
	return msg, msg.Unpack(reply[:n])
}

// through is a net.Resolver that asks us, and one nameserver for the rest.
func through(r *Resolver, server string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return r.dial(ctx, network, server)
	}}
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
	var failed *net.DNSError
	return errors.As(err, &failed) && failed.IsNotFound
}

// What does not fit into a packet comes over TCP, as that of a nameserver would, and from us.
func TestOurLargeAnswers(t *testing.T) {
	t.Parallel()
	r, table := testResolver(), map[string][]netip.Addr{}
	for i := range 500 {
		table[fmt.Sprint("slot", i)] = addrs("10.0.0.1")
	}
	r.Set(table)
	for network, whole := range map[string]bool{"udp": false, "tcp": true} {
		msg, err := converseWith(r, network, "127.0.0.1:1", pack(t, "1.0.0.10.in-addr.arpa.", dnsmessage.TypePTR))
		if err != nil || msg.Truncated == whole || len(msg.Answers) == len(table) != whole {
			t.Errorf("%s: got %d names, truncated %t, %v", network, len(msg.Answers), msg.Truncated, err)
		}
	}
	if got, err := through(r, "127.0.0.1:1").LookupAddr(t.Context(), "10.0.0.1"); err != nil || len(got) != len(table) {
		t.Errorf("got %d names, %v, want %d", len(got), err, len(table))
	}
}

// One connection takes both: a query for us, one for the nameserver, and again one for us.
func TestExchange(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ string, query []byte) []byte { return replyTo(query, 1, false) })
	conn, err := testResolver().dial(t.Context(), "udp", s.address)
	must(t, err)
	buf := make([]byte, 512)
	if n, err := conn.Read(buf); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("without a query: got %x, %v", buf[:n], err)
	}
	var replies [][]byte
	for _, name := range []string{"a.main.holdfast.internal.", "example.com.", "a.main.holdfast.internal."} {
		if _, err := conn.Write(pack(t, name, dnsmessage.TypeA)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		must(t, err)
		replies = append(replies, bytes.Clone(buf[:n]))
	}
	if !bytes.Equal(replies[0], replies[2]) || bytes.Equal(replies[0], replies[1]) {
		t.Errorf("got %x, want the first and the third alike", replies)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading after Close: got %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		must(t, os.WriteFile(path, []byte(text), 0o644))
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
		r.hostsFile = write(text)
		err := r.Check(t.Context())
		if (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), r.hostsFile)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	r.hostsFile = filepath.Join(t.TempDir(), "none")
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("no hosts file: %v", err)
	}

	// Something else answers: here, a resolver of another zone under the same net.Resolver.
	r.net = NewResolver("other.zone", "", zap.NewNop()).Resolver()
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
		reply, ok := r.local(query, dns.MaxMsgSize)
		if !ok {
			return
		}
		var asked, got dns.Msg
		if err := errors.Join(asked.Unpack(query), got.Unpack(reply)); err != nil || got.Id != asked.Id || !got.Response ||
			got.Truncated || !slices.Equal(got.Question, asked.Question) {
			t.Errorf("%x is answered with %x", query, reply)
		}
	})
}

// The names of a pattern are answered like those of the zone, and its other names are forwarded.
func TestResolverOfPattern(t *testing.T) {
	for _, hosts := range []string{"etcd-{slot}.internal.example.com", "x--{slot}.internal.example.com", "x.y--{slot}-z.example.com"} {
		r := NewResolver("main.internal.example.com", hosts, zap.NewNop())
		r.hostsFile = filepath.Join(t.TempDir(), "none")
		r.Set(map[string][]netip.Addr{"a": addrs("10.0.0.1")})
		at := func(slot string) string { return strings.Replace(hosts, "{slot}", slot, 1) }
		for _, name := range []string{at("a"), strings.ToUpper(at("a")), "a.main.internal.example.com"} {
			got, err := r.Resolver().LookupNetIP(t.Context(), "ip4", name+".")
			if err != nil || !slices.Equal(got, addrs("10.0.0.1")) {
				t.Errorf("%s: %s is %v, %v", hosts, name, got, err)
			}
		}
		for name, want := range map[string]bool{at("a"): true, at("b"): true, at("b") + ".corp.example.com": true,
			at(""): false, at("a.b"): false, "x" + at("a"): false, at("a") + "m": false, "api.internal.example.com": false} {
			if _, ours := r.local(pack(t, name+".", dnsmessage.TypeA), dns.MaxMsgSize); ours != want {
				t.Errorf("%s: %s is ours: %t, want %t", hosts, name, ours, want)
			}
		}
		path := filepath.Join(t.TempDir(), "hosts")
		r.hostsFile = path
		for line, want := range map[string]bool{"10.0.0.9 " + at("a"): false, "10.0.0.9 " + at("unknown"): true} {
			must(t, os.WriteFile(path, []byte(line+"\n"), 0o600))
			if err := r.Check(t.Context()); (err == nil) != want {
				t.Errorf("%s: line %q: got %v", hosts, line, err)
			}
		}
	}
}
