package generations

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants disable the guards around an operator's signature and against an outdated listing. Each names the test that
// must fail then.
var mutants = []mutanttest.Mutant{
	{Name: "an operator concludes", File: "signature.go", Old: `&done) == nil && done.Record == nil && done.Abort != nil`, New: `&done) == nil`,
		Test: "TestOperatorsOrders", Says: "concluded_by_him"},
	{Name: "an operator puts records", File: "signature.go", Old: `return m[1] == "restore"`, New: `return m[1] == "restore" || m[1] == "record"`,
		Test: "TestOperatorsOrders", Says: "a_record_of_his"},
	{Name: "an operator attests", File: "signature.go", Old: `return m[1] == "restore"`, New: `return m[1] == "restore" || m[1] == "proof"`,
		Test: "TestOperatorsOrders", Says: "attested_by_him"},
	{Name: "all is commanded", File: "signature.go", Old: `	case m == nil:
		return false
	case m[1] == "outcome":`, New: `	case m == nil:
		return true
	case m[1] == "outcome":`, Test: "TestOperatorLeavesTheRestToNodes", Says: "return: <nil>"},
	{Name: "a command must store the record", File: "records.go", Old: `err != nil && !errors.Is(err, ErrUnsigned) {`, New: `err != nil {`,
		Test: "TestOperatorLeavesTheRestToNodes", Says: "which was concluded"},
	{Name: "cut short is read", File: "objects.go", Old: `int64(len(data)) < o.Size`, New: `int64(len(data)) < 0`,
		Test: "TestAnswerCutShort", Says: "record-000002.json: got"},
	{Name: "an empty listing is an empty store", File: "records.go", Old: `	next := r.recordName(1)`, New: `	next := r.recordName(0)`,
		Test: "TestListingThatIsBehind", Says: "empty: got"},
	{Name: "no outcome is listed", File: "records.go", Old: `	case s.Restore != nil:
		next = r.outcomeName(s.Restore.Generation, s.Restore.Attempt)
`, New: ``, Test: "TestListingThatIsBehind", Says: "before the conclusion: got"},
	{Name: "no proposal is listed", File: "records.go", Old: `next = r.restoreName(s.Record.Generation+1, s.Attempts+1)`, New: `return nil`,
		Test: "TestListingThatIsBehind", Says: "before the proposal: got"},
	{Name: "what is put meanwhile is an error", File: "records.go", Old: `!errors.Is(err, errBehind) || again > 0`, New: `again >= 0`,
		Test: "TestListingThatIsBehind", Says: "once: got"},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
