package headroom

import (
	"math"
	"time"
)

const (
	// maxBudget is the largest budget in bytes: what a member may cost beside others on a small machine.
	maxBudget = 64 << 20
	// share is the part of the memory limit that the budget may be: a 1/share.
	share = 32
	// apart is the time between two collections that is enough: less often saves next to nothing.
	apart = 5 * time.Second
	// standard is Go's own GOGC.
	standard = 100
	// ample bounds the factor of a tiny heap.
	ample = 2000
)

// budgetOf returns the bytes of garbage that a process may keep under this memory limit, in bytes.
func budgetOf(limit int64) int64 {
	return min(max(limit, 0)/share, maxBudget)
}

// percentOf returns the GOGC for a heap: live is what the factor applies to, in bytes, rate is what is allocated, in
// bytes a second. It is never below Go's own 100.
func percentOf(live, rate, budget int64) int {
	if live <= 0 {
		return standard
	}
	wanted := math.Min(float64(rate)*apart.Seconds(), float64(budget))
	return int(min(max(wanted*100/float64(live), standard), ample))
}
