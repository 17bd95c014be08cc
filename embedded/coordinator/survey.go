package coordinator

import (
	"strings"

	"holdfast/embedded/plan"
)

// Surveyed is what a cluster could be recovered from, and what a recovery would do.
type Surveyed struct {
	Record *plan.Record `json:"record"` // the generation that would end
	plan.Survey
	Chosen  plan.Survivor `json:"survivor"`
	Missing []string      `json:"missing,omitempty"` // still to be declared lost
	Refusal string        `json:"refusal,omitempty"` // why it cannot be done so
	Declare []string      `json:"declare,omitempty"` // all slots to declare lost, if that makes it possible
	Able    bool          `json:"able"`              // possible once these are declared lost
}

// Survey answers from what a node knows. lost is a comma-separated list of slots.
func Survey(o plan.Observation, lost, survivor string) Surveyed {
	r := Surveyed{Survey: o.Survey()}
	declared := strings.FieldsFunc(lost, func(c rune) bool { return c == ',' })
	r.Chosen, r.Refusal = r.Choose(declared, survivor)
	r.Missing = r.Survey.Missing(declared)
	if all, incurable := r.Survey.Declare(declared, survivor); incurable != "" {
		r.Refusal = incurable
	} else {
		r.Declare, r.Able = all, true
	}
	for _, p := range append(o.Peers, plan.Peer{Facts: &plan.Facts{Record: o.Disk.Ledger.Record}}) {
		if f := p.Facts; f != nil && f.Record != nil && (r.Record == nil || f.Record.Generation > r.Record.Generation) {
			r.Record = f.Record
		}
	}
	return r
}
