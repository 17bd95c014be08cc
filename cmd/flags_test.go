package cmd

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/proposal"
	"holdfast/embedded/plan"
)

// A flag that means nothing is refused by name before a node or a store is asked. `recover --lost b,,c` was once
// proposed, and could then never be concluded.
func TestFlagsThatMeanNothing(t *testing.T) {
	for line, want := range map[string]string{
		"recover --lost b,,c --yes":              "--lost: a slot has no name",
		"recover --lost b, --yes":                "--lost: a slot has no name",
		"recover --timeout 0s --yes":             "--timeout: must be 1s or more",
		"recover --abort --lost b":               "say --abort alone",
		"recover --abort --survivor a":           "say --abort alone",
		"recover --abort --despite-backup b1":    "say --abort alone",
		"recover --despite-backup b1 --yes":      "say with --survivor which slot",
		"restore latest --lost ,b --yes":         "--lost: a slot has no name",
		"restore latest --timeout -5s --yes":     "--timeout: must be 1s or more",
		"drain --wait -5s":                       "--wait: must be 0s or more",
		"downgrade --to 3.6 --timeout -5s --yes": "--timeout: must be 1s or more",
		"history --since -1h":                    "--since: must be 0s or more",
		"history -n -3":                          "--number: must be 0 or more",
	} {
		c := newRoot()
		c.SetArgs(append(strings.Fields(line), "--node.data-dir", t.TempDir()))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("holdfast %s: got %v, want %q", line, err, want)
		}
	}
}

// People write a blank after a comma.
func TestLostWithBlanks(t *testing.T) {
	f := proposalFlags{Options: proposal.Options{Lost: []string{"b", " c"}, Timeout: time.Second}, format: "table"}
	if err := f.check(); err != nil || f.Lost[1] != "c" {
		t.Errorf("got %v, %q", err, f.Lost)
	}
}

// What cannot be done is not advised: `recover --survivor b --lost c` with b not here once printed a command that left
// --survivor out and declared b lost instead.
func TestRecoverAdvisesOnlyWhatWorks(t *testing.T) {
	record := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1, Seats: []plan.Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}, {Slot: "c", Disk: "d3"}}})
	facts := plan.Facts{Slot: "a", Disk: "d1", Phase: plan.PhaseData, Record: &record, Member: 1, Running: true, Store: "S", Log: &plan.LogEnd{Term: 2, Index: 9},
		Members: []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c"}}}
	o := plan.Observation{Node: "n9", Config: plan.Config{Slots: []string{"a", "b", "c"}}, Store: plan.Store{ID: "S", Record: &record},
		Peers: []plan.Peer{{Node: "n1", Live: true, Facts: &facts}}}
	for _, tc := range []struct{ lost, survivor, advice, refusal string }{
		{"", "", "holdfast recover --lost b,c --yes", "--lost b,c"},
		{"b", "a", "holdfast recover --lost b,c --survivor a --yes", "--lost b,c"},
		{"b,c", "", "holdfast recover --lost b,c --yes", ""},
		{"c", "b", "", "no recovery can go on from slot b"},
		{"a,b,c", "", "", "stop that node first"},
	} {
		var out bytes.Buffer
		c := &cobra.Command{}
		c.SetOut(&out)
		s := survey(o, tc.lost, tc.survivor)
		r := &restoration{c: c, b: &backupStore{output: "table"}}
		if err := r.showRecovery(s, tc.survivor, false); err != nil {
			t.Fatal(err)
		}
		if (tc.advice == "") == strings.Contains(out.String(), "to do it:") || !strings.Contains(out.String(), tc.advice) || !strings.Contains(s.Refusal, tc.refusal) {
			t.Errorf("--lost %q --survivor %q: got\n%s%s", tc.lost, tc.survivor, out.String(), s.Refusal)
		}
	}
}
