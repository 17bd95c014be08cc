package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/embedded/plan"
)

func (w *world) TryLock(ctx context.Context, value, old []byte, _ time.Duration) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute {
		w.mu.Unlock()
		<-ctx.Done()
		w.mu.Lock()
		return nil, ctx.Err()
	}
	if w.member.Alarmed(plan.NoSpace) || w.member.Alarmed(plan.Corrupt) {
		return nil, errors.New("grant its lease: etcdserver: mvcc: database space exceeded")
	}
	if w.locked != nil && !bytes.Equal(w.locked, old) {
		return w.locked, plan.ErrConflict
	}
	w.lock(value)
	return nil, nil
}

func (w *world) RefreshLock(_ context.Context, value []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !bytes.Equal(w.locked, value) {
		return plan.ErrConflict
	}
	return nil
}

func (w *world) Unlock(_ context.Context, value []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Equal(w.locked, value) {
		w.lock(nil)
	}
	return nil
}

// lock sets the lock; the caller holds the mutex.
func (w *world) lock(value []byte) {
	w.locked, w.member.Lock = value, nil
	if value != nil {
		w.member.Lock = new(plan.Lock)
		if err := json.Unmarshal(value, w.member.Lock); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) lockBy(slot, node string) {
	value, err := json.Marshal(plan.Lock{Slot: slot, Node: node, Purpose: "stop", Since: time.Now().UTC()})
	if err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lock(value)
}

func (w *world) holder() *plan.Lock {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.member.Lock
}

// One member at a time: the lock says who holds it, is taken over from the slot's previous process, and is returned.
func TestDisrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		stop := live(t, c)
		time.Sleep(5 * time.Second) // virtual
		w.lockBy("b", "n2")
		if _, err := c.turn.lock(t.Context(), "defrag", time.Minute); !errors.Is(err, plan.ErrConflict) ||
			!strings.Contains(err.Error(), "n2 (slot b) holds the disruption lock (stop) since") {
			t.Errorf("got %v", err)
		}
		w.lockBy("a", "n1")
		value, err := c.turn.lock(t.Context(), "defrag", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if l := w.holder(); l == nil || l.Node != "n1" || l.Slot != "a" || l.Purpose != "defrag" {
			t.Errorf("the lock is %v", l)
		}
		c.turn.unlock(t.Context(), value)
		if l := w.holder(); l != nil {
			t.Errorf("it was not given back: %v", l)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// What keeps a leader from handing over is what is at risk without it.
func TestRiskOfALeaderWithoutAnHeir(t *testing.T) {
	w, _ := serving(t)
	w.heirless = fmt.Errorf("%w: no quorum of voters is connected", plan.ErrUnhealthy)
	if risk := w.holding().turn.cede(t.Context()); !strings.Contains(risk, "no quorum of voters is connected") {
		t.Errorf("got %q", risk)
	}
}
