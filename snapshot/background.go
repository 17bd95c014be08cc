package snapshot

import (
	"os"
	"runtime"
	"sync"
)

// niceness is that of the threads that hash, compress and check. The member that serves runs in this process. On Linux
// niceness belongs to a thread (setpriority(2)): of a busy core the member's threads get nine tenths, one of these the
// rest.
const niceness = 10

// room is how many processors of the runtime (GOMAXPROCS) there are for threads that give way, beside those that the
// member has. That many are busy at once: one reads or writes, one hashes, two compress.
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

// giveWay makes the calling goroutine, until it ends, one that gives way to all others. It gets a thread of its own,
// which ends with it: niceness cannot be taken back, and the runtime neither uses such a thread for anything else nor
// starts others from it (runtime.LockOSThread). It belongs inside of background.
//
// Niceness is not enough, and yielding now and then even less: while a goroutine is ready for each processor of the
// runtime, that looks for what the network has brought every 10 ms only (runtime/proc.go, findRunnable and sysmon). So
// these threads have processors of their own, and the kernel shares out the cores.
func giveWay() {
	runtime.LockOSThread()
	lowerThread(niceness)
}

// roomy counts the backgrounds under way.
var roomy struct {
	sync.Mutex
	users, before int // before is the number of the runtime's processors without them, 0 if there is no room
}

// makeRoom makes none where the runtime has fewer processors than there are cores, by the environment or by a quota of
// the control group: what these threads used of that on more cores, the member would lack at once.
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
		runtime.SetDefaultGOMAXPROCS() // which goes by the quota, also by those to come
	} else {
		runtime.GOMAXPROCS(roomy.before)
	}
	roomy.before = 0
}
