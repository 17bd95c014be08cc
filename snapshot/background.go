package snapshot

import (
	"os"
	"runtime"
	"sync"
)

// niceness is that of the threads that hash, compress and check, since the serving member runs in the same process. On
// Linux niceness belongs to a thread (setpriority(2)). On a busy core the member's threads get nine tenths of the time,
// and one of these threads the rest.
const niceness = 10

// room is how many processors (GOMAXPROCS) the runtime gets for background threads, in addition to those for the
// member. That many are busy at once: one reads or writes, one hashes, two compress.
const room = 4

// background runs do in a goroutine that gives way to all others, and waits for it.
func background(do func()) {
	makeRoom()
	defer takeRoom()
	var wg sync.WaitGroup
	wg.Go(func() {
		giveWay()
		do()
	})
	wg.Wait()
}

// giveWay makes the calling goroutine give way to all others until it ends. It gets its own thread, which ends with it:
// niceness cannot be raised again, and the runtime neither reuses such a thread nor starts others from it
// (runtime.LockOSThread). Call it only inside background.
//
// Niceness alone is not enough, and yielding even less. While each processor of the runtime has a runnable goroutine,
// the runtime polls the network only every 10 ms (runtime/proc.go, findRunnable and sysmon). So these threads have
// their own processors, and the kernel shares out the cores.
func giveWay() {
	runtime.LockOSThread()
	lowerThread(niceness)
}

// roomy counts the running background calls.
var roomy struct {
	sync.Mutex
	users, before int // before is the number of processors without them, 0 if none were added
}

// makeRoom adds the processors, unless the runtime has fewer than there are cores, because of the environment or a
// quota of the control group. The member would then miss what these threads used of its quota on more cores.
func makeRoom() {
	roomy.Lock()
	defer roomy.Unlock()
	if roomy.users++; roomy.users > 1 || runtime.GOMAXPROCS(0) < runtime.NumCPU() {
		return
	}
	roomy.before = runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(roomy.before + room)
}

func takeRoom() {
	roomy.Lock()
	defer roomy.Unlock()
	if roomy.users--; roomy.users > 0 || roomy.before == 0 {
		return
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS() // this follows the quota, even if it changes later
	} else {
		runtime.GOMAXPROCS(roomy.before)
	}
	roomy.before = 0
}
