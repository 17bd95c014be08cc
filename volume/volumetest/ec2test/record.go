package ec2test

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Interval is how long a volume was attached: from the answer of AttachVolume until it was free again.
type Interval struct {
	Volume, Instance string
	From             time.Time
	To               time.Time // zero while it is attached
	Forced           bool

	serial uint64
}

// Call is a kind of request and its caller.
type Call struct {
	Action, Caller string
	Force          bool // a DetachVolume that was forced
}

// Count is how often a call was made, even if a fault kept it from being executed.
type Count struct {
	Call
	N int
}

// record is what has happened. The zero value is ready for use.
type record struct {
	mu        sync.Mutex
	calls     map[Call]int
	intervals []Interval
}

func (r *record) call(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[Call]int{}
	}
	r.calls[c]++
}

func (r *record) begin(volume string, a Attachment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intervals = append(r.intervals, Interval{Volume: volume, Instance: a.Instance, From: a.Since, serial: a.serial})
}

func (r *record) end(volume string, a Attachment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.intervals {
		if r.intervals[i].serial == a.serial {
			r.intervals[i].To = time.Now()
			r.intervals[i].Forced = a.Force
		}
	}
}

// Calls returns how often a caller has called an action; "" means any.
func (c *Cloud) Calls(action, caller string) int {
	sum := 0
	for _, n := range c.Counts() {
		if (action == "" || n.Action == action) && (caller == "" || n.Caller == caller) {
			sum += n.N
		}
	}
	return sum
}

// Counts returns all calls, ordered by action and caller.
func (c *Cloud) Counts() []Count {
	c.record.mu.Lock()
	defer c.record.mu.Unlock()
	var counts []Count
	for call, n := range c.record.calls {
		counts = append(counts, Count{call, n})
	}
	slices.SortFunc(counts, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Caller, b.Caller))
	})
	return counts
}

// Intervals returns when volumes were attached, ordered by their beginning.
func (c *Cloud) Intervals() []Interval {
	c.record.mu.Lock()
	defer c.record.mu.Unlock()
	return slices.Clone(c.record.intervals)
}

// Overlaps returns the pairs of intervals in which one volume was attached twice at the same time.
func Overlaps(all []Interval) [][2]Interval {
	var found [][2]Interval
	for i, a := range all {
		for _, b := range all[i+1:] {
			apart := !a.To.IsZero() && !a.To.After(b.From) || !b.To.IsZero() && !b.To.After(a.From)
			if a.Volume == b.Volume && !apart {
				found = append(found, [2]Interval{a, b})
			}
		}
	}
	return found
}
