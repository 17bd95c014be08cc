package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// The history is the node's account of what it decided and did, and of operators' commands, on the volume it holds. It
// is for people and decides nothing, so it may have gaps, which it mentions. Adding an entry never waits for the disk.

// Kinds of entries that are not actions.
const (
	EntryStart   = "start"   // of the process
	EntryStop    = "stop"    // of the process, after it stopped its member
	EntryEnd     = "end"     // of the previous process, on its own
	EntryReload  = "reload"  // of the configuration
	EntryCommand = "command" // by an operator, on this node
	EntryAuth    = "auth"    // a step of etcd's users and roles
	// EntryCampaign is an election that this member started early.
	EntryCampaign = "campaign"
)

// The outcome of an action or a command.
const (
	Begun  = "begun"
	Done   = "done"
	Failed = "failed"
)

// Entry is a line of the history.
type Entry struct {
	Time       time.Time `json:"time"` // rises with each entry of a process
	Node       string    `json:"node"`
	Slot       string    `json:"slot,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	Kind       string    `json:"kind"` // a [plan.Kind], or one of the above
	Why        string    `json:"why,omitempty"`
	Reason     string    `json:"reason,omitempty"`  // of a campaign: a [plan.Reason]
	Outcome    string    `json:"outcome,omitempty"` // empty for a decision to wait; Failed if it is Done with an Error
	Seconds    float64   `json:"seconds,omitempty"` // duration
	Error      string    `json:"error,omitempty"`
	By         string    `json:"by,omitempty"`      // who gave the command
	Dropped    int       `json:"dropped,omitempty"` // entries that are missing before this one
}

const (
	historyQueue  = 512              // entries that may wait for the disk; beyond that, the oldest are dropped
	historyRepeat = time.Minute      // how long the same decision to wait is not repeated
	historyRetry  = 10 * time.Second // pause before the disk is tried again
	historyLeave  = time.Second      // how long the last entries may take when the volume is released
	historyText   = 4 << 10          // longest text of an entry, in bytes
)

// history collects entries and writes them to the volume, in a goroutine of its own.
type history struct {
	lg    *zap.Logger
	write func(dir string, entries []Entry) error
	wake  chan struct{}
	busy  chan struct{} // holds a value during a write to the disk

	mu      sync.Mutex
	dir     string // on the volume; "" while there is none to write to
	place   Entry  // whose node, slot and generation the next entries have
	pending []Entry
	writing []Entry
	dropped int // since the last entry
	last    Entry
	waits   map[string]time.Time // decisions to wait since the last other action
	problem string
}

func newHistory(lg *zap.Logger, node string) *history {
	return &history{lg: lg, place: Entry{Node: node}, write: appendHistory, wake: make(chan struct{}, 1),
		busy: make(chan struct{}, 1), waits: map[string]time.Time{}}
}

// remember queues an entry with this node's current place, and never blocks. What is done with an error has failed. It
// drops repetitions.
func (h *history) remember(e Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Node, e.Slot, e.Generation = h.place.Node, h.place.Slot, h.place.Generation
	e.Time = time.Now().UTC().Round(0)
	if e.Outcome == Done && e.Error != "" {
		e.Outcome = Failed
	}
	e.Why, e.Error = e.Why[:min(len(e.Why), historyText)], e.Error[:min(len(e.Error), historyText)]
	if h.stale(e) {
		return
	}
	if !e.Time.After(h.last.Time) {
		e.Time = h.last.Time.Add(1)
	}
	h.last = e
	if len(h.pending) >= historyQueue {
		h.pending = slices.Delete(h.pending, 0, 1)
		h.dropped++
	}
	h.pending = append(h.pending, e)
	wake(h.wake)
}

// stale reports whether an entry repeats the last one, or a recent decision to wait: two obstacles that alternate would
// fill the file. The caller holds the lock.
func (h *history) stale(e Entry) bool {
	l := h.last
	if e.Kind != EntryCommand && e.Kind == l.Kind && e.Why == l.Why && e.Outcome == l.Outcome && e.Error == l.Error {
		return true
	}
	if e.Outcome == Done { // the next wait is news, even if it is the same as before
		clear(h.waits)
	}
	if e.Kind != string(plan.Wait) {
		return false
	}
	for why, at := range h.waits {
		if e.Time.Sub(at) > historyRepeat {
			delete(h.waits, why)
		}
	}
	if _, known := h.waits[e.Why]; known {
		return true
	}
	h.waits[e.Why] = e.Time
	return false
}

// at sets the slot and the generation of the following entries.
func (h *history) at(o plan.Observation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.place.Slot, h.place.Generation = o.Claim.Slot, 0
	if r := o.Disk.Ledger.Record; r != nil {
		h.place.Generation = r.Generation
	}
}

// keep sets the directory of the history; "" means none for now.
func (h *history) keep(dir string) {
	h.mu.Lock()
	changed := h.dir != dir
	h.dir = dir
	h.mu.Unlock()
	if changed && dir != "" {
		wake(h.wake)
	}
}

// run writes until ctx ends.
func (h *history) run(ctx context.Context) {
	retry := time.NewTicker(historyRetry)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		case <-retry.C:
		}
		h.flush()
	}
}

// leave writes the remaining entries and stops using the volume. It does not wait for a disk that hangs.
func (h *history) leave() {
	durable.Soon(historyLeave, func() error {
		h.flush()
		return nil
	})
	h.keep("")
}

// flush writes the waiting entries.
func (h *history) flush() {
	h.busy <- struct{}{}
	defer func() { <-h.busy }()
	h.mu.Lock()
	dir, batch := h.dir, h.pending
	if dir == "" || len(batch) == 0 {
		h.mu.Unlock()
		return
	}
	batch[0].Dropped, h.dropped = h.dropped, 0
	h.pending, h.writing = nil, batch
	h.mu.Unlock()
	err := h.write(dir, batch)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writing = nil
	if err == nil {
		h.problem = ""
		return
	}
	if h.problem == "" {
		h.lg.Warn("could not write the history; it will be tried again", zap.Error(err))
	}
	h.problem = err.Error()
	all := slices.Concat(batch, h.pending)
	excess := max(0, len(all)-historyQueue)
	h.dropped += batch[0].Dropped + excess
	batch[0].Dropped, all[0].Dropped = 0, 0
	h.pending = all[excess:]
}

// History is what a node knows of its volume's past.
type History struct {
	Entries []Entry `json:"entries"`           // the oldest first
	Problem string  `json:"problem,omitempty"` // why it is incomplete
}

// readTime bounds the reading of a disk that may hang.
const readTime = 2 * time.Second

// after returns the entries after a time, including those that are not on the disk yet.
func (h *history) after(after time.Time) History {
	h.mu.Lock()
	dir, problem, dropped := h.dir, h.problem, h.dropped
	fresh := slices.Concat(h.writing, h.pending)
	h.mu.Unlock()
	var out History
	if dir != "" {
		var ok bool
		if out, ok = durable.Soon(readTime, func() History { return ReadHistory(dir) }); !ok {
			out.Problem = fmt.Sprintf("the history on the volume could not be read within %s: only what is in memory is shown",
				readTime)
		}
	}
	for _, e := range fresh { // some may have been written meanwhile
		same := func(o Entry) bool { return o.Time.Equal(e.Time) && o.Node == e.Node }
		if !slices.ContainsFunc(out.Entries[max(0, len(out.Entries)-2*historyQueue):], same) {
			out.Entries = append(out.Entries, e)
		}
	}
	if problem != "" {
		problem = fmt.Sprintf("not on the disk: %s (%d entries wait, %d were dropped)", problem, len(fresh), dropped)
	}
	out.Problem = cmp.Or(problem, out.Problem)
	out.Entries = slices.DeleteFunc(out.Entries, func(e Entry) bool { return !e.Time.After(after) })
	return out
}

// History returns the entries after a time, including those that are not on the disk yet.
func (c *Coordinator) History(after time.Time) History { return c.history.after(after) }

// Remember adds an entry about something other than a decision.
func (c *Coordinator) Remember(e Entry) { c.history.remember(e) }

// The history is two files of JSON lines on the volume. When the newer one is full, it replaces the older one.
const (
	historyFile  = "history.jsonl"
	historyOlder = "history.1.jsonl"
	historySize  = 2 << 20 // bytes of each
)

// appendHistory writes all entries or none, as far as the disk allows. It does not fsync: after a power failure, the
// last seconds may be missing.
func appendHistory(dir string, entries []Entry) error {
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			return fmt.Errorf("encode an entry of the history: %w", err)
		}
	}
	path := filepath.Join(dir, historyFile)
	// Anything else with that name, such as a pipe, must not block.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("find the end of %s: %w", path, err)
	}
	if size > 0 && size+int64(lines.Len()) > historySize {
		if err := os.Rename(path, filepath.Join(dir, historyOlder)); err != nil {
			return err
		}
		return appendHistory(dir, entries)
	}
	text := lines.Bytes()
	if last := make([]byte, 1); size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return err
		}
		if last[0] != '\n' { // a crash has cut the last line
			text = append([]byte{'\n'}, text...)
		}
	}
	if _, err := f.Write(text); err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	return nil
}

// ReadHistory reads the history on a volume, the oldest entry first. Damaged lines are skipped and counted.
func ReadHistory(dir string) History {
	var out History
	var problems []error
	for _, name := range []string{historyOlder, historyFile} {
		entries, err := ReadHistoryFile(filepath.Join(dir, name))
		out.Entries = append(out.Entries, entries...)
		if !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		out.Problem = err.Error()
	}
	return out
}

// ReadHistories reads the histories of all local volumes below root, and sorts them by time.
func ReadHistories(root string) (all History, err error) {
	slots, err := os.ReadDir(root)
	if err != nil {
		return all, err
	}
	for _, slot := range slots {
		if slot.IsDir() {
			h := ReadHistory(filepath.Join(root, slot.Name()))
			all.Entries = append(all.Entries, h.Entries...)
			all.Problem = cmp.Or(all.Problem, h.Problem)
		}
	}
	slices.SortStableFunc(all.Entries, func(a, b Entry) int { return a.Time.Compare(b.Time) })
	return all, nil
}

// ReadHistoryFile reads one file of a history. With an error, it returns the entries that could be read.
func ReadHistoryFile(path string) (entries []Entry, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	torn := 0
	for line := range bytes.Lines(data) {
		var e Entry
		if text := bytes.TrimSpace(line); len(text) == 0 {
			continue
		} else if json.Unmarshal(text, &e) != nil {
			torn++
			continue
		}
		entries = append(entries, e)
	}
	if torn > 0 {
		return entries, fmt.Errorf("%s: %d lines are damaged and were skipped", path, torn)
	}
	return entries, nil
}
