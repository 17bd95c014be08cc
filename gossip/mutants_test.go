package gossip

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants are the guards around signed words made void, and the tests that must see it.
var mutants = []mutanttest.Mutant{
	{Name: "a renewed certificate signs nothing again", File: "knowledge.go", Old: `if certificate != nil && own.proof != nil && `, New: `if certificate != nil && own.proof == nil && `,
		Test: "TestProofsAreToldOn", Says: "another proof"},
	{Name: "signed again, it is the same word", File: "knowledge.go", Old: `		own.Seq, own.proof = own.Seq+1, nil`, New: `		own.proof = nil`, Test: "TestProofsAreToldOn", Says: "another proof"},
	{Name: "the proof is not kept", File: "view.go", Old: `	rec.proof = e.proof
	if e.Seq > 0 {`, New: `	if e.Seq > 0 {`, Test: "TestProofIsKept", Says: "the proof of word 1 is"},
	{Name: "the proof of another word stays", File: "view.go", Old: `	rec.proof = e.proof
	if e.Seq > 0 {`, New: `	if e.proof != nil {
		rec.proof = e.proof
	}
	if e.Seq > 0 {`, Test: "TestProofIsKept", Says: "the proof of word 2 is"},
	{Name: "a proof that comes later is not kept", File: "view.go", Old: `	case e.Seq == rec.Seq && rec.proof == nil:
		rec.proof = e.proof`, New: `	case e.Seq == rec.Seq && rec.proof == nil:`, Test: "TestProofThatComesLater", Says: "got "},
	{Name: "a proof that comes later is no news", File: "view.go", Old: `|| e.Seq == rec.Seq && rec.proof == nil
}`, New: `
}`, Test: "TestProofThatComesLater", Says: "the proof is no news"},
	{Name: "any node signs", File: "proof.go", Old: `if err == nil && !from.speaksFor(e.Node) {`, New: `if err == nil && from.Role != RoleNode {`,
		Test: "TestCertificatesWithoutNames", Says: "another node's: got <nil>"},
	{Name: "any signature", File: "proof.go", Old: `return t.Check(chain[0], e.text(label), signature)`, New: `_ = signature; return nil`,
		Test: "TestCertificatesWithoutNames", Says: "altered, it counts"},
	{Name: "any cluster", File: "proof.go", Old: `appendText([]byte("holdfast gossip word 1\n"), label)`, New: `appendText([]byte("holdfast gossip word 1\n"), "")`,
		Test: "TestCertificatesWithoutNames", Says: "it counts in another cluster"},
	{Name: "words without proof", File: "proof.go", Old: `case e.proof == nil || forged == maxForged || !p.known.news(e):`, New: `case forged == maxForged || !p.known.news(e):
		case e.proof == nil:
			counts = append(counts, e)`, Test: "TestStolenNodeCertificate", Says: "ghost"},
	{Name: "forgeries without end", File: "proof.go", Old: `forged == maxForged || `, New: ``,
		Test: "TestForgeriesCostLittle", Says: "were looked at"},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
