package coordinator

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"

	"go.uber.org/zap"
)

// A panic in a decision is our bug, and must not end the process. All nodes see the same, so all would end, again at
// each start, and nobody could inspect them. The panic is reported, and the node waits (R20).

// The names of what has panicked, in reports.
const (
	theDecision = "the decision"
	theFacts    = "what is told to the other nodes"
	theNames    = "who answers for the members' names"
	theCampaign = "whether to start an election"
)

// entryBug is the kind of a history entry about a panic.
const entryBug = "bug"

// bugs remembers what panics at present.
type bugs struct {
	lg      *zap.Logger
	history *history

	mu    sync.Mutex
	shown map[string]string // by what has failed
}

// guard calls f. It returns "", or a report for people if f panicked. The caller must hold no lock.
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

// all are the current reports.
func (b *bugs) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Values(b.shown))
}
