package gossip

import (
	"bytes"
	"compress/lzw"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
)

// say opens a connection from somewhere else, says something and returns when the other side hangs up.
func say(t *testing.T, a *member, words []byte) {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}).Dial("tcp", a.Address().String())
	must(t, err)
	defer conn.Close()
	_, _ = conn.Write(words) // it may have hung up already
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// recorded joins a node to a's mesh over a wire on which somebody writes down every byte to a.
func recorded(t *testing.T, a *member) (b *member, recordings func() [][]byte) {
	t.Helper()
	tap, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var mu sync.Mutex
	var all []*bytes.Buffer
	var wires sync.WaitGroup
	wires.Go(func() {
		for {
			from, err := tap.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", a.Address().String())
			if err != nil {
				_ = from.Close()
				continue
			}
			said := &bytes.Buffer{}
			mu.Lock()
			all = append(all, said)
			mu.Unlock()
			wires.Go(func() {
				for p := make([]byte, 64<<10); ; {
					n, err := from.Read(p)
					mu.Lock()
					said.Write(p[:n])
					mu.Unlock()
					if _, wrong := to.Write(p[:n]); err != nil || wrong != nil {
						_ = to.(*net.TCPConn).CloseWrite()
						return
					}
				}
			})
			wires.Go(func() { _, _ = io.Copy(from, to); _, _ = from.Close(), to.Close() })
		}
	})
	b = start(t, "main", node("b"), func(c *Config) { c.Seeds = []string{tap.Addr().String()}; c.KeyFile = a.cfg.KeyFile })
	t.Cleanup(func() { b.stop(); _ = tap.Close(); wires.Wait() })
	return b, func() (out [][]byte) {
		mu.Lock()
		defer mu.Unlock()
		for _, said := range all {
			out = append(out, bytes.Clone(said.Bytes()))
		}
		return out
	}
}

// What was recorded on the wire is refused when it is said again, and changes nothing.
func TestReplayChangesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){"with a key": keyed(t, nil, 'x'), "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := start(t, "main", node("a"), change)
			b, recordings := recorded(t, a)
			await(t, "b sees a", patience, sees(b, "a"))
			b.Publish([]byte("fact"))
			await(t, "a hears b", patience, says(a, "b", "fact"))
			b.Publish([]byte("news"))
			await(t, "a hears b", patience, says(a, "b", "news"))
			want, _ := find(a, "b")
			said := recordings()
			before := rejected(t, a, reasonUnreadable)
			for range 3 {
				for _, s := range slices.Backward(said) { // the oldest word last
					say(t, a, s)
				}
			}
			if got, _ := find(a, "b"); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after the replay: got %+v, want %+v", got, want)
			}
			await(t, "each recording is refused", patience, func() bool { return rejected(t, a, reasonUnreadable)-before >= 3 })
		})
	}
}

// keyless are the papers in a mesh without keys, which anyone can make.
func keyless() TLS {
	p := (&keyring{notices: newNotices(zap.NewNop(), nil)}).tls()
	p.label = "holdfast/main"
	return p
}

// anyone is a stranger to a mesh without keys.
func anyone(t *testing.T) *papers {
	t.Helper()
	own, err := keyless().Certificate()
	must(t, err)
	return &papers{cert: own}
}

// bomb is a compressed message of memberlist that grows to size bytes.
func bomb(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 8)
	if _, err := w.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
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
		"nodes":             append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\xce\x00\x10\x00\x00\xacUserStateLen\x00\xa4Join\xc2"...),
		"a state":           append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x00\xacUserStateLen\xce\x01\x3f\xff\xff\xa4Join\xc2"...),
		"a user's message":  append([]byte{typeUser, 0x81, 0xaa}, "UserMsgLen\xce\x01\x3f\xff\xff"...),
		"a key twice":       append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x00\xa5Nodes\xce\x00\x10\x00\x00\xa4Join\xc2"...),
		"a compressed one":  bomb(t, 30<<20),
		"a negative number": append([]byte{typeUser, 0x81, 0xaa}, "UserMsgLen\xd0\x80"...),
		"a key of 4 GiB":    append([]byte{typePushPull, 0x83}, 0xdb, 0xff, 0xff, 0xff, 0xff),
		"a name of 4 GiB":   append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x01\xacUserStateLen\x00\xa4Join\xc2\x81\xa4Name\xdb\xff\xff\xff\xff"...),
		"a meta of 4 GiB":   append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x01\xacUserStateLen\x00\xa4Join\xc2\x81\xa4Meta\xc6\xff\xff\xff\xff"...),
		"versions of 4 GiB": append([]byte{typePushPull, 0x83, 0xa5}, "Nodes\x01\xacUserStateLen\x00\xa4Join\xc2\x81\xa3Vsn\xdd\xff\xff\xff\xff"...),
		"nodes without end": append([]byte("\x06\x83\xa5Nodes\xce\x00\x0f\xff\xff\xacUserStateLen\x00\xa4Join\xc2"),
			bytes.Repeat([]byte{0x80}, 1<<18)...),
	} {
		if got := grown(func() { _ = attack(t, a, anyone(t), forStream, framed(msg)) }); got > 4<<20 {
			t.Errorf("%s: %d bytes were allocated", name, got)
		}
	}
	for name, frame := range map[string][]byte{"a frame of 4 GiB": {0xff, 0xff, 0xff, 0xff, typePing},
		"a stranger's frame": binary.BigEndian.AppendUint32(nil, maxStranger+1)} {
		before := rejected(t, a, reasonUnreadable)
		got := grown(func() { _ = attack(t, a, anyone(t), forStream, frame) })
		if got > 4<<20 || rejected(t, a, reasonUnreadable) == before {
			t.Errorf("%s: %d bytes were allocated, %v refused", name, got, rejected(t, a, reasonUnreadable)-before)
		}
	}
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
		before := rejected(t, a, reasonUnreadable)
		if got := grown(func() {
			_ = attack(t, a, anyone(t), forPackets, framed(msg), framed(nil))
			await(t, name+" is refused", patience, func() bool { return rejected(t, a, reasonUnreadable) > before })
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
		got := grown(func() { _, err = sift(msg, "") })
		if got > 1<<20 || !errors.Is(err, errHeader) {
			t.Errorf("%s of a process: %d bytes were allocated, and got %v", name, got, err)
		}
	}
	for name, word := range map[string][]byte{"a name": large("\x81\xa4Node"), "a state": large("\x81\xa5State"),
		"a proof": large("\x81\xa5Proof"), "an address": large("\x81\xa7Address"), "a key": large("\x81")} {
		msg := append([]byte("\x82\xa7Entries\x01\xa9Forgotten\x00"), word...)
		var err error
		if got := grown(func() { _, err = decodeWords(msg) }); got > 1<<20 || err == nil {
			t.Errorf("%s of a word: %d bytes were allocated, and got %v", name, got, err)
		}
	}
	var all words // as large as any
	for i := range maxNodes {
		m := node(fmt.Sprintf("%0*d", maxNode, i))
		all.entries = append(all.entries, entry{Meta: m, State: make([]byte, maxState), Proof: make([]byte, maxProof)})
	}
	whole := all.encode()
	msg := append(binary.BigEndian.AppendUint32([]byte("\x06\x83\xa5Nodes\x00\xacUserStateLen\xce"), uint32(len(whole))),
		append([]byte("\xa4Join\xc2"), whole...)...)
	var in io.Reader
	var err error
	said := framed(msg)
	if got := grown(func() {
		var frame []byte
		if frame, err = readFrame(bytes.NewReader(said), maxStream); err == nil {
			in, err = sift(frame, "a")
		}
		if err == nil {
			_, err = decodeWords(whole)
		}
	}); got > 128<<20 || err != nil {
		t.Errorf("the largest words: %d bytes were allocated, %v", got, err)
	}
	if out, err := io.ReadAll(in); err != nil || !bytes.HasSuffix(out, append([]byte("\x00\x00\x00\x01a"), whole...)) {
		t.Errorf("the largest words: %d bytes are left, %v", len(out), err)
	}
}

// Who holds streams open keeps nobody of the mesh out, and not many are taken.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	a := start(t, "main", node("a"), nil)
	before := rejected(t, a, reasonFull)
	by := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, 1)}}
	var all sync.WaitGroup
	for range 2 * maxOfAddress {
		all.Go(func() {
			if conn, err := keyless().dial(t.Context(), by, a.Address().String(), forStream, 5*time.Second); err == nil {
				t.Cleanup(conn.cut)
			}
		})
	}
	all.Wait()
	await(t, "the rest is refused", patience, func() bool { return rejected(t, a, reasonFull)-before >= maxOfAddress })
	b := start(t, "main", node("b"), seeded(a))
	await(t, "b sees a", patience, sees(b, "a"))
	await(t, "memberlist ends those that say nothing", 10*time.Second, func() bool {
		return open(&a.streams.strangers) == 0
	})
	conn, err := net.Dial("tcp", a.Address().String())
	must(t, err)
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
			await(t, "all places are taken", patience, func() bool { return rejected(t, a, reasonFull) > 0 })
			b := launch(t, "main", node("b"), func(c *Config) { c.Listen = "127.0.5.99:0"; seeded(a)(c) }, prepare)
			await(t, "b sees a", patience, sees(b, "a"))
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
		r := rules{papers: keyless(), known: known, refused: func(string, error) {}}
		tr, err := listen(t.Context(), netip.MustParseAddrPort(at), r)
		must(t, err)
		t.Cleanup(func() { _ = tr.Shutdown() })
		return tr
	}
	server := open("127.31.7.1:0", func(ip netip.Addr) bool { came <- &net.IPAddr{IP: ip.AsSlice()}; return true })
	client := open("127.31.7.2:0", nil)
	conn, err := client.DialTimeout(fmt.Sprintf("127.31.7.1:%d", server.GetAutoBindPort()), time.Second)
	must(t, err)
	defer conn.Close()
	if got := (<-came).String(); got != "127.31.7.2" {
		t.Errorf("the stream came from %s, want the address where the node listens", got)
	}
}
