package integration_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// minStories run at a time in any case, and no more than maxStories. They wait for much of their time: between the
	// two, another one begins when the processor was idle for some of the last seconds. On a slow machine, too, no story
	// is made late by the others.
	minStories, maxStories = 3, 8
	idleEnough             = 0.35
)

// seats are those of the stories that run.
var seats = &hall{free: sync.NewCond(&sync.Mutex{})}

// hall admits stories by how busy the machine is.
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

// look admits one story more every few seconds if the processor was idle in between: what the last one needs shows only
// after a while.
func (r *hall) look() {
	idle, all := processor()
	for range time.Tick(4 * time.Second) {
		nowIdle, nowAll := processor()
		r.free.L.Lock()
		r.spare = nowAll > all && float64(nowIdle-idle)/float64(nowAll-all) >= idleEnough
		r.free.L.Unlock()
		r.free.Signal()
		idle, all = nowIdle, nowAll
	}
}

// processor returns how long the processor was idle since the machine began, and how long that is, in ticks of all
// cores (proc_stat(5)); waiting for a disk is not idle here, for the stories wait for it.
func processor() (idle, all uint64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, waiting, irq, soft, steal uint64
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &waiting, &irq, &soft, &steal); err != nil {
		return 0, 0
	}
	return idle, user + nice + system + idle + waiting + irq + soft + steal
}
