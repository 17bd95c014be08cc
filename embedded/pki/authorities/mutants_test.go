package authorities

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants are the guards against a listing that is behind and against a wrong clock, made void, and the tests that must
// see it.
var mutants = []mutanttest.Mutant{
	{Name: "the listing shows the newest edition", File: "keeper.go", Old: `		newest, serial = snapshot.Object{Name: next}, serial+1`, New: `		return newest, serial, nil`,
		Test: "TestListingThatIsBehind", Says: "old: got edition"},
	{Name: "any clock replaces the authorities", File: "next.go", Old: `	if v.Clock != "" && !asked {`, New: `	if v.Clock == "never" && !asked {`,
		Test: "TestNextAuthorities", Says: "ended,_by_a_clock_that_is_wrong"},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
