package gossip

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// attack connects to a over TLS with some papers, from another address of the machine, says something once the
// handshake is over, and returns why the connection ended.
func attack(t *testing.T, a *member, p *papers, purpose string, words ...[]byte) error {
	t.Helper()
	raw, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 66)}}).Dial("tcp", a.Address().String())
	must(t, err)
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{a.papers.protocol(purpose)},
		MinVersion: tls.VersionTLS12}
	if p != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.tls().Certificate() }
	}
	conn := tls.Client(raw, conf)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	for _, w := range words {
		if _, err := conn.Write(w); err != nil {
			return err
		}
	}
	if len(words) == 0 {
		if err := conn.Handshake(); err != nil {
			return err
		}
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func rejected(t *testing.T, m *member, reason string) float64 {
	t.Helper()
	return count(t, m.rejected.WithLabelValues(reason))
}

// Nothing is let in that has not shown a certificate of the mesh, and anyone who tries is reported.
func TestStrangersAreKeptOut(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	with := func(cert *tls.Certificate) *papers { p := &papers{}; p.set(cert, ca); return p }
	ends := time.Now().Add(time.Hour)
	for name, p := range map[string]*papers{
		"no certificate":      nil,
		"a foreign authority": with(other.issue(t, nodeName, ends)),
		"expired":             with(ca.issue(t, nodeName, time.Now().Add(-time.Minute))),
		"another name":        with(ca.issue(t, "client.test", ends)),
		"for servers only":    with(ca.issue(t, nodeName, ends, x509.ExtKeyUsageServerAuth)),
	} {
		for _, protocol := range []string{forPackets, forStream} {
			before := rejected(t, a, reasonCertificate)
			if err := attack(t, a, p, protocol, []byte("hello")); err == nil {
				t.Errorf("%s: was answered", name)
			}
			await(t, name+" is counted", patience, func() bool { return rejected(t, a, reasonCertificate) > before })
		}
	}
	before := rejected(t, a, reasonCluster)
	if err := attack(t, a, papersOf(t, ca, nodeName), "h2"); err == nil {
		t.Error("another protocol was agreed on")
	}
	await(t, "another protocol is counted", patience, func() bool { return rejected(t, a, reasonCluster) > before })
	before = rejected(t, a, reasonUnreadable)
	// One after the other: of an address, the last problem is told.
	say(t, a, []byte{typePing})
	await(t, "what is cut short is counted", patience, func() bool { return rejected(t, a, reasonUnreadable) > before })
	say(t, a, bytes.Repeat([]byte{0}, 64<<10))
	await(t, "what is no TLS is counted", patience, func() bool { return rejected(t, a, reasonUnreadable) > before+1 })
	await(t, "and told of", patience, complains(a, errNoTLS.Error()))
	if n := len(a.Nodes()); n != 1 {
		t.Errorf("%d nodes", n)
	}

	// Neither does a node believe who answers in the place of another one.
	b := startTLS(t, node("b"), papersOf(t, other, nodeName), a)
	await(t, "b complains", patience, complains(b, errCertificate.Error()))
	await(t, "a complains", patience, func() bool { return complains(a, errCertificate.Error())() || complains(a, errRefusesUs.Error())() })
	strangers(t, a, b)
}

// Who opens connections and says nothing, or too little, holds few of them, for seconds, and keeps nobody out.
func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	const from, tried = 5, 300
	for i := range tried {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i%from+1))}}).Dial("tcp", a.Address().String())
		must(t, err)
		defer conn.Close()
		if i%2 == 0 {
			_, _ = conn.Write([]byte{0x16, 0x03, 0x01, 0x02}) // the beginning of a ClientHello
		}
	}
	await(t, "the rest is refused", patience, func() bool { return rejected(t, a, reasonFull) >= tried-from*maxOfOne/2 })
	b := startTLS(t, node("b"), papersOf(t, ca, nodeName), a)
	await(t, "b sees a", patience, sees(b, "a"))
	await(t, "those that say nothing are gone", 10*time.Second, func() bool {
		return open(&a.streams.unproven) == 0
	})
	if !complains(a, errSlow.Error())() {
		t.Errorf("problems: %q", a.Problems())
	}
}

// Frames that are too large, empty or cut short end their own connection, and nothing else.
func TestFramesAreBounded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	p := papersOf(t, ca, nodeName)
	for name, words := range map[string][]byte{
		"too large":        {0xff, 0xff, 1, 2, 3},
		"empty":            {0, 0, 0, 0},
		"just above":       binary.BigEndian.AppendUint32(nil, maxPacket+1),
		"a bomb in packet": nil,
	} {
		before := rejected(t, a, reasonUnreadable)
		if words == nil {
			words = append(framed(bomb(t, 30<<10)), 0, 0, 0, 0)
		}
		if err := attack(t, a, p, forPackets, words); err == nil {
			t.Errorf("%s: was answered", name)
		}
		await(t, name+" is counted", patience, func() bool { return rejected(t, a, reasonUnreadable) > before })
	}
	for _, cut := range [][]byte{{0}, {0, 0, 0, 9, 1}} { // it hangs up in the middle
		raw, err := tls.Dial("tcp", a.Address().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{a.papers.protocol(forPackets)},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.tls().Certificate() }})
		must(t, err)
		if _, err := raw.Write(cut); err != nil {
			t.Fatal(err)
		}
		raw.Close()
	}
	await(t, "no connection is left", patience, func() bool {
		return open(&a.streams.inside) == 0
	})
	b := startTLS(t, node("b"), papersOf(t, ca, nodeName), a)
	await(t, "b sees a", patience, sees(b, "a"))
}

// message is one of memberlist.
func message(t *testing.T, kind byte, what any) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteByte(kind)
	must(t, codec.NewEncoder(&b, &codec.MsgpackHandle{}).Encode(what))
	return b.Bytes()
}

// Anyone who has stolen an observer's certificate hears everything, and changes nothing.
func TestStolenObserverCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	b := startTLS(t, node("b"), papersOf(t, ca, nodeName), a)
	await(t, "a sees b", patience, sees(a, "b"))
	await(t, "b sees a", patience, sees(b, "a"))
	b.Publish([]byte("fact"))
	await(t, "a hears b", patience, says(a, "b", "fact"))
	want, _ := find(a, "b")
	thief := papersOf(t, ca, watcherName)

	vsn := []uint8{1, 5, 2, 2, 5, 4}
	ghost := node("ghost")
	high := uint32(1<<32 - 1)
	at := net.IPv4(127, 0, 0, 66).To4()
	forged := [][]byte{
		message(t, typeDead, map[string]any{"Incarnation": high, "Node": b.self.process(), "From": b.self.process()}),
		message(t, typeDead, []any{high, b.self.process(), b.self.process()}),
		message(t, typeSuspect, map[string]any{"Incarnation": high, "Node": b.self.process(), "From": a.self.process()}),
		message(t, typeSuspect, []any{high, b.self.process(), a.self.process()}),
		message(t, typeAlive, map[string]any{"Incarnation": 7, "Node": ghost.process(), "Addr": at, "Port": 1, "Meta": encode(ghost), "Vsn": vsn}),
		message(t, typeAlive, map[string]any{"Incarnation": high, "Node": b.self.process(), "Addr": at, "Port": 1, "Meta": encode(b.self), "Vsn": vsn}),
		append([]byte{typeUser}, words{entries: []entry{{Meta: b.self, Seq: 99, State: []byte("forged")}}}.encode()...),
	}
	compound := append([]byte{typeCompound, byte(len(forged))}, make([]byte, 2*len(forged))...)
	for i, m := range forged {
		binary.BigEndian.PutUint16(compound[2+2*i:], uint16(len(m)))
		compound = append(compound, m...)
	}
	var frames [][]byte
	for _, m := range append(forged, compound) {
		frames = append(frames, framed(m))
	}
	for range 3 {
		before := rejected(t, a, reasonCertificate)
		if err := attack(t, a, thief, forPackets, frames...); err == nil {
			t.Error("packets were answered")
		}
		await(t, "packets are refused", patience, func() bool { return rejected(t, a, reasonCertificate) > before })
	}
	user := words{entries: []entry{{Meta: b.self, Seq: 99, State: []byte("forged")}}}.encode()
	_ = attack(t, a, thief, forStream, framed(append(message(t, typeUser, userMessage{len(user)}), user...)))
	await(t, "a message for the delegate is refused", patience, func() bool { return rejected(t, a, reasonCertificate) > 3 })
	state := words{entries: []entry{{Meta: b.self, Seq: 99, State: []byte("forged")}}}.encode()
	before := rejected(t, a, reasonCertificate)
	msg := append(message(t, typePushPull, pushPull{UserStateLen: len(state), Join: true}), state...)
	_ = attack(t, a, thief, forStream, framed(msg))
	await(t, "a push/pull with a state is refused", patience, func() bool { return rejected(t, a, reasonCertificate) > before })
	list := message(t, typePushPull, map[string]any{"Nodes": 2, "UserStateLen": 0, "Join": true})
	for _, p := range []pushed{{ghost.process(), at, 1, encode(ghost), 5, 0, vsn}, {b.self.process(), at, 1, encode(b.self), high, 3, vsn}} {
		list = append(list, message(t, 0, p)[1:]...)
	}
	before = rejected(t, a, reasonCertificate)
	_ = attack(t, a, thief, forStream, framed(list))
	await(t, "a push/pull is refused", patience, func() bool { return rejected(t, a, reasonCertificate) > before })
	// What it says after it was let in as an observer is not read.
	greeting := framed(encode(watcher("thief")))
	if err := attack(t, a, thief, forObserver, append(greeting, framed(user)...), append(frames[0], user...)); err != nil {
		t.Errorf("an observer that says more: got %v, want an answer", err)
	}
	before = rejected(t, a, reasonUnreadable)
	_ = attack(t, a, thief, forObserver, framed(user))
	await(t, "words instead of a greeting are refused", patience, func() bool { return rejected(t, a, reasonUnreadable) > before })
	_ = attack(t, a, thief, forObserver)
	await(t, "who never greets is reported", patience, complains(a, errSlow.Error()))
	await(t, "and leaves its room", patience, func() bool { return open(&a.streams.observers) == 0 })

	// What is believed shows within a probe and a suspicion.
	began := time.Now()
	await(t, "a suspicion to pass", 10*time.Second, func() bool { return time.Since(began) > 4*time.Second })
	for _, m := range []*member{a, b} {
		if n := m.logs.FilterMessage("lost node").Len(); n != 0 {
			t.Errorf("%s has lost %d nodes", m.self.Node, n)
		}
		if len(m.Nodes()) != 2 {
			t.Errorf("%s knows %+v", m.self.Node, m.Nodes())
		}
	}
	if got, _ := find(a, "b"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Anyone who has stolen the certificate of a node takes only that node's room, from however many addresses it comes.
func TestOneCertificateTakesItsOwnRoom(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	thief := papersOf(t, ca, bound("thief")).tls()
	for i := range maxOfOne + 10 {
		by := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 7, byte(1+i%8))}}
		conn, err := thief.dial(t.Context(), by, a.Address().String(), forPackets, 5*time.Second)
		must(t, err)
		t.Cleanup(conn.cut)
	}
	await(t, "one more has to yield", patience, func() bool { return rejected(t, a, reasonFull) >= 10 })
	if n := open(&a.streams.inside); n > maxOfOne {
		t.Errorf("%d connections are open", n)
	}
	b := startBound(t, ca, node("b"), a)
	await(t, "b sees a", patience, sees(b, "a"))
}

// Packets to a node go to nobody who has another one's certificate, and a link to which nobody answers takes no room.
func TestPacketsOnlyToTheNode(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, thief := startBound(t, ca, node("a")), startBound(t, ca, node("thief"))
	await(t, "both listen", patience, func() bool { return a.Address().IsValid() && thief.Address().IsValid() })
	to := func(m *member, name string) {
		t.Helper()
		at := memberlist.Address{Addr: m.Address().String(), Name: name}
		if _, err := a.streams.WriteToAddress([]byte("packet"), at); err != nil {
			t.Fatal(err)
		}
	}
	to(thief, node("ghost").process())
	links := func() int { a.streams.links.mu.Lock(); defer a.streams.links.mu.Unlock(); return len(a.streams.to) }
	await(t, "the link ends", patience, func() bool { return links() == 0 })
	if n := open(&thief.streams.inside); n > 0 {
		t.Errorf("%d packets were sent to the thief", n)
	}
	to(thief, thief.self.process())
	await(t, "its own packet comes", patience, func() bool { return open(&thief.streams.inside) == 1 && links() == 1 })
}

// A certificate that is renewed, and an authority that is replaced, count while the mesh runs, and nobody is lost.
func TestPapersAreReplaced(t *testing.T) {
	t.Parallel()
	one, two := newAuthority(t), newAuthority(t)
	pa, pb := papersOf(t, one, nodeName), papersOf(t, one, nodeName)
	a := startTLS(t, node("a"), pa)
	b := startTLS(t, node("b"), pb, a)
	await(t, "b sees a", patience, sees(b, "a"))
	ends := time.Now().Add(time.Hour)
	first := one.issue(t, nodeName, ends)
	for i, step := range []struct {
		cert    *tls.Certificate
		trusted []*authority
	}{{first, []*authority{one, two}}, {two.issue(t, nodeName, ends), []*authority{one, two}}, {two.issue(t, nodeName, ends), []*authority{two}}} {
		for _, p := range []*papers{pa, pb} {
			p.set(step.cert, step.trusted...)
		}
		state := fmt.Sprint(i)
		b.Publish([]byte(state))
		await(t, "a hears b", patience, says(a, "b", state))
	}
	if n := a.logs.FilterMessage("lost node").Len() + b.logs.FilterMessage("lost node").Len(); n != 0 {
		t.Errorf("nodes were lost %d times", n)
	}
	late := startTLS(t, node("late"), papersOf(t, one, nodeName), a)
	await(t, "the old authority is refused", patience, complains(late, errCertificate.Error()))
}

// The gossip waits for a certificate and says so, and continues when there is one.
func TestGossipWaitsForACertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	p := &papers{}
	p.set(nil, ca)
	time.AfterFunc(300*time.Millisecond, func() { p.set(ca.issue(t, nodeName, time.Now().Add(time.Hour)), ca) })
	b := launch(t, "main", node("b"), seeded(a), func(m *Mesh) { m.UseTLS(p.tls()) })
	await(t, "b sees a", patience, sees(b, "a"))
	if got := b.Problems(); len(got) != 0 {
		t.Errorf("problems: %q", got)
	}
}

// A node whose own certificate cannot be used, as between the two files of a renewal, takes nobody for a stranger, and
// the others are told that it lies with that node.
func TestOwnCertificateCannotBeUsed(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	p := papersOf(t, ca, nodeName)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	b := startTLS(t, node("b"), p, a)
	await(t, "a sees b", patience, sees(a, "b"))
	p.set(nil, ca)
	if _, err := a.Ask(t.Context(), "b", []byte("who")); !errors.Is(err, errNoneShown) {
		t.Errorf("asked: got %v, want %v", err, errNoneShown)
	}
	await(t, "a complains of b", patience, complains(a, errNoneShown.Error()))
	await(t, "b complains of itself", 10*time.Second, complains(b, "cannot sign"))
	for _, reason := range []string{reasonUnreadable, reasonCertificate} {
		if n := rejected(t, b, reason); n > 0 {
			t.Errorf("b refused %v others: %s", n, reason)
		}
	}
}

// A peer that takes nothing holds up nobody who sends, and what waits for it is bounded.
func TestPacketsNeverWait(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer mute.Close()
	papers := papersOf(t, newAuthority(t), nodeName).tls()
	streams, err := listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), rules{papers: papers})
	must(t, err)
	began := time.Now()
	for i := range 4 * maxLinks {
		to := mute.Addr().String()
		if i%2 == 0 {
			to = fmt.Sprintf("127.0.0.1:%d", 1+i)
		}
		if _, err := streams.WriteToAddress(make([]byte, 1400), memberlist.Address{Addr: to}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > streamTimeout { // which one that waits would take
		t.Errorf("sending took %v", took)
	}
	if _, err := streams.WriteTo(make([]byte, maxPacket+1), mute.Addr().String()); err == nil {
		t.Error("a packet without bound was taken")
	}
	streams.links.mu.Lock()
	if n := len(streams.to); n > maxLinks {
		t.Errorf("%d connections, want at most %d", n, maxLinks)
	}
	streams.links.mu.Unlock()
	began = time.Now()
	if err := streams.Shutdown(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > streamTimeout/2 {
		t.Errorf("the end took %v", took)
	}
}

// A stream has a deadline, and ends with the context.
func TestSecureStreamsEnd(t *testing.T) {
	t.Parallel()
	quiet := rules{known: func(netip.Addr) bool { return true }, refused: func(string, error) {},
		papers: papersOf(t, newAuthority(t), nodeName).tls()}
	ctx, cancel := context.WithCancel(t.Context())
	client, err := listen(ctx, netip.MustParseAddrPort("127.0.0.1:0"), quiet)
	must(t, err)
	server, err := listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), quiet)
	must(t, err)
	defer func() { _ = client.Shutdown(); _ = server.Shutdown() }()
	stream := func(limit time.Duration) (net.Conn, error) { // which the server never reads
		return client.DialTimeout(fmt.Sprintf("127.0.0.1:%d", server.GetAutoBindPort()), limit)
	}
	fill := func(conn net.Conn) error {
		defer conn.Close()
		_, err := conn.Write(make([]byte, 64<<20))
		return err
	}
	conn, err := stream(time.Second)
	if err == nil {
		err = fill(conn)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errSlow) { // a busy machine's handshake takes a second
		t.Errorf("after its timeout: got %v, want %v", err, os.ErrDeadlineExceeded)
	}
	conn, err = stream(time.Minute)
	must(t, err)
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := fill(conn); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after its context: got %v, want %v", err, net.ErrClosed)
	}
	if _, err := stream(time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("dialled after its context: got %v, want %v", err, context.Canceled)
	}
}
