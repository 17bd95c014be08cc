package coordinator

import (
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// A status says what a proposal waits for on this node: an operator's confirmation, a leader's objection, or its
// outcome.
func TestRestoringSaysForWhatItWaits(t *testing.T) {
	founding := record("a")
	led := &plan.Stand{Node: "n2"}
	consent := &plan.Consent{Record: founding.ID, Proposal: "p"}
	for name, tc := range map[string]struct {
		led       *plan.Stand
		consent   *plan.Consent
		heard     *plan.Facts // of another live node
		left      *plan.Left
		objecting time.Duration
		blank     bool
		state     string
		waits     string // empty: for nothing
	}{
		"nobody has confirmed it":      {led: led, state: health.RestoreUnconfirmed, waits: "`holdfast restore --confirm p`"},
		"another one was confirmed":    {led: led, consent: &plan.Consent{Record: founding.ID, Proposal: "q"}, state: health.RestoreUnconfirmed, waits: "--confirm p"},
		"it is confirmed":              {led: led, consent: consent, state: health.RestoreWaiting},
		"another node has heard of it": {led: led, heard: &plan.Facts{Consent: "p"}, state: health.RestoreWaiting},
		"it waits for a leader":        {objecting: 9200 * time.Millisecond, state: health.RestoreWaiting, waits: "leaves its generation in 10 s unless a leader objects"},
		"it waits, and is blank":       {objecting: 9 * time.Second, blank: true, state: health.RestoreWaiting, waits: "waits 9 s more for a leader that objects"},
		"it has left":                  {left: &plan.Left{Proposal: "p"}, objecting: time.Second, state: health.RestoreWaiting, waits: "has left its generation"},
		"it has left for another one":  {left: &plan.Left{Proposal: "q"}, objecting: time.Second, state: health.RestoreWaiting, waits: "in 1 s"},
		"it is leaderless":             {state: health.RestoreWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			var o plan.Observation
			o.Disk.Ledger.Record, o.Disk.Ledger.Left, o.Member.Consent = &founding, tc.left, tc.consent
			o.Disk.WAL = !tc.blank
			o.Store.Restore = &plan.Restore{ID: "p", Line: []string{founding.ID}, Led: tc.led}
			o.Peers = []plan.Peer{{Node: "n3", Facts: &plan.Facts{Consent: "p"}}, {Node: "n4", Live: true}} // one is lost, one has published nothing
			if tc.heard != nil {
				o.Peers = append(o.Peers, plan.Peer{Node: "n2", Live: true, Facts: tc.heard})
			}
			st := Situation{Observation: o, Objecting: tc.objecting}.Restoring()
			if st.ID != "p" || st.State != tc.state || (st.Waits() == "") != (tc.waits == "") || !strings.Contains(st.Text(), tc.waits) {
				t.Errorf("got %+v: %s", st, st.Text())
			}
		})
	}
}
