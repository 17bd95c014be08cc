package discover

import (
	"fmt"
	"time"
)

const (
	// lookEvery is how often the files are looked at when nothing has changed: others write to /etc/hosts, too.
	lookEvery = 5 * time.Second
	// gather is how long the first word of a leader waits for that of the other members. Where one of them is dead
	// there never is a complete view.
	gather = 5 * time.Second
)

// Feed is where a [Watcher] hears of the members.
type Feed interface {
	View() View               // of this moment
	Changed() <-chan struct{} // tells that there may be another view
	Problems() []string       // why little may be heard, one sentence each
}

// Places says in a few words where each member is.
func Places(entries []Entry) []string {
	texts := make([]string, 0, len(entries))
	for _, e := range entries {
		texts = append(texts, fmt.Sprintf("%s=%s (%s)", e.Slot, e.Address, e.Node))
	}
	return texts
}

// State is what a watcher knows, and what it could not write.
type State struct {
	Known   bool     // a leader was heard of
	Entries []Entry  // what is told
	Missing []string // slots whose members were never heard of
	Failed  []string // why files are not up to date
}
