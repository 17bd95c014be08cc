package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/coordinator"
)

// historyOf runs `holdfast history args...` over a file of entries and returns what it prints.
func historyOf(t *testing.T, entries []coordinator.Entry, args ...string) (out, errs string) {
	t.Helper()
	var file bytes.Buffer
	for _, e := range entries {
		must(t, json.NewEncoder(&file).Encode(e))
	}
	path := filepath.Join(t.TempDir(), "history.jsonl")
	must(t, os.WriteFile(path, append(file.Bytes(), `{"time":`...), 0o600))
	root := newRoot()
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetArgs(append([]string{"history", "--file", path}, args...))
	must(t, root.ExecuteContext(t.Context()))
	return o.String(), e.String()
}

func TestHistoryCommand(t *testing.T) {
	now := time.Now()
	entries := []coordinator.Entry{
		{Time: now.Add(-3 * time.Hour), Node: "n1", Slot: "a", Generation: 1, Kind: "start", Why: "first"},
		{Time: now.Add(-30 * time.Minute), Node: "n1", Slot: "a", Kind: "replace", Why: "second", Outcome: "failed", Error: "no quorum", Seconds: 1.5},
		{Time: now, Node: "n2", Kind: "command", Why: "resume", By: "ops (uid 7)", Dropped: 4},
	}
	all, errs := historyOf(t, entries)
	for _, want := range []string{"first", "second: no quorum", "1.5s", "resume, by ops (uid 7)", "4 entries are missing"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if !strings.Contains(errs, "1 lines are damaged") {
		t.Errorf("the torn line is not told: %q", errs)
	}
	if got, _ := historyOf(t, entries, "--since", "1h"); strings.Contains(got, "first") || !strings.Contains(got, "second") {
		t.Errorf("--since 1h: got\n%s", got)
	}
	if got, _ := historyOf(t, entries, "--since", "1d"); !strings.Contains(got, "first") {
		t.Errorf("--since 1d: got\n%s", got)
	}
	if got, _ := historyOf(t, entries, "-n", "1", "-o", "json"); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"command"`) {
		t.Errorf("-n 1 -o json: got\n%s", got)
	}
}
