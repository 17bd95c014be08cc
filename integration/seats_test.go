package integration_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// At least minStories and at most maxStories run at the same time, because they wait most of their time. Between the
	// two, another story begins when the processor was mostly idle during the last seconds. So even on a slow machine,
	// stories do not delay each other.
	minStories, maxStories = 4, 8
	freeEnough             = 0.25
)

// seats are the seats of the running stories.
var seats = &hall{free: sync.NewCond(&sync.Mutex{})}

// hall admits stories according to the load of the machine.
type hall struct {
	free  *sync.Cond
	taken int
	watch sync.Once
	spare bool // the processor was idle enough since the last story began
}

func (r *hall) take() {
	r.watch.Do(func() { go r.look() })
	r.free.L.Lock()
	defer r.free.L.Unlock()
	for r.taken >= minStories && (r.taken >= maxStories || !r.spare) {
		r.free.Wait()
	}
	r.taken++
	r.spare = false
}

func (r *hall) leave() {
	r.free.L.Lock()
	defer r.free.L.Unlock()
	r.taken--
	r.free.Signal()
}

// look admits one more story every few seconds if the processor was idle in between. The load of a new story shows
// only after a while.
func (r *hall) look() {
	free, all := processor()
	for range time.Tick(4 * time.Second) {
		nowFree, nowAll := processor()
		r.free.L.Lock()
		r.spare = nowAll > all && float64(nowFree-free)/float64(nowAll-all) >= freeEnough
		r.free.L.Unlock()
		r.free.Signal()
		free, all = nowFree, nowAll
	}
}

// processor returns how long the processor was free for stories since the machine started, and the time since then.
func processor() (free, all uint64) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return ticks(string(stat), err == nil && priority == 20) // the system call returns 20 minus nice
}

// ticks parses proc_stat(5) for all cores. Time spent waiting for a disk does not count as free, because the stories
// wait for it. Time of processes at a lower priority (.ci/beside) counts as free, because they yield to the stories,
// unless the stories have the same priority.
func ticks(stat string, normal bool) (free, all uint64) {
	line, _, _ := strings.Cut(stat, "\n")
	var user, nice, system, idle, waiting, irq, soft, steal uint64
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &waiting, &irq, &soft, &steal); err != nil {
		return 0, 0
	}
	free = idle
	if normal {
		free += nice
	}
	return free, user + nice + system + idle + waiting + irq + soft + steal
}

// Processes at a lower priority keep no story waiting, except one with the same priority.
func TestTicks(t *testing.T) {
	const stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
	for normal, want := range map[bool]uint64{true: 4020, false: 4000} {
		if free, all := ticks(stat, normal); free != want || all != 87654321 {
			t.Errorf("normal priority %t: got %d of %d, want %d of 87654321", normal, free, all, want)
		}
	}
	if free, all := processor(); all == 0 || free == 0 {
		t.Errorf("this machine: got %d of %d", free, all)
	}
}
