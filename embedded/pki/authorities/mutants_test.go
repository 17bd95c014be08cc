package authorities

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants are the guard against a listing that is behind, made void, and the test that must see it.
var mutants = []mutanttest.Mutant{
	{Name: "the listing shows the newest edition", File: "keeper.go", Old: `		newest, serial = snapshot.Object{Name: next}, serial+1`, New: `		return newest, serial, nil`,
		Test: "TestListingThatIsBehind", Says: "old: got edition"},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
