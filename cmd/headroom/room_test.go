package headroom

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const mib = 1 << 20

// unset takes the user's variables away, and restores what this process had.
func unset(t *testing.T) {
	t.Helper()
	t.Setenv("GOGC", "")
	t.Setenv("AUTOMEMLIMIT", "0.9")
	limit := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })
}

func unknown() (uint64, error) { return 0, errors.New("cannot be read") }

func unlimited() (uint64, error) { return 0, memlimit.ErrNoLimit }

func TestLimitOfTheMachine(t *testing.T) {
	for _, c := range []struct {
		name           string
		cgroup, system memlimit.Provider
		want           int64
	}{
		{"the cgroup's", memlimit.Limit(1000 * mib), memlimit.Limit(8000 * mib), 900 * mib},
		{"a cgroup that allows more than there is", memlimit.Limit(9000 * mib), memlimit.Limit(1000 * mib), 900 * mib},
		{"no limit in the cgroup", unlimited, memlimit.Limit(1000 * mib), 900 * mib},
		{"no cgroup", unknown, memlimit.Limit(1000 * mib), 900 * mib},
		{"the machine's is not known", memlimit.Limit(1000 * mib), unknown, 900 * mib},
		{"nothing is known", unlimited, unknown, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			unset(t)
			debug.SetMemoryLimit(math.MaxInt64)
			core, logs := observer.New(zap.InfoLevel)
			r := newRoom(zap.New(core), c.cgroup, c.system)
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("memory limit: got %d, want %d", got, c.want)
			}
			if want := budgetOf(c.want); r.budget != want {
				t.Errorf("budget: got %d, want %d", r.budget, want)
			}
			said := logs.FilterMessage("garbage collector set").All()
			if len(said) != 1 || said[0].ContextMap()["memory-limit"] != c.want || said[0].ContextMap()["budget"] != r.budget {
				t.Errorf("got log %v, want one line with limit %d and budget %d", said, c.want, r.budget)
			}
		})
	}
}

func TestUsersLimitStands(t *testing.T) {
	unset(t)
	t.Setenv("GOMEMLIMIT", "640MiB") // the runtime has read it at the start of a process
	debug.SetMemoryLimit(640 * mib)
	r := newRoom(zap.NewNop(), memlimit.Limit(1000*mib), memlimit.Limit(8000*mib))
	if got := debug.SetMemoryLimit(-1); got != 640*mib {
		t.Errorf("memory limit: got %d, want the user's %d", got, 640*mib)
	}
	if r.budget != 20*mib {
		t.Errorf("budget: got %d, want that of the user's limit, %d", r.budget, 20*mib)
	}
}

func TestUsersFactorStands(t *testing.T) {
	for _, own := range []string{"50", "100", "off"} {
		unset(t)
		t.Setenv("GOGC", own)
		r := newRoom(zap.NewNop(), memlimit.Limit(1000*mib), memlimit.Limit(8000*mib))
		r.set = func(percent int) int { t.Errorf("GOGC=%s: set to %d", own, percent); return percent }
		ended, end := context.WithCancel(t.Context())
		end()
		if err := r.Run(ended); err != nil {
			t.Error(err)
		}
	}
}

// story runs a room over seconds of a life, each with what the heap is and what was allocated, and returns the factors
// that were set.
func story(t *testing.T, seconds ...reading) (factors []int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		second, allocs := 0, int64(0)
		r := &Room{budget: 64 * mib, read: func() reading {
			now := seconds[min(second, len(seconds)-1)]
			if second > 0 {
				allocs += now.allocs
			}
			second++
			return reading{live: now.live, allocs: allocs}
		}, set: func(percent int) int { factors = append(factors, percent); return 123 }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- r.Run(ctx) }()
		for range seconds[1:] {
			time.Sleep(every) // of the bubble's clock
			synctest.Wait()
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return factors
}

func TestRunFollowsTheLoad(t *testing.T) {
	idle, busy := reading{16 * mib, 1 * mib}, reading{16 * mib, 100 * mib}
	for _, c := range []struct {
		name    string
		seconds []reading
		want    []int // it begins with Go's own, and ends with what was there before
	}{
		{"an idle node does not grow", slices.Repeat([]reading{idle}, 60), []int{100, 123}},
		{"load gets the budget, once", slices.Concat([]reading{idle}, slices.Repeat([]reading{busy}, 60)), []int{100, 400, 123}},
		{"a heap that changes little changes nothing", []reading{busy, busy, {17 * mib, 100 * mib}, {15 * mib, 100 * mib}},
			[]int{100, 400, 123}},
		{"a heap that grows gets a smaller factor", []reading{busy, busy, {32 * mib, 100 * mib}, {640 * mib, 100 * mib}},
			[]int{100, 400, 200, 100, 123}},
		{"it shrinks after the load", slices.Concat([]reading{busy, busy}, slices.Repeat([]reading{idle}, 60)),
			[]int{100, 400, 195, 100, 123}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := story(t, c.seconds...); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

var kept, garbage []byte

// The runtime counts what is expected of it.
func TestRead(t *testing.T) {
	r := read()
	before := r()
	kept = make([]byte, 32*mib)
	for range 32 {
		garbage = make([]byte, mib)
	}
	runtime.GC()
	after := r()
	if grown := after.live - before.live; grown < 30*mib || grown > 48*mib {
		t.Errorf("live: %d more, want about %d", grown, 32*mib)
	}
	if allocated := after.allocs - before.allocs; allocated < 64*mib || allocated > 80*mib {
		t.Errorf("allocs: %d more, want about %d", allocated, 64*mib)
	}
}
