package coordinator

import (
	"errors"
	"time"

	"holdfast/embedded/plan"
)

// refitEvery is how often data on which etcd was not started is checked again: an operator may have repaired it.
const refitEvery = 5 * time.Second

// unfit is data on which etcd was not started, because that would end the process again and again.
type unfit struct {
	why    string // "" for none
	dir    string
	looked time.Time
}

// noteUnfit remembers why etcd was not started, and reports whether the data is the reason: then the node waits from
// now on.
func (h *holding) noteUnfit(dir string, err error) bool {
	data, ok := errors.AsType[plan.Unfit](err)
	if !ok {
		return false
	}
	h.set(func(now *held) { now.unfit = unfit{data.Err.Error(), dir, time.Now()} })
	return true
}

// recheckUnfit checks such data again. It must not be called during an action, because it locks the directory.
func (h *holding) recheckUnfit() {
	now := h.now()
	u := now.unfit
	if u.why == "" || now.gate.dead || now.gate.closed || time.Since(u.looked) < refitEvery {
		return
	}
	if !h.noteUnfit(u.dir, h.world.Etcd.Fit(u.dir)) {
		h.set(func(now *held) { now.unfit = unfit{} })
	}
}
