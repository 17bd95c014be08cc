package gossip

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
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
		_ = attack(t, at, p, forStream, labelled(at, append(message(t, typeUser, map[string]any{"UserMsgLen": len(msg)}), msg...)...))
		_ = attack(t, at, p, forStream, labelled(at, append(message(t, typePushPull, map[string]any{"Nodes": 0, "UserStateLen": len(msg), "Join": false}), msg...)...))
	}
}

// proofsOf are words with proofs, as they are told.
func proofsOf(words ...entry) []byte {
	v := newView(node("teller"), time.Now())
	return encodeAll(append(words, v.self.aside(hearsay{proofs: words})))
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
	await(t, "a hears b", 5*time.Second, says(a, "b", "fact"))
	await(t, "a hears c", 5*time.Second, says(a, "c", "last word"))
	c.stop()
	await(t, "a has lost c", 5*time.Second, func() bool { return !sees(a, "c")() })
	want := fmt.Sprint(a.Nodes())
	thief := papersOf(t, ca, bound("thief"))

	forged := func(meta Meta, seq uint64) entry { return entry{Meta: meta, Seq: seq, State: []byte("forged")} }
	later := func(m Meta) Meta { m.Boot += 1e15; m.Address = netip.MustParseAddr("127.0.0.66"); return m }
	words := []entry{forged(b.self, 99), forged(later(b.self), 1), forged(c.self, 99), forged(later(c.self), 1), forged(node("ghost"), 1)}
	for _, w := range words {
		proof, _, err := thief.tls().prove(a.label, w)
		if err != nil {
			t.Fatal(err)
		}
		signed, altered := w, b.view.nodes["b"]
		signed.proof = proof // by the thief
		b.knowledge.mu.Lock()
		replayed := w
		replayed.proof = altered.proof // b's own, of another word
		b.knowledge.mu.Unlock()
		accuse(t, a, thief, encodeEntry(w), encodeAll([]entry{w}), proofsOf(signed), proofsOf(replayed))
	}
	if rejected(t, a, reasonCertificate) == 0 || !complains(a, errProof.Error())() {
		t.Errorf("problems: %q", a.Problems())
	}
	// It says that a process of each lives at its own address, too, which is what a probe would find there.
	vsn := []uint8{1, 5, 2, 2, 5, 4}
	port, err := net.Listen("tcp", "127.0.0.66:0")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	var packets [][]byte
	for _, m := range []Meta{later(b.self), later(c.self), words[4].Meta} {
		packets = append(packets, frame(labelled(a, message(t, typeAlive, map[string]any{"Incarnation": 1, "Node": m.process(),
			"Addr": net.IPv4(127, 0, 0, 66).To4(), "Port": port.Addr().(*net.TCPAddr).Port, "Meta": appendMeta(nil, m), "Vsn": vsn})...)))
	}
	user := append([]byte{typeUser}, append(appendText(nil, "b"), encodeEntry(words[0])...)...) // as if it came from b
	packets = append(packets, frame(labelled(a, user...)), []byte{0, 0})
	for _, m := range []*member{a, b} {
		if err := attack(t, m, thief, forPackets, packets...); err == nil {
			t.Error("packets were answered")
		}
		for _, process := range []Meta{later(b.self), words[4].Meta} {
			await(t, m.self.Node+" hears of "+process.Node, 5*time.Second, func() bool { _, ok := m.process(process.process()); return ok })
		}
	}
	if got := fmt.Sprint(a.Nodes()); got != want {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if at, ok := b.Twin(); ok {
		t.Errorf("b takes %v for its twin", at)
	}
	// Nor does it ask, or is asked, in the name of another one.
	before := rejected(t, a, reasonCertificate)
	accuse(t, a, thief, encodeAsk(ask{ID: 1, Node: "b", Boot: b.self.Boot, Question: []byte("who")}))
	if rejected(t, a, reasonCertificate) == before {
		t.Error("a question in the name of b was answered")
	}
	// Its own facts count.
	own := node("thief")
	accuse(t, a, thief, encodeEntry(entry{Meta: own, Seq: 1, State: []byte("mine")}))
	if !says(a, "thief", "mine")() {
		t.Errorf("got %v", a.Nodes())
	}
	b.Publish([]byte("new fact"))
	await(t, "a hears b", 5*time.Second, says(a, "b", "new fact"))
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
	await(t, "a hears b", 5*time.Second, says(a, "b", "fact"))
	n, _ := find(a, "b")
	papers.set(ca.issue(t, bound("b"), time.Now().Add(time.Hour)), ca)
	await(t, "another proof", 10*time.Second, func() bool { again, _ := find(a, "b"); return again.Seq > n.Seq && string(again.State) == "fact" })
	b.stop()
	await(t, "a has lost b", 5*time.Second, func() bool { return !sees(a, "b")() })
	for _, late := range []*member{startBound(t, ca, node("late"), a), startTLS(t, watcher("o"), papersOf(t, ca, watcherName), a)} {
		await(t, late.self.Node+" hears of b", 5*time.Second, says(late, "b", "fact"))
		if n, _ := find(late, "b"); n.Live || rejected(t, late, reasonCertificate) > 0 {
			t.Errorf("got %+v, %q", n, late.Problems())
		}
	}
}

// A node of a version before proofs is heard by all whom it reaches, and understands the others.
func TestWordsWithoutProof(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	b := startBound(t, ca, node("b"), a)
	old := papersOf(t, ca, bound("old")).tls()
	old.Sign = func(crypto.Signer, []byte) ([]byte, error) { return nil, errors.New("it knows no proofs") }
	before := launch(t, "main", node("old"), seeded(a), func(m *Mesh) { m.UseTLS(old) })
	before.Publish([]byte("fact"))
	for _, m := range []*member{a, b} {
		await(t, m.self.Node+" hears the old one", 5*time.Second, says(m, "old", "fact"))
	}
	before.stop()
	await(t, "a has lost it", 5*time.Second, func() bool { return !sees(a, "old")() })
	late := startBound(t, ca, node("late"), a)
	await(t, "late sees b", 5*time.Second, sees(late, "b"))
	if n, ok := find(late, "old"); ok {
		t.Errorf("without proof it is told %+v", n)
	}

	// All messages are what a version before proofs takes: entries, of which it drops those about observers, with the
	// last of them saying what it reads.
	a.knowledge.mu.Lock()
	all := a.view.entries(time.Now())
	a.knowledge.mu.Unlock()
	last := all[len(all)-1]
	r := reader{rest: last.State}
	if !last.Observer || r.count(maxNodes) != 1 {
		t.Errorf("the last entry is %+v", last)
	}
	if _, err := decode(encodeAll(all)); err != nil {
		t.Error(err)
	}
}

// A word that is heard before it was signed is told on with the proof that comes later.
func TestProofThatComesLater(t *testing.T) {
	now := time.Unix(1, 0)
	v := newView(process("self", 1), now)
	v.strict = true
	word := entry{Meta: process("b", 2), Seq: 1, State: []byte("x")}
	v.learn(word, now)
	word.proof = []byte("proof")
	if !v.news(word) || v.learn(word, now) {
		t.Error("the proof is no news, or taken for a change")
	}
	if rec := v.nodes["b"]; string(rec.proof) != "proof" || v.news(word) {
		t.Errorf("got %+v", rec)
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
			word.proof = []byte(proof)
		}
		v.learn(word, now)
		if got := string(v.nodes["b"].proof); got != proof {
			t.Errorf("the proof of word %d is %q, want %q", word.Seq, got, proof)
		}
	}
}

// Who is asked for a node must have its certificate.
func TestOnlyTheNodeItselfIsAsked(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startBound(t, ca, node("a"))
	b := startBound(t, ca, node("b"), a)
	await(t, "a sees b", 5*time.Second, sees(a, "b"))
	liar := startBound(t, ca, node("liar"))
	a.knowledge.mu.Lock()
	a.view.nodes["b"].gossip, a.view.peers[b.self.process()].gossip = liar.Address(), liar.Address()
	a.knowledge.mu.Unlock()
	if got, err := a.Ask(t.Context(), "b", []byte("who")); !errors.Is(err, errOther) {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := a.transport.DialAddressTimeout(memberlist.Address{Addr: liar.Address().String()}, time.Second); err != nil {
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
		signed, err := word, error(nil)
		if signed.proof, _, err = p.tls().prove("holdfast/main", word); err != nil {
			t.Fatal(err)
		}
		if err := p.tls().proves("holdfast/main", signed); (err == nil) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if err := p.tls().proves("holdfast/other", signed); err == nil {
			t.Errorf("%s: it counts in another cluster", name)
		}
		for _, alter := range []func(*entry){
			func(e *entry) { e.Seq++ }, func(e *entry) { e.State = []byte("forged") }, func(e *entry) { e.Boot++ },
			func(e *entry) { e.Address = netip.MustParseAddr("127.0.0.2") }, func(e *entry) { e.proof = e.proof[:len(e.proof)-1] },
			func(e *entry) { e.proof = nil }, func(e *entry) { e.proof = bytes.Repeat([]byte{0xff}, 9) },
		} {
			forged := signed
			alter(&forged)
			if p.tls().proves("holdfast/main", forged) == nil {
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
		v.learn(entry{m, 1, []byte("x"), make([]byte, maxProof)}, now)
	}
	all := v.entries(now)
	msg, err := decode(encodeAll(all))
	if err != nil || len(all) > maxNodes {
		t.Fatalf("%d entries: %v", len(all), err)
	}
	said, err := asides(msg.([]entry))
	if err != nil || len(said.lost) == 0 {
		t.Errorf("%d lost, %v", len(said.lost), err)
	}
	for _, e := range msg.([]entry) {
		if !e.Observer && e.Node != "self" && e.proof == nil {
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
	counting := papersOf(t, ca, bound("self")).tls()
	inner := counting.Authorities
	counting.Authorities = func() (*x509.CertPool, error) { checked++; return inner() }
	m.UseTLS(counting)
	var all []entry
	for i := range maxNodes {
		word := entry{Meta: process(fmt.Sprintf("n%d", i), 1), Seq: 1}
		proof, _, err := counting.prove(m.label, word) // by another node
		if err != nil {
			t.Fatal(err)
		}
		word.proof = proof
		all = append(all, word)
	}
	if got := m.authentic(all, Speaker{RoleNode, "thief"}); len(got) != 0 || checked != maxForged {
		t.Errorf("%d count, %d were looked at", len(got), checked)
	}
}
