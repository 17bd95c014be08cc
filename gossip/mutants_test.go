package gossip

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants are the guards around signed words, and the bounds, made void, and the tests that must see it.
var mutants = []mutanttest.Mutant{
	{Name: "a renewed certificate signs nothing again", File: "knowledge.go", Old: `own.Proof != nil && !renewed {`, New: `own.Proof != nil && (!renewed || true) {`,
		Test: "TestProofsAreToldOn", Says: "another proof"},
	{Name: "signed again, it is the same word", File: "knowledge.go", Old: `		own.Seq++`, New: ``, Test: "TestProofsAreToldOn", Says: "another proof"},
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
	{Name: "an unsigned word is sent", File: "view.go", Old: ` || v.strict && v.own.Proof == nil {`, New: ` {`,
		Test: "TestUnsignedWordIsNotSent", Says: "without proof it is sent to 1"},
	{Name: "the proof of a first word is no news", File: "view.go", Old: ` || v.strict && rec.Proof == nil`, New: ``,
		Test: "TestFirstWordKeepsItsProof", Says: "got "},
	{Name: "any node signs", File: "proof.go", Old: `if err == nil && !from.speaksFor(e.Node) {`, New: `if err == nil && from.Role != RoleNode {`,
		Test: "TestCertificatesWithoutNames", Says: "another node's: got <nil>"},
	{Name: "any signature", File: "proof.go", Old: `return t.Check(chain[0], e.text(label), p.Signature)`, New: `return nil`,
		Test: "TestCertificatesWithoutNames", Says: "altered, it counts"},
	{Name: "any cluster", File: "proof.go", Old: `%s %q %d\n%s", label, e.Node`, New: `%s %q %d\n%s", "", e.Node`,
		Test: "TestCertificatesWithoutNames", Says: "it counts in another cluster"},
	{Name: "words without proof", File: "proof.go", Old: `case e.Proof == nil || forged == maxForged || !p.known.news(e):`, New: `case forged == maxForged || !p.known.news(e):
		case e.Proof == nil:
			counts = append(counts, e)`, Test: "TestStolenNodeCertificate", Says: "ghost"},
	{Name: "forgeries without end", File: "proof.go", Old: `forged == maxForged || `, New: ``,
		Test: "TestForgeriesCostLittle", Says: "were looked at"},
	{Name: "a decoder sees all of a message", File: "wire.go", Old: `(*b)[:min(len(*b), limit)]`, New: `*b`,
		Test: "TestLargeValuesTakeNoMemory", Says: "of a word: "},
	{Name: "a process of any size", File: "guard.go", Old: `min(v.rest, maxListing)`, New: `v.rest`,
		Test: "TestLargeValuesTakeNoMemory", Says: "of a process: "},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
