package generations

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants disable the guards around an operator's signature. Each names the test that must fail then.
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
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
