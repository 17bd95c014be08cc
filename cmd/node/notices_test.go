package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/volume/ebs"
)

func TestNotices(t *testing.T) {
	at := time.Unix(1700000000, 0)
	for name, test := range map[string]struct {
		plans          ebs.Lifecycle
		holds, standby bool
		want           int  // times the volume is given back in three looks, of which the first fails
		must           bool // it cannot wait for its turn
	}{
		"nothing is planned":        {ebs.Lifecycle{}, true, true, 0, false},
		"in service":                {ebs.Lifecycle{Target: "InService"}, true, true, 0, false},
		"standby of its group":      {ebs.Lifecycle{Target: "Standby"}, true, true, 0, false},
		"an interruption, now":      {ebs.Lifecycle{Action: "terminate", At: at}, true, false, 3, true},
		"an interruption":           {ebs.Lifecycle{Action: "terminate", At: time.Now().Add(time.Hour)}, true, false, 3, false},
		"an action of later":        {ebs.Lifecycle{Action: "dance", At: at}, true, false, 0, false},
		"back to the warm pool":     {ebs.Lifecycle{Target: "Warmed:Stopped"}, true, false, 3, false},
		"scale-in":                  {ebs.Lifecycle{Target: "Terminated"}, true, false, 3, false},
		"without a volume":          {ebs.Lifecycle{Action: "terminate", At: at}, false, true, 0, true},
		"rebalance, with a standby": {ebs.Lifecycle{Rebalance: at}, true, true, 2, false}, // once it succeeded, no more
		"rebalance, nobody waits":   {ebs.Lifecycle{Rebalance: at}, true, false, 0, false},
		"interruption after it":     {ebs.Lifecycle{Rebalance: at, Action: "stop", At: at}, true, false, 3, true},
	} {
		calls := 0
		n := &notices{
			planned:   func(context.Context) ebs.Lifecycle { return test.plans },
			confirmed: func(context.Context) ebs.Lifecycle { return test.plans },
			holds:     func() bool { return test.holds },
			standby:   func() bool { return test.standby },
			handBack: func(_ context.Context, why string, must bool) (plan.Volume, bool, error) {
				if calls++; must != test.must || why == "" {
					t.Errorf("%s: got %q, must: %t", name, why, must)
				}
				if calls == 1 {
					return plan.Volume{}, false, errors.New("this node is busy")
				}
				return plan.Volume{Slot: "a"}, true, nil
			},
			lg: zap.NewNop(),
		}
		for range 3 {
			n.look(t.Context())
		}
		if calls != test.want {
			t.Errorf("%s: given back %d times, want %d", name, calls, test.want)
		}
	}
}

// Who must go waits for its turn no longer than noticeGrace, and does not flap where the volume is given back but not
// detached.
func TestNoticesOverTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plans := ebs.Lifecycle{Target: "Terminated"}
		var must []bool
		dropped := false
		n := &notices{
			planned:   func(context.Context) ebs.Lifecycle { return plans },
			confirmed: func(context.Context) ebs.Lifecycle { return plans },
			holds:     func() bool { return true },
			standby:   func() bool { return true },
			handBack: func(_ context.Context, _ string, m bool) (plan.Volume, bool, error) {
				must = append(must, m)
				return plan.Volume{}, dropped, errors.New("it would be a risk")
			},
			lg: zap.NewNop(),
		}
		n.look(t.Context())
		time.Sleep(noticeGrace)
		n.look(t.Context())
		plans.Target = "InService" // it was taken back, and comes again
		n.look(t.Context())
		plans.Target = "Terminated"
		n.look(t.Context())
		if want := []bool{false, true, false}; !slices.Equal(must, want) {
			t.Errorf("got %v, want %v", must, want)
		}
		plans, dropped, must = ebs.Lifecycle{Rebalance: time.Now()}, true, nil
		n.look(t.Context())
		n.look(t.Context())
		if len(must) != 1 {
			t.Errorf("heeded a recommendation %d times, want once", len(must))
		}
	})
}

// What is known from before counts for nothing until the metadata service says it again: an instance that comes back
// from hibernation, or from a copy of its memory, knows a notice whose time is long past, and stays.
func TestOldNotices(t *testing.T) {
	past := time.Unix(1700000000, 0)
	soon := ebs.Lifecycle{Action: "terminate", At: time.Now().Add(time.Hour)}
	for name, test := range map[string]struct {
		known, now ebs.Lifecycle
		want       []bool // for each time the volume is given back in two looks: it cannot wait for its turn
	}{
		"an old interruption":            {ebs.Lifecycle{Action: "hibernate", At: past}, ebs.Lifecycle{}, nil},
		"an old scale-in":                {ebs.Lifecycle{Target: "Terminated"}, ebs.Lifecycle{Target: "InService"}, nil},
		"an old recommendation":          {ebs.Lifecycle{Rebalance: past}, ebs.Lifecycle{}, nil},
		"one that came in its place":     {ebs.Lifecycle{Action: "hibernate", At: past}, soon, []bool{false, false}},
		"one after a recommendation":     {ebs.Lifecycle{Rebalance: past}, soon, []bool{false, false}},
		"a recommendation in its place":  {ebs.Lifecycle{Target: "Terminated"}, ebs.Lifecycle{Rebalance: past}, []bool{false}},
		"the same, and it is heeded now": {ebs.Lifecycle{Rebalance: past}, ebs.Lifecycle{Rebalance: past}, []bool{false}},
	} {
		var must []bool
		n := &notices{
			planned:   func(context.Context) ebs.Lifecycle { return test.known },
			confirmed: func(context.Context) ebs.Lifecycle { return test.now },
			holds:     func() bool { return true },
			standby:   func() bool { return true },
			handBack: func(_ context.Context, _ string, m bool) (plan.Volume, bool, error) {
				must = append(must, m)
				return plan.Volume{Slot: "a"}, true, nil
			},
			lg: zap.NewNop(),
		}
		n.look(t.Context())
		n.look(t.Context())
		if !slices.Equal(must, test.want) {
			t.Errorf("%s: got %v, want %v", name, must, test.want)
		}
	}
}

// Only a node that is here, and waits for a volume of the zone, can take one that is given back. What it says is what its
// facts have: it neither holds a volume, nor is drained, about to stop, or in another zone.
func TestStandsBy(t *testing.T) {
	const zone = "eu-west-1a"
	waits := plan.Observation{Node: "n9", Claim: plan.Claim{None: "all are held", Standby: zone}}
	elsewhere, warm, drained, stopping, holds := waits, waits, waits, waits, waits
	elsewhere.Claim.Standby, warm.Claim.Standby, drained.Drained, stopping.Stopping = "eu-west-1b", "", true, true
	holds.Claim = plan.Claim{Held: true, Slot: "a", Disk: "x", Epoch: 1}
	for name, test := range map[string]struct {
		says plan.Observation
		gone bool
		zone string // of the volume
		want bool
	}{
		"it waits":                        {waits, false, zone, true},
		"it is gone":                      {waits, true, zone, false},
		"it is in another zone":           {elsewhere, false, zone, false},
		"it is in a warm pool, or unsure": {warm, false, zone, false},
		"it is drained":                   {drained, false, zone, false},
		"it is about to stop":             {stopping, false, zone, false},
		"it holds a volume":               {holds, false, zone, false},
		"the zone is not known":           {warm, false, "", false},
	} {
		state, err := json.Marshal(test.says.Facts(nil))
		must(t, err)
		peer := gossip.Node{Live: !test.gone, State: state}
		if got := standsBy(peer, test.zone); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
	if standsBy(gossip.Node{Live: true, State: []byte("{")}, zone) {
		t.Error("a node whose facts cannot be read stands by")
	}
}
