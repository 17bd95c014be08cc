package ebs

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// A request without an answer in the journal may have been sent a moment ago, whatever its time says: the wall clock
// may have been set forward or back since. So its age is what this process has seen of it.
func TestClockWasSetSinceTheRequest(t *testing.T) {
	for name, d := range map[string]time.Duration{"right": 0, "set forward": -24 * time.Hour, "set back": 30 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			sent := map[string]time.Time{"vol-1": time.Now().Add(d)}
			m := &machine{journal: Journal{Instance: "i-1", Attaching: sent, Detaching: sent}}
			p := New(Default(), Node{}, m, Host{Memory: m, Disks: m, Devices: m.devices}, nil, nil, zap.NewNop())
			p.me = Self{Instance: "i-1"}
			for at, want := range []struct {
				after                time.Duration
				attaching, detaching bool
			}{{0, true, true}, {unsettled - time.Second, true, true}, {time.Second, false, true},
				{zombie - unsettled - time.Second, false, true}, {2 * time.Second, false, false}} {
				time.Sleep(want.after)
				open, err := p.requests.settle(t.Context(), nil)
				_, attaching := m.journal.Attaching["vol-1"]
				_, detaching := m.journal.Detaching["vol-1"]
				if err != nil || attaching != want.attaching || detaching != want.detaching || (open != "") != attaching {
					t.Errorf("%s, %d: attaching %v, detaching %v, open %q, %v; want %+v", name, at, attaching, detaching, open, err, want)
				}
			}
		})
	}
}
