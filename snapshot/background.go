package snapshot

import (
	"runtime"
	"sync"
)

// niceness is that of the threads that hash, compress and check. The member that serves runs in this process. On Linux
// niceness belongs to a thread (setpriority(2)): of a busy core the member's threads get nine tenths, one of these the
// rest.
const niceness = 10

// background runs do in a goroutine that gives way to all others, and waits for it.
func background(do func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		giveWay()
		do()
	})
	wg.Wait()
}

// giveWay makes the calling goroutine, until it ends, one that gives way to all others. It gets a thread of its own,
// which ends with it: niceness cannot be taken back, and the runtime neither uses such a thread for anything else nor
// starts others from it (runtime.LockOSThread).
//
// Yielding now and then is not enough: while any goroutine is ready to continue, the runtime looks for what the network
// has brought every 10 ms only (runtime/proc.go, findRunnable and sysmon). On 2 cores, with 400 puts a second beside
// Save, in turns, at a load average of 16: p99 of the puts 13 ms alone, 108 ms where these goroutines yielded after
// each chunk of 128 KiB, 22 ms with this.
func giveWay() {
	runtime.LockOSThread()
	lowerThread(niceness)
}
