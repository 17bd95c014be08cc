package gossip

import (
	"bytes"
	"compress/lzw"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// recorder is the transport of a node whose every word somebody on the network writes down.
type recorder struct {
	*memberlist.NetTransport

	mu      sync.Mutex
	packets [][]byte
	streams []*bytes.Buffer
}

func (r *recorder) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	r.mu.Lock()
	r.packets = append(r.packets, bytes.Clone(b))
	r.mu.Unlock()
	return r.NetTransport.WriteToAddress(b, a)
}

func (r *recorder) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := r.NetTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	said := &bytes.Buffer{}
	r.mu.Lock()
	r.streams = append(r.streams, said)
	r.mu.Unlock()
	return recorded{conn, r, said}, nil
}

type recorded struct {
	net.Conn
	r    *recorder
	said *bytes.Buffer
}

func (c recorded) Write(p []byte) (int, error) {
	c.r.mu.Lock()
	c.said.Write(p)
	c.r.mu.Unlock()
	return c.Conn.Write(p)
}

// all returns copies of what was said so far.
func (r *recorder) all() (packets, streams [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.packets {
		packets = append(packets, bytes.Clone(p))
	}
	for _, s := range r.streams {
		streams = append(streams, bytes.Clone(s.Bytes()))
	}
	return packets, streams
}

// tapped joins a node to a's mesh that is recorded. key is 0 for none.
func tapped(t *testing.T, a *member, self Meta, key byte) (*recorder, *memberlist.Memberlist) {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	inner, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{BindAddrs: []string{"127.0.0.1"}, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{NetTransport: inner}
	conf := memberlist.DefaultLocalConfig()
	conf.Name, conf.Label, conf.EnableCompression = self.process(), a.label, false
	conf.Transport, conf.AdvertiseAddr, conf.AdvertisePort = r, "127.0.0.1", inner.GetAutoBindPort()
	conf.Delegate, conf.Logger = foreign{meta: encode(self), state: encode(words{})}, quiet
	if key != 0 {
		if conf.Keyring, err = memberlist.NewKeyring(nil, bytes.Repeat([]byte{key}, 32)); err != nil {
			t.Fatal(err)
		}
	}
	list, err := memberlist.Create(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := list.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	if _, err := list.Join([]string{a.Address().String()}); err != nil {
		t.Fatal(err)
	}
	await(t, "the recorded node is seen", 5*time.Second, sees(a, self.Node))
	return r, list
}

// say opens a stream from somewhere else, says something and returns when the other side hangs up.
func say(t *testing.T, a *member, words []byte) {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}).Dial("tcp", a.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = conn.Write(words) // it may have hung up already
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// Nobody without the key may end a process: memberlist panics at a recorded message whose first byte was changed.
func TestAlteredRecordingsDoNoHarm(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), keyed(t, nil, 'x'))
	r, list := tapped(t, a, node("b"), 'x')
	if err := list.SendReliable(destination(a.self, a.Address()), encode(answer{Body: bytes.Repeat([]byte{0xff}, 20)})); err != nil {
		t.Fatal(err)
	}
	await(t, "b has acknowledged probes", 10*time.Second, func() bool { p, _ := r.all(); return len(p) > 8 })
	packets, streams := r.all()
	before := count(t, a.series.rejected.WithLabelValues(reasonKey))
	wire, behind := dialUDP(t, a), 2+len(a.label)
	for _, p := range packets {
		p[behind] = 0
		if _, err := wire.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range streams {
		s[behind+5] = 0
		say(t, a, s)
	}
	await(t, "all refused", 5*time.Second, func() bool {
		return count(t, a.series.rejected.WithLabelValues(reasonKey))-before >= float64(len(packets)+len(streams))
	})
	if !sees(a, "b")() {
		t.Errorf("nodes: got %v", a.Nodes())
	}
}

func TestReplayChangesNothing(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]byte{"with a key": 'x', "in the clear": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a *member
			if key == 0 {
				a = start(t, "main", node("a"), nil)
			} else {
				a = start(t, "main", node("a"), keyed(t, nil, key))
			}
			self := node("b")
			r, list := tapped(t, a, self, key)
			to := destination(a.self, a.Address())
			for seq, state := range []string{"old", "new"} {
				if err := list.SendReliable(to, encode(words{entries: []entry{{Meta: self, Seq: uint64(seq + 1), State: []byte(state)}}})); err != nil {
					t.Fatal(err)
				}
				await(t, state, 5*time.Second, says(a, "b", state))
			}
			await(t, "some packets", 10*time.Second, func() bool { p, _ := r.all(); return len(p) > 8 })
			want, _ := find(a, "b")
			packets, streams := r.all()
			wire := dialUDP(t, a)
			for range 3 {
				for _, p := range packets {
					_, _ = wire.Write(p)
				}
				for _, s := range slices.Backward(streams) { // the oldest word last
					say(t, a, s)
				}
			}
			got, _ := find(a, "b")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after the replay: got %+v, want %+v", got, want)
			}
			if n := a.logs.FilterMessage("lost node").Len(); n != 0 {
				t.Errorf("b was lost %d times", n)
			}
		})
	}
}

// labelled puts a's label before a message.
func labelled(a *member, msg ...byte) []byte {
	return append(append([]byte{typeLabel, byte(len(a.label))}, a.label...), msg...)
}

// bomb is a compressed message of memberlist that grows to size bytes.
func bomb(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 8)
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	msg := append([]byte{typeCompress, 0x82, 0xa4}, "Algo\x00\xa3Buf\xda"...)
	return append(binary.BigEndian.AppendUint16(msg, uint16(b.Len())), b.Bytes()...)
}

// grown returns what was allocated meanwhile, in bytes, by anybody.
func grown(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Not parallel: it measures what the process allocates.
func TestLargeWordsTakeNoMemory(t *testing.T) {
	a := start(t, "main", node("a"), nil)
	for name, msg := range map[string][]byte{
		"nodes":              append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\xce\x00\x10\x00\x00\xacUserStateLen\x00\xa4Join\xc2"...),
		"a state":            append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x00\xacUserStateLen\xce\x01\x3f\xff\xff\xa4Join\xc2"...),
		"a user's message":   append([]byte{typeUser, 0x81, 0xaa}, "UserMsgLen\xce\x01\x3f\xff\xff"...),
		"a key twice":        append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x00\xa5Nodes\xce\x00\x10\x00\x00\xa4Join\xc2"...),
		"a compressed one":   bomb(t, 30<<20),
		"a negative number":  append([]byte{typeUser, 0x81, 0xaa}, "UserMsgLen\xd0\x80"...),
		"a key of 4 GiB":     append([]byte{typePushPull, 0x83}, 0xdb, 0xff, 0xff, 0xff, 0xff),
		"a name of 4 GiB":    append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x01\xacUserStateLen\x00\xa4Join\xc2\x81\xa4Name\xdb\xff\xff\xff\xff"...),
		"a meta of 4 GiB":    append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x01\xacUserStateLen\x00\xa4Join\xc2\x81\xa4Meta\xc6\xff\xff\xff\xff"...),
		"versions of 4 GiB":  append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x01\xacUserStateLen\x00\xa4Join\xc2\x81\xa3Vsn\xdd\xff\xff\xff\xff"...),
		"an encrypted 4 GiB": {typeEncrypt, 0xff, 0xff, 0xff, 0xff, 1},
		"nodes without end": append([]byte("\x06\x83\xa5Nodes\xce\x00\x0f\xff\xff\xacUserStateLen\x00\xa4Join\xc2"),
			bytes.Repeat([]byte{0x80}, 1<<20)...),
	} {
		if got := grown(func() { say(t, a, labelled(a, msg...)) }); got > 4<<20 {
			t.Errorf("%s: %d bytes were allocated", name, got)
		}
	}
	wire := dialUDP(t, a)
	compound := func(parts ...[]byte) []byte {
		msg := []byte{typeCompound, byte(len(parts))}
		for _, p := range parts {
			msg = binary.BigEndian.AppendUint16(msg, uint16(len(p)))
		}
		return append(msg, bytes.Join(parts, nil)...)
	}
	small := bomb(t, 30<<20)
	for name, msg := range map[string][]byte{
		"a packet":         small,
		"in a compound":    compound([]byte{typeAck}, small[:min(len(small), 60<<10)]),
		"a compound in it": compound(compound(small)),
	} {
		before := count(t, a.series.rejected.WithLabelValues(reasonUnreadable))
		if got := grown(func() {
			if _, err := wire.Write(labelled(a, msg...)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			await(t, name+" is refused", 5*time.Second, func() bool { return count(t, a.series.rejected.WithLabelValues(reasonUnreadable)) > before })
		}); got > 4<<20 {
			t.Errorf("%s: %d bytes were allocated", name, got)
		}
	}
}

// Nobody announces too much: all of it comes. The decoder would hold one value of 18 MiB more than 30 times over.
func TestLargeValuesTakeNoMemory(t *testing.T) {
	const size = 18 << 20
	large := func(before string) []byte { // a string behind what begins a value
		return append(binary.BigEndian.AppendUint32([]byte(before+"\xdb"), size), make([]byte, size)...)
	}
	for name, process := range map[string][]byte{"a name": large("\x81\xa4Name"), "a meta": large("\x81\xa4Meta"),
		"a key": large("\x81"), "what is not known": large("\x81\xa1X")} {
		msg := append([]byte("\x06\x83\xa5Nodes\x01\xacUserStateLen\x00\xa4Join\xc2"), process...)
		var err error
		got := grown(func() { err = heardFrom("", msg, maxStream).check() })
		if got > 1<<20 || !errors.Is(err, errHeader) {
			t.Errorf("%s of a process: %d bytes were allocated, and got %v", name, got, err)
		}
	}
	many := []byte("\x06\x83\xa5Nodes\xd1\x0f\xff\xacUserStateLen\x00\xa4Join\xc2")
	for range 0xfff {
		many = append(append(many, "\x81\xa4Meta\xc5\x07\x00"...), make([]byte, 0x700)...)
	}
	rest := bytes.NewReader(many)
	err := rules{}.stream(said{Reader: rest}, Speaker{RoleNode, "a"}, nil, maxStranger, func() {}).check()
	if read := len(many) - rest.Len(); !errors.Is(err, errHeader) || read < maxStranger || read > maxStranger+4<<10 {
		t.Errorf("more processes than a stranger may tell: got %v, %d bytes were read", err, read)
	}
	for name, word := range map[string][]byte{"a name": large("\x81\xa4Node"), "a state": large("\x81\xa5State"),
		"a proof": large("\x81\xa5Proof"), "an address": large("\x81\xa7Address"), "a key": large("\x81")} {
		msg := append(append(encode(words{})[:2], "\x82\xa7Entries\x01\xa9Forgotten\x00"...), word...)
		var err error
		if got := grown(func() { _, err = decode(msg) }); got > 1<<20 || err == nil {
			t.Errorf("%s of a word: %d bytes were allocated, and got %v", name, got, err)
		}
	}
	var all words // as large as any
	for i := range maxNodes {
		m := node(fmt.Sprintf("%0*d", maxNode, i))
		all.entries = append(all.entries, entry{Meta: m, State: make([]byte, maxState), Proof: make([]byte, maxProof)})
	}
	whole := encode(all)
	msg := append(binary.BigEndian.AppendUint32([]byte("\x06\x83\xa5Nodes\x00\xacUserStateLen\xce"), uint32(len(whole))),
		append([]byte("\xa4Join\xc2"), whole...)...)
	in := heardFrom("a", msg, maxStream)
	if got := grown(func() {
		if err = in.check(); err == nil {
			_, err = decode(whole)
		}
	}); got > 128<<20 || err != nil {
		t.Errorf("the largest words: %d bytes were allocated, %v", got, err)
	}
	if out, err := io.ReadAll(in); err != nil || !bytes.HasSuffix(out, append([]byte("\x00\x00\x00\x01a"), whole...)) {
		t.Errorf("the largest words: %d bytes are left, %v", len(out), err)
	}
}

// heardFrom is a stream on which a node, "" for anyone, says something without a label.
func heardFrom(node string, msg []byte, limit int) *stream {
	return rules{}.stream(said{Reader: bytes.NewReader(msg)}, Speaker{RoleNode, node}, nil, limit, func() {})
}

// Who holds streams open keeps nobody of the mesh out, and not many are taken.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), keyed(t, nil, 'x'))
	before := count(t, a.series.rejected.WithLabelValues(reasonFull))
	const tried = 100
	for i := range tried {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i%10+1))}}).Dial("tcp", a.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte{typeLabel}); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
	}
	await(t, "the rest is refused", 5*time.Second, func() bool {
		return count(t, a.series.rejected.WithLabelValues(reasonFull))-before >= tried-maxStrangers
	})
	b := start(t, "main", node("b"), keyed(t, []*member{a}, 'x'))
	await(t, "b sees a", 5*time.Second, sees(b, "a"))
	await(t, "memberlist ends those that say nothing", 10*time.Second, func() bool {
		return open(&a.streams.strangers) == 0
	})
	conn, err := net.Dial("tcp", a.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(handshakeTime * 7 / 4))
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a connection without a first byte: got %v, want its end", err)
	}
}

// Who opens connections from some addresses, says nothing, and opens another for each that ends, keeps no newcomer out.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, prepare := range map[string]func(*Mesh){
		"in the clear": func(*Mesh) {}, "over TLS": func(m *Mesh) { m.UseTLS(papersOf(t, ca, nodeName).tls()) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := launch(t, "main", node("a"), nil, prepare)
			ctx, stop := context.WithCancel(t.Context())
			var flood sync.WaitGroup
			defer flood.Wait()
			defer stop()
			for i := range 4 * (maxOfOne/2 + 8) {
				by := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 5, byte(i%4+1))}}
				flood.Go(func() {
					for ctx.Err() == nil {
						if conn, err := by.DialContext(ctx, "tcp", a.Address().String()); err == nil {
							end := context.AfterFunc(ctx, func() { _ = conn.Close() })
							_, _ = conn.Read(make([]byte, 1))
							end()
							_ = conn.Close()
						}
						time.Sleep(10 * time.Millisecond) // the pace of the attack
					}
				})
			}
			await(t, "all places are taken", 5*time.Second, func() bool { return rejected(t, a, reasonFull) > 0 })
			b := launch(t, "main", node("b"), func(c *Config) { c.Listen = "127.0.5.99:0"; seeded(a)(c) }, prepare)
			await(t, "b sees a", 5*time.Second, sees(b, "a"))
		})
	}
}

// open is how many are in.
func open(d *door) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// At a door that yields the newest are in: of one peer, and of all. At the observers' those that came first are.
func TestDoor(t *testing.T) {
	t.Parallel()
	closed := 0
	d := door{each: 2, all: 5, yield: func(conn net.Conn) { closed++ }}
	type named struct {
		net.Conn
		name string
	}
	in := func() (names string) {
		for _, g := range d.open {
			names += g.conn.(named).name + " "
		}
		return names
	}
	for i, c := range []struct{ of, want string }{{"a", "a0 "}, {"a", "a0 a1 "}, {"a", "a1 a2 "}, {"b", "a1 a2 b3 "}, {"a", "a2 b3 a4 "},
		{"c", "a2 b3 a4 c5 "}, {"d", "a2 b3 a4 c5 d6 "}, {"e", "b3 a4 c5 d6 e7 "}, {"d", "a4 c5 d6 e7 d8 "}, {"d", "a4 c5 e7 d8 d9 "}} {
		if err := d.enter(c.of, named{name: fmt.Sprint(c.of, i)}); err != nil || in() != c.want {
			t.Errorf("%d: %v, %s are in, want %s", i, err, in(), c.want)
		}
	}
	d.yield, d.full = nil, errBusy
	if d.enter("d", named{name: "d"}) == nil || d.enter("f", named{name: "f"}) == nil || closed != 5 {
		t.Errorf("one more was let in, or %d had to yield", closed)
	}
	if d.leave(named{name: "e7"}); d.enter("f", named{name: "f"}) != nil || in() != "a4 c5 d8 d9 f " {
		t.Errorf("after one has left: %s are in", in())
	}
}

// A node opens its streams from the address where it listens: from another of the machine's it would be a stranger to
// its own mesh, of whom few streams are taken.
func TestStreamsComeFromWhereWeListen(t *testing.T) {
	came := make(chan net.Addr, 1)
	open := func(at string, known func(netip.Addr) bool) *transport {
		r := rules{known: known, refused: func(net.Addr, error) {}}
		tr, err := listen(t.Context(), netip.MustParseAddrPort(at), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tr.Shutdown() })
		return tr
	}
	server := open("127.31.7.1:0", func(ip netip.Addr) bool { came <- &net.IPAddr{IP: ip.AsSlice()}; return true })
	client := open("127.31.7.2:0", nil)
	conn, err := client.DialTimeout(fmt.Sprintf("127.31.7.1:%d", server.GetAutoBindPort()), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := (<-came).String(); got != "127.31.7.2" {
		t.Errorf("the stream came from %s, want the address where the node listens", got)
	}
}
