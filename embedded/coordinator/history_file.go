package coordinator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

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
