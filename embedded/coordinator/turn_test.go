package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"holdfast/embedded/plan"
)

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
