package coordinator

import "testing"

// An action that was decided before the volume was set aside must not begin afterwards: it would start the old member
// on the blank disk.
func TestNoActionOnWhatWasSeenBeforeAnOrder(t *testing.T) {
	c := newWorld(t).coordinator("a")
	h := c.holding
	_, before := h.undisturbed()
	if !h.begin(true, before) {
		t.Error("without an order: an action does not begin")
	}
	h.ended()
	if _, err := h.order(c.status, func(held, Situation) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if alone, since := h.undisturbed(); alone || h.begin(true, since) {
		t.Error("an action begins during an order")
	}
	h.open()
	if h.begin(true, before) {
		t.Error("an action begins that was decided before the order")
	}
	if alone, since := h.undisturbed(); !alone || !h.begin(true, since) {
		t.Error("after the order: an action does not begin")
	}
}
