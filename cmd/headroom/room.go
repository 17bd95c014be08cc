package headroom

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
)

// every is how often the heap is looked at.
const every = time.Second

// Room is the headroom of this process.
type Room struct {
	budget int64 // bytes; 0 where the user's GOGC stands
	read   func() reading
	set    func(percent int) (previous int)
}

// reading is what the runtime counts, in bytes.
type reading struct {
	live   int64 // what GOGC applies to: the heap that the last collection left, stacks and globals
	allocs int64 // all that was ever allocated
}

// New sets the memory limit of the process, unless the user did, and logs what is in force.
func New(lg *zap.Logger) *Room {
	return newRoom(lg, memlimit.FromCgroup, memlimit.FromSystem)
}

func newRoom(lg *zap.Logger, cgroup, system memlimit.Provider) *Room {
	r := &Room{read: read(), set: debug.SetGCPercent}
	limit, err := memlimit.Set(memlimit.WithProvider(smaller(cgroup, system)))
	if err != nil {
		lg.Warn("no memory limit set, because the memory of this machine is not known", zap.Error(err))
	}
	if own := os.Getenv("GOGC"); own != "" {
		lg.Info("garbage collector set", zap.String("GOGC", own), zap.Int64("memory-limit", limit))
		return r
	}
	r.budget = budgetOf(limit)
	lg.Info("garbage collector set", zap.Int64("budget", r.budget), zap.Int64("memory-limit", limit))
	return r
}

// smaller is the cgroup's limit or the machine's memory, whichever is less or known.
func smaller(cgroup, system memlimit.Provider) memlimit.Provider {
	return func() (uint64, error) {
		ram, ramErr := system()
		limit, err := cgroup()
		switch {
		case err == nil && ramErr == nil:
			return min(limit, ram), nil
		case err == nil:
			return limit, nil
		case ramErr == nil:
			return ram, nil
		}
		return 0, errors.Join(err, ramErr)
	}
}

// Run lets the factor follow the heap until ctx ends, and then restores it.
func (r *Room) Run(ctx context.Context) error {
	if r.budget == 0 {
		return nil
	}
	current := standard
	first := r.set(current)
	defer func() { r.set(first) }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, at, rate := r.read(), time.Now(), int64(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, t := r.read(), time.Now()
		// It falls by half at most, so that a pause between two bursts does not shrink the room.
		rate = max(int64(float64(now.allocs-last.allocs)/t.Sub(at).Seconds()), rate/2)
		last, at = now, t
		if percent := percentOf(now.live, rate, r.budget); differs(percent, current) {
			r.set(percent) // stops the world for a moment
			current = percent
		}
	}
}

// differs reports whether a new factor is worth setting: it is more than a tenth away from the current one.
func differs(percent, current int) bool {
	return percent > current+current/10 || percent < current-current/10
}

// read returns a function that reads the runtime's counters.
func read() func() reading {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	return func() reading {
		metrics.Read(samples)
		at := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
		return reading{live: at(0) + at(1) + at(2), allocs: at(3)}
	}
}
