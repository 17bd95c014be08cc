package coordinator

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	"go.uber.org/zap"
)

// A panic in what decides is a bug of ours, and must not end the process: all nodes see the same, so that all would
// end, at each start again, and nobody could look at them. It is told, and the node waits (R20).

// theDecision and so on name in reports what has failed.
const (
	theDecision = "the decision"
	theFacts    = "what is told to the other nodes"
	theNames    = "who answers for the members' names"
	theCampaign = "whether to start an election"
)

// entryBug is the kind of an entry in the history on something that panicked.
const entryBug = "bug"

// bugs remembers what panics at present.
type bugs struct {
	lg      *zap.Logger
	history *history

	mu    sync.Mutex
	shown map[string]string // by what has failed
}

// guard calls f. It returns "", or what to tell people when f panicked. The caller holds no lock.
func (b *bugs) guard(what string, f func()) (bug string) {
	var stack []byte
	func() {
		defer func() {
			if r := recover(); r != nil {
				stack = debug.Stack()
				bug = fmt.Sprintf("%s failed: %v; this is a bug: please report it with the log, which has the stack, "+
					"and with `holdfast history`", what, r)
			}
		}()
		f()
	}()
	b.mu.Lock()
	news := bug != b.shown[what]
	if bug == "" {
		delete(b.shown, what)
	} else {
		b.shown[what] = bug
	}
	b.mu.Unlock()
	if bug != "" && news {
		b.lg.Error("a decision panicked", zap.String("why", bug), zap.ByteString("stack", stack))
		b.history.remember(Entry{Kind: entryBug, Why: what, Error: bug})
	}
	return bug
}

// all are the bugs that show at present.
func (b *bugs) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Values(b.shown))
}
