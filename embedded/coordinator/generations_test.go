package coordinator

import (
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// A disk follows nothing without a valid signature. Its own generation needs no proof, and a blank disk cannot verify
// any.
func TestProven(t *testing.T) {
	at := func(generation uint64) *plan.Record { return &plan.Record{Generation: generation} }
	told := plan.Store{ID: "s", Record: at(3), Unproven: 3, Doubt: "record-000003.json: it is not signed"}
	for name, tc := range map[string]struct {
		s      plan.Store
		own    *plan.Record
		counts bool
	}{
		"a blank disk":             {told, nil, true},
		"an older generation":      {told, at(2), false},
		"a much older one":         {told, at(1), false},
		"the same":                 {told, at(3), true},
		"nothing is without proof": {plan.Store{ID: "s", Record: at(3)}, at(1), true},
	} {
		got := proven(tc.s, tc.own)
		if counts := got.Unknown == ""; counts != tc.counts || counts && got.ID == "" {
			t.Errorf("%s: got %+v", name, got)
		}
		if !tc.counts && (!got.Unread || got.Record != nil || !strings.Contains(got.Unknown, "record-000003.json: it is not signed")) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
