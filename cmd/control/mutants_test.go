package control

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants are the guards between the two authorities made void, and the test that must see it.
var mutants = []mutanttest.Mutant{
	{Name: "the peers' authority gives commands", File: "access.go", Old: `case mesh != nil && state.ServerName == mesh.Name:`, New: `case mesh == nil:`,
		Test: "TestRemoteControlOfTheMesh", Says: `got "", want "gives no command"`},
	{Name: "what it may not is done", File: "access.go", Old: `who.role, who.mesh = mayOwn, true`, New: `who.role, who.mesh = mayLook, true`,
		Test: "TestRemoteControlOfTheMesh", Says: `got "", want "gives no command"`},
	{Name: "sessions go on", File: "access.go", Old: `SessionTicketsDisabled: true,`, New: ``,
		Test: "TestRemoteControlOfTheMesh", Says: "a session was taken up again"},
	{Name: "a connection outlives its certificate", File: "server.go", Old: `server.SetKeepAlivesEnabled(false)`, New: ``,
		Test: "TestRemoteControl", Says: "2 requests were answered"},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
