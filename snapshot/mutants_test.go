package snapshot

import (
	"testing"

	"holdfast/integration/mutanttest"
)

// mutants are the guards against a store that shows or gives less than it has, made void.
var mutants = []mutanttest.Mutant{
	{Name: "the listing is all there is", File: "scan.go", Old: `		if there {`, New: `		if there && false {`,
		Test: "TestPruneAsksForWhatIsNotListed", Says: "backups are left"},
	{Name: "a deletion is believed", File: "prune.go", Old: `err == nil && there {`, New: `err == nil && there && false {`,
		Test: "TestDeletionThatWasNotDone", Says: "delete: got <nil>"},
	{Name: "the listing shows every pin", File: "prune.go", Old: `	if pinned {`, New: `	if pinned && now.has(pinObject) {`,
		Test: "TestPruneAsksForWhatIsNotListed", Says: "without holdfast.pin.json in the listing"},
	{Name: "what does not tell holds nothing", File: "order.go", Old: `b.Problem != "" && !b.told()`, New: `b.Problem == "never" && !b.told()`,
		Test: "TestUntold", Says: "cut short: got <nil>"},
	{Name: "cut short is damaged", File: "scan.go", Old: `size > 0 && int64(len(text)) != size`, New: `size < 0 && int64(len(text)) != size`,
		Test: "TestUntold", Says: "cut short: got"},
	{Name: "damaged since holds nothing", File: "order.go", Old: `			backups[i].Problem = ""`, New: `			backups[i].Failed = nil`,
		Test: "TestUntold", Says: "counts for what it held"},
	{Name: "data that is gone was never there", File: "order.go", Old: `was != ""`, New: `was == "never"`,
		Test: "TestUntold", Says: "doubt: got <nil>"},
	{Name: "a copy goes by the listing", File: "scan.go", Old: `return c.entries[0], c.entries[0].complete(ctx, store)`, New: `return c.entries[0], nil`,
		Test: "TestCopyAsksForWhatIsNotListed", Says: "(got|what was there)"},
	{Name: "what is not given is not there", File: "verify.go", Old: `case e.has(meta.Stored.dataObject()):`, New: `case e.has("never"):`,
		Test: "TestListedDataIsNotMissing", Says: "listed: damaged true"},
	{Name: "the newest backup is listed", File: "mark.go", Old: `if id.Cluster == "" {`, New: `if id.Cluster != "" {`,
		Test: "TestOutdatedListing", Says: "held most"},
	{Name: "the last one saved is the newest", File: "mark.go", Old: `m.compare(known) <= 0`, New: `m.Name == known.Name`,
		Test: "TestNewestMark", Says: "a leader of an older generation"},
	{Name: "a store never goes back in time", File: "keeper.go", Old: `!most.beyond(h.most)`, New: `most.Name != ""`,
		Test: "TestStoreSetBack", Says: "doubt <nil>"},
	{Name: "the mark is listed", File: "manager.go", Old: `	if created {`, New: `	if created && len(c.entries) > 0 {`,
		Test: "TestManagedAsksForTheMark", Says: "got \"\""},
}

func TestMutants(t *testing.T) { mutanttest.Check(t, mutants) }
