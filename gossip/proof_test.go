package gossip

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// bound is the name in a certificate of a node that names it.
func bound(node string) string { return node + " " + nodeName }

// startBound starts a node whose certificate names it.
func startBound(t *testing.T, ca *authority, self Meta, seeds ...*member) *member {
	t.Helper()
	return startTLS(t, self, papersOf(t, ca, bound(self.Node)), seeds...)
}

// accuse sends messages for the delegate with somebody's papers, each over a stream of its own and in a push/pull.
func accuse(t *testing.T, at *member, p *papers, messages ...[]byte) {
	t.Helper()
	for _, msg := range messages {
		_ = attack(t, at, p, forStream, framed(append(message(t, typeUser, userMessage{len(msg)}), msg...)))
		_ = attack(t, at, p, forStream, framed(append(message(t, typePushPull, pushPull{UserStateLen: len(msg)}), msg...)))
	}
}

// tells is what one process says of another.
func tells(said ...entry) []byte { return words{entries: said}.encode() }

// proven are words with a proof by these papers.
func proven(t *testing.T, p *papers, e entry) entry {
	t.Helper()
	papers := p.tls()
	pair, err := papers.Certificate()
	if err == nil {
		e.Proof, err = papers.prove(e, pair)
	}
	must(t, err)
	return e
}

// Anyone who has stolen the certificate of a node tells no facts of another one: of one that is live, of one that is
// lost, and of one that is not known. What others have told of each other stands.
func TestStolenNodeCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	b := startBound(t, ca, node("b"), a)
	c := startBound(t, ca, node("c"), a)
	b.Publish([]byte("fact"))
	c.Publish([]byte("last word"))
	await(t, "a hears b", patience, says(a, "b", "fact"))
	await(t, "a hears c", patience, says(a, "c", "last word"))
	c.stop()
	await(t, "a has lost c", patience, func() bool { return !sees(a, "c")() })
	want := fmt.Sprint(a.Nodes())
	thief := papersOf(t, ca, bound("thief"))

	forged := func(meta Meta, seq uint64) entry { return entry{Meta: meta, Seq: seq, State: []byte("forged")} }
	later := func(m Meta) Meta { m.Boot += 1e15; m.Address = netip.MustParseAddr("127.0.0.66"); return m }
	lies := []entry{forged(b.self, 99), forged(later(b.self), 1), forged(c.self, 99), forged(later(c.self), 1), forged(node("ghost"), 1)}
	for _, w := range lies {
		replayed := w
		b.knowledge.mu.Lock()
		replayed.Proof = b.view.nodes["b"].Proof // b's own, of another word
		b.knowledge.mu.Unlock()
		accuse(t, a, thief, tells(w), tells(proven(t, thief, w)), tells(replayed))
	}
	if rejected(t, a, reasonCertificate) == 0 || !complains(a, errProof.Error())() {
		t.Errorf("problems: %q", a.Problems())
	}
	// It says that a process of each lives at its own address, too, which is what a probe would find there.
	vsn := []uint8{1, 5, 2, 2, 5, 4}
	port, err := net.Listen("tcp", "127.0.0.66:0")
	must(t, err)
	defer port.Close()
	var packets [][]byte
	for _, m := range []Meta{later(b.self), later(c.self), lies[4].Meta} {
		packets = append(packets, framed(message(t, typeAlive, map[string]any{"Incarnation": 1, "Node": m.process(),
			"Addr": net.IPv4(127, 0, 0, 66).To4(), "Port": port.Addr().(*net.TCPAddr).Port, "Meta": encode(m), "Vsn": vsn})))
	}
	user := append([]byte{typeUser}, append([]byte{0, 0, 0, 1, 'b'}, tells(lies[0])...)...) // as if it came from b
	packets = append(packets, framed(user), []byte{0, 0, 0, 0})
	for _, m := range []*member{a, b} {
		if err := attack(t, m, thief, forPackets, packets...); err == nil {
			t.Error("packets were answered")
		}
		for _, process := range []Meta{later(b.self), lies[4].Meta} {
			await(t, m.self.Node+" hears of "+process.Node, patience, func() bool { return look(m.known, func(v *view) bool { return v.peers[process.process()] != nil }) })
		}
	}
	if got := fmt.Sprint(a.Nodes()); got != want {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if at, ok := b.Twin(); ok {
		t.Errorf("b takes %v for its twin", at)
	}
	// Its own facts count, with its proof.
	own := entry{Meta: node("thief"), Seq: 1, State: []byte("mine")}
	accuse(t, a, thief, tells(own))
	if says(a, "thief", "mine")() {
		t.Error("a word without proof counts")
	}
	accuse(t, a, thief, tells(proven(t, thief, own)))
	if !says(a, "thief", "mine")() {
		t.Errorf("got %v", a.Nodes())
	}
	b.Publish([]byte("new fact"))
	await(t, "a hears b", patience, says(a, "b", "new fact"))
}

// Who comes later hears of a lost node by others, and of one that does not reach it, because each word has its proof. A
// certificate that was renewed is another proof.
func TestProofsAreToldOn(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	papers := papersOf(t, ca, bound("b"))
	b := startTLS(t, node("b"), papers, a)
	b.Publish([]byte("fact"))
	await(t, "a hears b", patience, says(a, "b", "fact"))
	n, _ := find(a, "b")
	papers.set(ca.issue(t, bound("b"), time.Now().Add(time.Hour)), ca)
	await(t, "another proof", 10*time.Second, func() bool { again, _ := find(a, "b"); return again.Seq > n.Seq && string(again.State) == "fact" })
	b.stop()
	await(t, "a has lost b", patience, func() bool { return !sees(a, "b")() })
	for _, late := range []hearer{startBound(t, ca, node("late"), a), observe(t, "main", "o", papersOf(t, ca, watcherName), nil, a)} {
		await(t, "a late one hears of b", patience, says(late, "b", "fact"))
		if n, _ := find(late, "b"); n.Live || len(late.Problems()) > 0 {
			t.Errorf("got %+v, %q", n, late.Problems())
		}
	}
}

// A word is told on with its own proof, from the first on, and never with that of another one.
func TestProofIsKept(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 1), now)
	v.strict = true
	for seq, proof := range []string{"first", "", "third"} {
		word := entry{Meta: process("b", 2), Seq: uint64(seq + 1), State: []byte{byte(seq)}}
		if proof != "" {
			word.Proof = []byte(proof)
		}
		v.learn(word, now)
		if got := string(v.nodes["b"].Proof); got != proof {
			t.Errorf("the proof of word %d is %q, want %q", word.Seq, got, proof)
		}
	}
}

// The first word of a process that is known to be live says nothing, and has its proof all the same: who hears of the
// process only from others knows it by that.
func TestFirstWordKeepsItsProof(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 1), now)
	v.strict = true
	word := entry{Meta: process("b", 2), Proof: []byte("proof")}
	v.up(word.Meta, at, now)
	if v.learn(word, now); string(v.nodes["b"].Proof) != "proof" || v.news(word) {
		t.Errorf("got %+v", v.nodes["b"])
	}
}

// A node whose certificates are too large for a proof says so, and does not keep the others from hearing what it tells
// of the rest.
func TestCertificatesTooLargeForAProof(t *testing.T) {
	ca := newAuthority(t)
	m, papers := newMesh(t), papersOf(t, ca, bound("a"))
	short := papers.cert
	long := *short
	long.Certificate = append(slices.Clone(long.Certificate), make([]byte, maxProof))
	papers.set(&long, ca)
	m.UseTLS(papers.tls())
	m.sign()
	if _, err := decodeWords(m.words().encode()); err != nil {
		t.Errorf("its words are refused: %v", err)
	}
	if got := m.Problems(); len(got) != 1 || got[0].Kind != ProblemTLS || !strings.Contains(got[0].Text, "too large") {
		t.Errorf("problems: %v", got)
	}
	papers.set(short, ca)
	m.sign()
	if own := m.words().entries[0]; own.Proof == nil || len(m.Problems()) > 0 {
		t.Errorf("with a short one: got %+v, %v", own, m.Problems())
	}
}

// Who is asked for a node must have its certificate.
func TestOnlyTheNodeItselfIsAsked(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	b := startBound(t, ca, node("b"), a)
	await(t, "a sees b", patience, sees(a, "b"))
	liar := startBound(t, ca, node("liar"))
	a.knowledge.mu.Lock()
	a.view.nodes["b"].gossip, a.view.peers[b.self.process()].gossip = liar.Address(), liar.Address()
	a.knowledge.mu.Unlock()
	if got, err := a.Ask(t.Context(), "b", []byte("who")); !errors.Is(err, errOther) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := a.streams.DialAddressTimeout(memberlist.Address{Addr: liar.Address().String()}, time.Second); err != nil {
		t.Errorf("a seed, whose name is not known: %v", err)
	}
}

// Where certificates name no node, as an operator's may, any node speaks for any other; observers never do.
func TestCertificatesWithoutNames(t *testing.T) {
	ca := newAuthority(t)
	word := entry{Meta: node("b"), Seq: 1, State: []byte("fact")}
	for name, c := range map[string]struct {
		cert *tls.Certificate
		want bool
	}{
		"the node's":        {ca.issue(t, bound("b"), time.Now().Add(time.Hour)), true},
		"another node's":    {ca.issue(t, bound("c"), time.Now().Add(time.Hour)), false},
		"of no name":        {ca.issue(t, nodeName, time.Now().Add(time.Hour)), true},
		"an observer's":     {ca.issue(t, "b "+watcherName, time.Now().Add(time.Hour)), false},
		"expired":           {ca.issue(t, bound("b"), time.Now().Add(-time.Minute)), false},
		"foreign authority": {newAuthority(t).issue(t, bound("b"), time.Now().Add(time.Hour)), false},
	} {
		p := &papers{}
		p.set(c.cert, ca)
		signed := proven(t, p, word)
		if err := p.tls().proves(signed); (err == nil) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		other := p.tls()
		other.label = "holdfast/other"
		if err := other.proves(signed); err == nil {
			t.Errorf("%s: it counts in another cluster", name)
		}
		for _, alter := range []func(*entry){
			func(e *entry) { e.Seq++ }, func(e *entry) { e.State = []byte("forged") }, func(e *entry) { e.Boot++ },
			func(e *entry) { e.Address = netip.MustParseAddr("127.0.0.2") }, func(e *entry) { e.Proof = e.Proof[:len(e.Proof)-1] },
			func(e *entry) { e.Proof = nil }, func(e *entry) { e.Proof = bytes.Repeat([]byte{0xff}, 9) },
		} {
			forged := signed
			alter(&forged)
			if p.tls().proves(forged) == nil {
				t.Errorf("%s: altered, it counts: %+v", name, forged.Meta)
			}
		}
	}
}

// A mesh with as many nodes as there may be tells them within the bounds, the live ones in any case.
func TestProofsAreBounded(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 1), now)
	v.strict = true
	for i := range 2 * maxNodes {
		m := process(fmt.Sprintf("n%d", i), uint64(i+10))
		if i < 9 {
			v.up(m, at, now)
		}
		v.learn(entry{Meta: m, Seq: 1, State: make([]byte, maxState), Proof: make([]byte, maxProof)}, now)
	}
	told := v.words(now).encode()
	heard, err := decodeWords(told)
	if err != nil || len(told) > maxStream {
		t.Fatalf("%d bytes: %v", len(told), err)
	}
	all := heard.entries
	for _, e := range all {
		if e.Node != "self" && e.Proof == nil {
			t.Fatalf("%s has no proof", e.Node)
		}
	}
	for i := range 9 {
		if !slices.ContainsFunc(all, func(e entry) bool { return e.Node == fmt.Sprintf("n%d", i) }) {
			t.Errorf("n%d is not told, though live", i)
		}
	}
}

// What one message can make a node compute is bounded.
func TestForgeriesCostLittle(t *testing.T) {
	ca := newAuthority(t)
	m, checked := newMesh(t), 0
	other := papersOf(t, ca, bound("self"))
	counting := other.tls()
	inner := counting.Authorities
	counting.Authorities = func() (*x509.CertPool, error) { checked++; return inner() }
	m.UseTLS(counting)
	var all []entry
	for i := range maxNodes {
		word := entry{Meta: process(fmt.Sprintf("n%d", i), 1), Seq: 1}
		all = append(all, proven(t, other, word))
	}
	if got := m.authentic(all, "thief"); len(got) != 0 || checked != maxForged {
		t.Errorf("%d count, %d were looked at", len(got), checked)
	}
}
