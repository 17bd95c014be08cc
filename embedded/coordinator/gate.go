package coordinator

// gate keeps actions and an operator's orders about the volume apart.
type gate struct {
	dead   bool   // the volume was lost: nothing begins any more, and nothing is written
	busy   bool   // an action is being carried out
	closed bool   // the volume is being set aside or released, or the member drained: nothing begins
	orders uint64 // how often it was closed
}

// undisturbed reports whether no operator's order about the volume is in progress, and how many there have been. What
// was observed during an order may be half done. So it is not acted on, even if the order is over by then.
func (h *holding) undisturbed() (alone bool, since uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.held.gate.closed, h.held.gate.orders
}

// begin notes whether an action is carried out, and reports whether it may be: no order may have come since the
// observation that it relies on.
func (h *holding) begin(act bool, since uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &h.held.gate
	g.busy = act && !g.dead && !g.closed && g.orders == since
	return g.busy
}

// ended notes that the action is over.
func (h *holding) ended() { h.set(func(now *held) { now.gate.busy = false }) }

// order begins an operator's order about the volume, unless obstacle forbids it: no action begins until open. It reads
// the status under the lock. That is safe because an action is noted in the gate before the status shows it, and an
// action that has ended is noted in the status first.
func (h *holding) order(s *status, obstacle func(held, Situation) error) (Volume, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := obstacle(h.held, s.last()); err != nil {
		return nil, err
	}
	h.held.gate.closed, h.held.gate.orders = true, h.held.gate.orders+1
	return h.held.volume, nil
}

// open ends an operator's order.
func (h *holding) open() { h.set(func(now *held) { now.gate.closed = false }) }

// engaged reports whether something is being done with the volume.
func (h held) engaged() bool { return h.gate.busy || h.gate.closed || h.gate.dead }
