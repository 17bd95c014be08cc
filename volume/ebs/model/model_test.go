// Package model_test lets Spin check the models of the claim protocol, and checks that Spin finds the faults of their
// mutants. See README.md.
package model_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/integration/spintest"
)

const (
	holds    = spintest.Holds
	violated = spintest.Violated
)

// variant is a model with its definitions.
type variant struct {
	name string
	what string
	file string
	n    int    // nodes
	defs string // -D of each
	want string
	long bool // only in make prove
}

// variants is the table: the protocol must hold, and everything else must be found. V, R and T are the checks, M are
// mutants, L are known limits, W are witnesses that something can happen.
var variants = []variant{
	{"V1", "attach decides, tags are havoc", "claim.pml", 2, "", holds, false},
	{"V1m", "with release and marker", "claim.pml", 2, "RELEASE MARK", holds, false},
	{"V3b", "takeover of stopped, bounded", "claim.pml", 2, "TAKESTOP BOUNDED TAGREG", holds, false},
	{"V3h", "V3b, tags are havoc", "claim.pml", 2, "TAKESTOP BOUNDED", holds, false},
	{"R1", "release with journal and repeats", "claim.pml", 2, "RELEASE JOURNAL", holds, false},
	{"T1", "two volumes, waits for a time", "claim2.pml", 2, "EXPIRE LOST=1", holds, false},
	{"T2", "two volumes, waits until settled", "claim2.pml", 2, "SPREAD", holds, false},

	{"M-V1r", "release without marker", "claim.pml", 2, "RELEASE", violated, false},
	{"M-V2", "the tag is the lock", "claim.pml", 2, "NOARB", violated, false},
	{"M-V2t", "the tag, settled and converging", "claim.pml", 2, "NOARB TAGREG", violated, false},
	{"M-V3", "takeover of stopped, unbounded", "claim.pml", 2, "TAKESTOP", violated, false},
	{"M-V4", "detach of a running holder", "claim.pml", 2, "FORCE", violated, false},
	{"M-V5b", "adopts what a stale read shows", "claim.pml", 2, "RELEASE MARK STALEADOPT", violated, false},
	{"M-R2", "journal keeps from adopting only", "claim.pml", 2, "RELEASE JOURNAL ADOPTONLY", violated, false},
	{"M-R3", "any answer ends the entry", "claim.pml", 2, "RELEASE JOURNAL ANYANSWER", violated, false},
	{"M-R4", "a refused repeat ends the entry", "claim.pml", 2, "RELEASE JOURNAL REFUSEDENDS", violated, false},
	{"M-R5", "a restart loses the journal", "claim.pml", 2, "RELEASE JOURNAL FORGETFUL", violated, false},
	{"M-T1", "mounts whatever shows up", "claim2.pml", 2, "EXPIRE MOUNTALL", violated, false},
	{"M-T2", "surplus detached while mounted", "claim2.pml", 2, "EXPIRE NOUNMOUNT", violated, false},
	{"M-T3", "surplus detached, not journaled", "claim2.pml", 2, "EXPIRE NOJOURNAL", violated, false},
	{"M-T4", "goes on while not settled", "claim2.pml", 2, "SPREAD GOON", violated, false},

	{"L-V3z", "V3b, the detach comes late", "claim.pml", 2, "TAKESTOP BOUNDED TAGREG LATESEIZE", violated, false},
	{"L-T1", "T1 may be given two volumes", "claim2.pml", 2, "EXPIRE SPREAD", violated, false},

	{"W-V1m", "another node serves after one", "claim.pml", 2, "RELEASE MARK WITNESS", violated, false},
	{"W-R1", "another node serves, with journal", "claim.pml", 2, "RELEASE JOURNAL WITNESS", violated, false},
	{"W-T1", "serves after giving up surplus", "claim2.pml", 2, "EXPIRE WITNESS", violated, false},

	{"T1", "T1, two lost answers", "claim2.pml", 2, "EXPIRE LOST=2", holds, true},
	{"V1", "attach decides, tags are havoc", "claim.pml", 3, "", holds, true},
	{"V1m", "with release and marker", "claim.pml", 3, "RELEASE MARK", holds, true},
	{"M-V1r", "release without marker", "claim.pml", 3, "RELEASE", violated, true},
	{"M-V2", "the tag is the lock", "claim.pml", 3, "NOARB", violated, true},
	{"M-V2t", "the tag, settled and converging", "claim.pml", 3, "NOARB TAGREG", violated, true},
	{"M-V3", "takeover of stopped, unbounded", "claim.pml", 3, "TAKESTOP", violated, true},
	{"M-V4", "detach of a running holder", "claim.pml", 3, "FORCE", violated, true},
	{"M-V5b", "adopts what a stale read shows", "claim.pml", 3, "RELEASE MARK STALEADOPT", violated, true},
}

func TestModel(t *testing.T) {
	all := make([]spintest.Variant, len(variants))
	for i, v := range variants {
		all[i] = spintest.Variant{
			Name: fmt.Sprintf("%s-%d", v.name, v.n), What: v.what, File: v.file,
			Defs: strings.TrimSpace(fmt.Sprintf("N=%d %s", v.n, v.defs)), Want: v.want, Long: v.long,
		}
	}
	spintest.Check(t, all)
}
