package coordinator

import (
	"strings"

	"holdfast/embedded/plan"
)

// Surveyed is what there is to recover a cluster from, and what would be done.
type Surveyed struct {
	Record *plan.Record `json:"record"` // the generation that would end
	plan.Survey
	Chosen  plan.Survivor `json:"survivor"`
	Missing []string      `json:"missing,omitempty"` // have to be declared lost, beside those that are
	Refusal string        `json:"refusal,omitempty"` // why it cannot be done so
	Declare []string      `json:"declare,omitempty"` // the slots to declare lost in all, if it can be done at all
	Able    bool          `json:"able"`              // it can be done with these declared lost
}

// Survey answers with what a node knows. lost are slots with commas between.
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
