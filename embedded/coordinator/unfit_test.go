package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// Data on which etcd would panic is not tried again and again: the node waits, says why, and continues when the data is
// repaired.
func TestUnfitDataWaitsUntilItIsCured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := record("a")
		if err := (ledgerV1{Version: 1, Etcd: "3.6.16", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder, Started: "disk-a"}}).write(w.dir); err != nil {
			t.Fatal(err)
		}
		w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77}
		w.unfit = plan.Unfit{Err: errors.New("made by etcd 3.8")}
		w.startErr = fmt.Errorf("start member a: %w", w.unfit)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(time.Minute)
		if now := c.Now(); now.Action.Kind != plan.Wait || !strings.Contains(now.Action.Text(), "slot a does not start: made by etcd 3.8") || now.Err != "" {
			t.Errorf("got %s: %s, error %q", now.Action.Kind, now.Action.Text(), now.Err)
		}
		w.mu.Lock()
		if len(w.starts) != 1 {
			t.Errorf("started %d times in a minute, want once", len(w.starts))
		}
		w.unfit, w.startErr = nil, nil
		w.mu.Unlock()
		time.Sleep(2 * refitEvery)
		if now := c.Now(); now.State() != "leader" {
			t.Errorf("after it was cured: got %s: %s", now.State(), now.Action.Text())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestOtherFailuresAreNotUnfit(t *testing.T) {
	c := newWorld(t).coordinator("a")
	c.holding.noteUnfit("dir", errors.New("address in use"))
	if c.holding.held.unfit.why != "" {
		t.Errorf("got %q", c.holding.held.unfit.why)
	}
}
