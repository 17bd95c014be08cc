// Package model_test makes spin check how a generation ends, and checks that spin finds the flaw of each mutant. See
// doc.go.
package model_test

import (
	"testing"

	"holdfast/integration/spintest"
)

const (
	holds    = spintest.Holds
	violated = spintest.Violated
)

// variants is the table: the protocol must hold, and everything else must be found. E is the protocol. P1 to P6 are the
// mutants, by the property that must catch each. U leaves out what no property misses. L is a limit that we know. W are
// witnesses that something can happen.
var variants = []spintest.Variant{
	{Name: "E", What: "the protocol", Defs: "", Want: holds},
	{Name: "E-dead", What: "no dead end", Defs: "FINAL CR=0", Want: holds},
	{Name: "E-away", What: "recoveries without the store", Defs: "STORELESS CR=0", Want: holds, Long: true},
	{Name: "E-any", What: "the later proposal names any voters", Defs: "REPEAT CR=0", Want: holds, Long: true},

	{Name: "P1", What: "nobody who is called lost objects", Defs: "ONLY=1 NOOBJECT", Want: violated},
	{Name: "P1", What: "L is shorter than a poll and an abort", Defs: "ONLY=1 SHORTL", Want: violated},
	{Name: "P1", What: "without the store, put as an outcome", Defs: "ONLY=1 STORELESS PUTDIRECT", Want: violated},
	{Name: "P2", What: "who has prepared counts as left", Defs: "ONLY=2 NOLEAVE", Want: violated},
	{Name: "P2", What: "a restart forgets that the voter left", Defs: "ONLY=2 FORGETLEFT", Want: violated},
	{Name: "P2", What: "who left for another proposal counts", Defs: "ONLY=2 LEFTANY", Want: violated},
	{Name: "P2", What: "a start does not wait for the store", Defs: "ONLY=2 NOWAIT", Want: violated},
	{Name: "P2", What: "without the store, some voters not named", Defs: "ONLY=2 STORELESS SOMENAMED", Want: violated},
	{Name: "P2", What: "a led end counts lost voters as gone", Defs: "ONLY=2 LEDLOST", Want: violated},
	{Name: "P2", What: "a leader came back: it is a conflict", Defs: "ONLY=2 STRICT19", Want: violated},
	{Name: "P3", What: "a record alone is followed", Defs: "ONLY=3 RECORDALONE", Want: violated},
	{Name: "P3", What: "one peer's record is followed, not heirs'", Defs: "ONLY=3 ANYPEER", Want: violated},
	{Name: "P4", What: "abort and conclusion are two objects", Defs: "ONLY=4 TWOOBJECTS", Want: violated},
	{Name: "P5", What: "consent stops members, the abort wins", Defs: "ONLY=5 FINAL CR=0 CONSENTSTOPS", Want: violated},
	{Name: "P5", What: "an objection is repeated", Defs: "ONLY=5 FINAL CR=0 OBJECTALWAYS", Want: violated},
	{Name: "P5", What: "data is set aside before the child serves", Defs: "ONLY=5 FINAL CR=0 ASIDEATONCE", Want: violated},
	{Name: "P6", What: "no operator confirmed it here", Defs: "ONLY=6 ANYCONSENT", Want: violated},
	{Name: "P6", What: "consent is enough to conclude", Defs: "ONLY=6 ANYCONCLUDES", Want: violated},

	{Name: "U", What: "a leader to conclude, for P2", Defs: "ONLY=2 ANYCONCLUDES CR=0", Want: holds, Long: true},
	{Name: "U", What: "objections of voters without a leader", Defs: "NOLONE CR=0", Want: holds, Long: true},
	{Name: "U", What: "heirs, and waiting for a record", Defs: "NOHEIRS RECORDIGNORED", Want: holds, Long: true},

	{Name: "L", What: "one living voter named lost is enough", Defs: "ONLY=2 NAMED", Want: violated},

	{Name: "W", What: "a led restore serves", Defs: "ONLY=0 WITNESS=1", Want: violated},
	{Name: "W", What: "a recovery serves, all disks here", Defs: "ONLY=0 WITNESS=2", Want: violated},
	{Name: "W", What: "an objection was quoted, its voter stops", Defs: "ONLY=0 WITNESS=3", Want: violated},
	{Name: "W", What: "two generations serve, a lost voter lives", Defs: "ONLY=0 WITNESS=4", Want: violated},
	{Name: "W", What: "the store learns what was done without it", Defs: "ONLY=0 STORELESS WITNESS=5", Want: violated},
	{Name: "W", What: "a majority, after a voter had left", Defs: "ONLY=0 WITNESS=6", Want: violated},
	{Name: "W", What: "a returned voter's data saves the cluster", Defs: "ONLY=5 FINAL CR=0 WITNESS=7", Want: violated},
}

func TestModel(t *testing.T) {
	for i := range variants {
		variants[i].File = "end.pml"
	}
	spintest.Check(t, variants)
}
