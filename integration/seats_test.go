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
	// minStories run at a time in any case, and no more than maxStories. They wait for much of their time: between the
	// two, another one begins when the processor was free for some of the last seconds. On a slow machine, too, no story
	// is made late by the others.
	minStories, maxStories = 4, 8
	freeEnough             = 0.25
)

// seats are those of the stories that run.
var seats = &hall{free: sync.NewCond(&sync.Mutex{})}

// hall admits stories by how busy the machine is.
type hall struct {
	free  *sync.Cond
	taken int
	watch sync.Once
	spare bool // the processor was free enough since the last story began
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

// look admits one story more every few seconds if the processor was free in between: what the last one needs shows only
// after a while.
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

// processor returns how long the processor was free for stories since the machine began, and how long that is.
func processor() (free, all uint64) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return ticks(string(stat), err == nil && priority == 20) // what the system call returns is 20 less nice
}

// ticks reads proc_stat(5), for all cores. Waiting for a disk is not free, for the stories wait for it. What runs beside
// them at a lower priority (.ci/beside) yields to them, and so it is, unless their own priority is as low.
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

// What runs at a lower priority keeps no story waiting, but for one that is as low.
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
