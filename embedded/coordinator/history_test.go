package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"holdfast/embedded/plan"
)

func command(i int) Entry {
	return Entry{Node: "n1", Kind: EntryCommand, Why: fmt.Sprintf("command %d %s", i, strings.Repeat("x", 200))}
}

// However many decisions there are, two files of bounded size hold the newest ones, in order.
func TestHistoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	h := newHistory(zaptest.NewLogger(t), "n1")
	h.keep(dir)
	const all = 20_000
	for i := range all {
		h.remember(command(i))
		if i%100 == 99 {
			h.flush()
		}
	}
	h.leave()
	total := int64(0)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 2*historySize || total < historySize || len(files) != 2 {
		t.Errorf("%d bytes in %d files, want at most %d in 2", total, len(files), 2*historySize)
	}
	got := ReadHistory(dir)
	first := all - len(got.Entries)
	for i, e := range got.Entries {
		if !strings.HasPrefix(e.Why, fmt.Sprintf("command %d ", first+i)) {
			t.Fatalf("entry %d of %d: got %.20s, want command %d", i, len(got.Entries), e.Why, first+i)
		}
		if i > 0 && !e.Time.After(got.Entries[i-1].Time) {
			t.Fatalf("entry %d has the time %s after %s", i, e.Time, got.Entries[i-1].Time)
		}
	}
	if got.Problem != "" {
		t.Error(got.Problem)
	}
}

// A crash damages the last line: it is skipped and reported, and the following lines are intact.
func TestHistoryTornLine(t *testing.T) {
	dir := t.TempDir()
	if err := appendHistory(dir, []Entry{command(1), command(2)}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, historyFile)
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-40)
	}
	if err == nil {
		err = appendHistory(dir, []Entry{command(3)})
	}
	if err != nil {
		t.Fatal(err)
	}
	got := ReadHistory(dir)
	if len(got.Entries) != 2 || !strings.HasPrefix(got.Entries[1].Why, "command 3 ") || !strings.Contains(got.Problem, "1 lines are damaged") {
		t.Errorf("got %d entries, %q", len(got.Entries), got.Problem)
	}
}

// If the history cannot be written, the newest entries are kept in memory and written later; dropped entries are
// reported.
func TestHistoryUnwritable(t *testing.T) {
	dir := t.TempDir()
	h := newHistory(zaptest.NewLogger(t), "n1")
	h.keep(filepath.Join(dir, "is-not-there"))
	for i := range historyQueue {
		h.remember(command(i))
	}
	h.flush()
	if h.problem == "" {
		t.Error("no problem is told")
	}
	for i := range 7 {
		h.remember(command(historyQueue + i))
	}
	h.flush()
	h.keep(dir)
	h.flush()
	got := ReadHistory(dir).Entries
	if len(got) != historyQueue || got[0].Dropped != 7 || !strings.HasPrefix(got[0].Why, "command 7 ") || h.problem != "" {
		t.Errorf("got %d entries, the first %.20s after %d dropped ones, problem %q", len(got), got[0].Why, got[0].Dropped, h.problem)
	}
}

// A disk that hangs does not block adding an entry, and delays the release of the volume only for a moment.
func TestHistoryHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(zaptest.NewLogger(t), "n1")
		hang := make(chan struct{})
		written := 0
		h.write = func(_ string, batch []Entry) error {
			<-hang
			written += len(batch)
			return nil
		}
		go h.run(t.Context())
		h.keep("disk")
		h.remember(command(0))
		synctest.Wait() // the disk hangs
		begin := time.Now()
		for i := range 10 * historyQueue {
			h.remember(command(1 + i))
		}
		h.leave()
		if took := time.Since(begin); took != historyLeave {
			t.Errorf("it took %s, want %s", took, historyLeave)
		}
		close(hang)
		synctest.Wait()
		if written != 1 || len(h.pending) != historyQueue || h.dropped != 9*historyQueue {
			t.Errorf("written %d, waiting %d, dropped %d: nothing is written after the volume is given up", written, len(h.pending), h.dropped)
		}
	})
}

// Decisions that repeat or alternate are recorded once a minute.
func TestHistoryRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHistory(zaptest.NewLogger(t), "n1")
		for range 90 {
			for _, e := range []Entry{{Kind: string(plan.Wait), Why: "b is away"}, {Kind: string(plan.Wait), Why: "c is away"},
				{Kind: string(plan.Start), Why: "x", Outcome: Done, Error: "no"},
				{Kind: string(plan.Start), Why: "x", Outcome: Done, Error: "no"}} {
				h.remember(e)
			}
			time.Sleep(time.Second)
		}
		var waits int
		for _, e := range h.pending {
			if e.Kind == string(plan.Wait) {
				waits++
			} else if e.Outcome != Failed {
				t.Errorf("got %+v, want it %s: it is done with an error", e, Failed)
			}
		}
		if waits != 4 || len(h.pending) != 6 {
			t.Errorf("%d waits of %d entries, want 4 of 6", waits, len(h.pending))
		}
	})
}

// The last line says what a node waits for, even if it waited for the same a moment ago and acted in between.
func TestHistoryEndsWithTheWait(t *testing.T) {
	h := newHistory(zaptest.NewLogger(t), "n1")
	serving := Entry{Kind: string(plan.Wait), Why: "serving"}
	for _, e := range []Entry{serving, {Kind: string(plan.Swap), Outcome: Done}, {Kind: string(plan.Wait), Why: "no quorum"}, {Kind: EntryCampaign, Outcome: Done}, serving} {
		h.remember(e)
	}
	if last := h.pending[len(h.pending)-1]; last.Why != serving.Why {
		t.Errorf("the history ends with %+v", last)
	}
}

// The last entry of a process says that it was told to stop, or why it could not continue.
func TestLastEntry(t *testing.T) {
	part := errors.New("port taken")
	for _, c := range []struct {
		err, cause error
		why, text  string
	}{
		{nil, context.Canceled, "the process was told to stop", ""},
		{nil, part, "the process cannot continue", "port taken"},
		{errors.New("etcd ended"), nil, "the process cannot continue", "etcd ended"},
		{errors.New("etcd ended"), context.Canceled, "the process cannot continue", "etcd ended"},
	} {
		if e := lastEntry(c.err, c.cause); e.Kind != EntryStop || e.Why != c.why || e.Error != c.text || (e.Outcome == Failed) != (c.text != "") {
			t.Errorf("%v, %v: got %+v", c.err, c.cause, e)
		}
	}
}

// A node's life is recorded: in memory while the volume is blank, and then on the volume.
func TestHistoryOfALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a")
		run := live(t, c)
		time.Sleep(3 * time.Second)
		if h := c.History(time.Time{}); len(h.Entries) == 0 || h.Problem != "" {
			t.Errorf("got %+v", h)
		}
		if err := run(); err != nil {
			t.Error(err)
		}
		var kinds []string
		for _, e := range ReadHistory(w.dir).Entries {
			kinds = append(kinds, e.Kind+" "+e.Outcome)
		}
		for _, want := range []string{"acquire begun", "acquire done", "promise done", "commit done", "start done", "stop "} {
			if !strings.Contains(strings.Join(kinds, ","), want) {
				t.Errorf("no %q in %q", want, kinds)
			}
		}
	})
}

// A volume without a ledger may have to be given up without a trace: nothing is written to it.
func TestHistoryLeavesBlankVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.coordinator("a", "b") // b has no holder
		run := live(t, c)
		time.Sleep(3 * time.Second)
		if err := run(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(w.dir, historyFile)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the blank volume has a history: %v", err)
		}
	})
}
