package coordinator

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

// The store is asked for the newest backup only while a member has been without a leader for a while: a serving cluster
// costs no requests. An answer from before a leader came back is discarded.
func TestNewestBackupOfTheLeaderless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := restorable(t)
		w.backups.stand = plan.BackupStand{Name: "b1", Generation: 1, Revision: 50}
		w.data.Log = plan.LogEnd{Term: 2, Index: 9}
		c := w.coordinator("a", "b", "c")
		stop := live(t, c)
		known := func() *plan.BackupStand { return c.Now().Observation.Store.Newest }
		asked := func() int { w.backups.mu.Lock(); defer w.backups.mu.Unlock(); return w.backups.newest }
		lead := func(has bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.member = plan.Member{Running: true, Ready: true, Status: plan.Status{HasLead: has, Confirmed: has}, ID: 1, Members: []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c"}}}
		}
		time.Sleep(time.Hour)
		if asked() != 0 || known() != nil {
			t.Errorf("with a leader: asked %d times, known %v", asked(), known())
		}
		lead(false)
		time.Sleep(leaderless + 5*tick)
		if s := known(); asked() != 1 || s == nil || *s != w.backups.stand {
			t.Errorf("without a leader: asked %d times, known %v", asked(), s)
		}
		time.Sleep(10 * newestAge)
		if n := asked(); n < 10 || n > 11 {
			t.Errorf("asked %d times in ten minutes, want once a minute", n)
		}
		w.backups.mu.Lock()
		w.backups.err = errors.New("connection refused")
		w.backups.mu.Unlock()
		time.Sleep(newestAge + 5*tick)
		if s := known(); s == nil || s.Unknown != "connection refused" || s.Name != "" {
			t.Errorf("a store that does not answer: known %v", s)
		}
		lead(true)
		time.Sleep(5 * tick)
		if s := known(); s != nil {
			t.Errorf("with a leader again: known %v", s)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
