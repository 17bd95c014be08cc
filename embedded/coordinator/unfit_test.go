package coordinator

import (
	"errors"
	"fmt"
	"net"
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

// A start that failed for lack of an address or a certificate says nothing against the data, so that is not set aside.
// Any other failed start may be the data's fault.
func TestSetAsideAfterAFailedStart(t *testing.T) {
	taken := &net.OpError{Op: "listen", Net: "tcp", Err: errors.New("address already in use")}
	expired := Outside{errors.New("the authority has expired")}
	const fine = "nothing is wrong with the content of slot a"
	for why, want := range map[error]string{taken: fine, expired: fine, errors.New("crc mismatch"): ""} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			r := record("a")
			if err := (ledgerV1{Version: 1, Etcd: "3.7.3", Ledger: plan.Ledger{Record: &r, Role: plan.RoleFounder,
				Started: "disk-a"}}).write(w.dir); err != nil {
				t.Fatal(err)
			}
			w.data = plan.DataDir{WAL: true, Member: 1, ClusterID: 77}
			w.startErr = fmt.Errorf("start member a: %w", why)
			c := w.coordinator("a")
			stop := live(t, c)
			time.Sleep(time.Minute)
			err := c.SetVolumeAside(t.Context())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), why.Error())) {
				t.Errorf("%v: got %v, want %q", why, err, want)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
