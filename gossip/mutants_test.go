package gossip

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants are the guards around signed words, and the bounds, made void, and the tests that must see it.
var mutants = []mutanttest.Mutant{
	{Name: "a renewed certificate signs nothing again", File: "knowledge.go", Old: `own.Proof != nil && !renewed {`,
		New:  `own.Proof != nil && (!renewed || true) {`,
		Test: "TestProofsAreToldOn", Says: "another proof"},
	{Name: "signed again, it is the same word", File: "knowledge.go", Old: `		own.Seq++`,
		New: ``, Test: "TestProofsAreToldOn", Says: "another proof"},
	{Name: "the proof is not kept", File: "view.go", Old: `		rec.entry = e
`, New: `		rec.entry = e
		rec.Proof = nil
`, Test: "TestProofIsKept", Says: "the proof of word 1 is"},
	{Name: "the proof of another word stays", File: "view.go", Old: `		rec.entry = e
`, New: `		proof := rec.Proof
		if rec.entry = e; e.Proof == nil {
			rec.Proof = proof
		}
`, Test: "TestProofIsKept", Says: "the proof of word 2 is"},
	{Name: "a failed send counts as one", File: "knowledge.go", Old: `if p.sending = false; !ok {`,
		New: `if p.sending = false; false {`, Test: "TestFailedSendIsRepeated", Says: "sent 2 times, want 3"},
	{Name: "an unsigned word is sent", File: "view.go", Old: `	if v.strict && v.own.Proof == nil {`, New: `	if false {`,
		Test: "TestUnsignedWordIsNotSent", Says: "without proof it is sent to 1"},
	{Name: "the proof of a first word is no news", File: "view.go", Old: ` || v.strict && rec.Proof == nil`, New: ``,
		Test: "TestFirstWordKeepsItsProof", Says: "got "},
	{Name: "any node signs", File: "proof.go", Old: `if err == nil && !from.speaksFor(e.Node) {`,
		New:  `if err == nil && from.Role != RoleNode {`,
		Test: "TestCertificatesWithoutNames", Says: "another node's: got <nil>"},
	{Name: "any signature", File: "proof.go", Old: `return t.Check(chain[0], e.text(t.label), p.Signature)`,
		New:  `return nil`,
		Test: "TestCertificatesWithoutNames", Says: "altered, it counts"},
	{Name: "any cluster", File: "proof.go", Old: `%s %q %d\n%s", label, e.Node`, New: `%s %q %d\n%s", "", e.Node`,
		Test: "TestCertificatesWithoutNames", Says: "it counts in another cluster"},
	{Name: "words without proof", File: "proof.go", Old: `case e.Proof == nil || forged == maxForged || !p.known.news(e):`,
		New: `case forged == maxForged || !p.known.news(e):
		case e.Proof == nil:
			counts = append(counts, e)`, Test: "TestStolenNodeCertificate", Says: "ghost"},
	{Name: "forgeries without end", File: "proof.go", Old: `forged == maxForged || `, New: ``,
		Test: "TestForgeriesCostLittle", Says: "were looked at"},
	{Name: "a decoder sees all of a message", File: "wire.go", Old: `(*b)[:min(len(*b), limit)]`, New: `*b`,
		Test: "TestLargeValuesTakeNoMemory", Says: "of a word: "},
	{Name: "a process of any size", File: "guard.go", Old: `read[pushed](&rest, maxListing, nil)`,
		New:  `read[pushed](&rest, maxStream, nil)`,
		Test: "TestLargeValuesTakeNoMemory", Says: "of a process: "},
	{Name: "processes without end", File: "guard.go", Old: `head.Nodes > maxListed`, New: `false`,
		Test: "TestLargeWordsTakeNoMemory", Says: "nodes without end: "},
	{Name: "what is announced is reserved", File: "guard.go", Old: `*size != len(rest) || `, New: ``,
		Test: "TestGuard", Says: "cut in its state: "},
	{Name: "a stranger's message of any size", File: "transport.go", Old: `limit = maxStranger`, New: `limit = maxStream`,
		Test: "TestLargeWordsTakeNoMemory", Says: "a stranger's frame: "},
	{Name: "strangers in the room of the mesh", File: "transport.go", Old: `room = &t.strangers`, New: ``,
		Test: "TestStreamsAreBounded", Says: "in vain: the rest is refused"},
	{Name: "an observer speaks as a node does", File: "transport.go", Old: `case conn.Role != RoleNode:`,
		New:  `case false:`,
		Test: "TestStolenObserverCertificate", Says: "in vain: packets are refused"},
	{Name: "an observer's certificate answers as a node", File: "tls.go", Old: `err == nil && conn.Role != RoleNode {`,
		New:  `false {`,
		Test: "TestForeignObserversHearNothing", Says: "in vain: it shows an observer's certificate"},
	{Name: "an observer of another cluster", File: "tls.go", Old: `fmt.Sprintf("%s %d %s", t.label, version,`,
		New:  `fmt.Sprintf("%d %s", version,`,
		Test: "TestForeignObserversHearNothing", Says: "in vain: another cluster"},
	{Name: "an observer with other keys", File: "keys.go", Old: `hkdf.Key(sha256.New, secret,`,
		New:  `hkdf.Key(sha256.New, secret[:0],`,
		Test: "TestForeignObserversHearNothing", Says: "key: the observer says why"},
	{Name: "observers without end at one address", File: "transport.go", Old: `		room = &t.observers`, New: ``,
		Test: "TestObserversAreBounded", Says: "one more: got"},
	{Name: "who holds a connection keeps it", File: "door.go", Old: `if d.yield == nil {`, New: `if true {`,
		Test: "TestDoor", Says: "are in, want"},
	{Name: "rooms by address alone", File: "transport.go", Old: `room.enter(cmp.Or(conn.Node, from.String()), raw)`,
		New:  `room.enter(from.String(), raw)`,
		Test: "TestOneCertificateTakesItsOwnRoom", Says: "in vain: one more has to yield"},
	{Name: "any node takes another one's packets", File: "transport.go", Old: `known && !conn.speaksFor(node)`,
		New:  `known && node == "?"`,
		Test: "TestPacketsOnlyToTheNode", Says: "in vain: the link ends"},
	{Name: "a node that stands still is heard", File: "observer.go", Old: `	_ = l.SetReadDeadline(time.Now().Add(silence)) // if it cannot be set the read fails`,
		New: ``, Test: "TestObserverChangesItsNode", Says: "in vain: the observer is connected to a"},
	{Name: "a node that tells nothing is waited for", File: "observer.go", Old: `context.WithTimeout(ctx, writeTime)`,
		New:  `context.WithCancel(ctx)`,
		Test: "TestObserverGivesUpOnASilentNode", Says: "in vain: it says that the node is silent"},
	{Name: "a lonely node is heard forever", File: "observer.go", Old: `o.connect(ctx, o.missing(ctx), l.live.Load())`,
		New:  `nil`,
		Test: "TestObserverLeavesALonelyNode", Says: "in vain: it sees b"},
	{Name: "nodes without end", File: "delegate.go", Old: `err == nil && !d.known.room(meta)`, New: `false`,
		Test: "TestOneNodeTooMany", Says: "one more: got"},
	{Name: "an older process lifts a tombstone", File: "view.go",
		Old: `if meta.Boot >= v.forgotten[meta.Node].Boot {`, New: `if true {`,
		Test: "TestOlderProcessLiftsNoTombstone", Says: "a word counts again"},
	{Name: "a process at our own address is a twin", File: "view.go", Old: ` && p.gossip != v.here {`, New: ` {`,
		Test: "TestViewTrustsNobodyAboutItself", Says: "at our own address"},
	{Name: "who is no longer told is live", File: "observer.go", Old: `		if !live[name] {`,
		New:  `		if !live[name] && false {`,
		Test: "TestObserverFollowsProcesses", Says: "lost: got"},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
