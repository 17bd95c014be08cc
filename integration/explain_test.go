package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/coordinator"
	"holdfast/integration"
)

// past returns the history that `holdfast history -o json` prints, with more arguments.
func past(t *testing.T, n *integration.Node, args ...string) []coordinator.Entry {
	t.Helper()
	o := n.Command(append([]string{"history", "-n", "0", "-o", "json"}, args...)...)
	if o.Code != 0 {
		t.Fatalf("history: exit code %d: %s", o.Code, o.Err)
	}
	return entries(t, o.Out)
}

// contains reports whether an entry of a kind and an outcome contains all texts.
func contains(all []coordinator.Entry, kind, outcome string, texts ...string) bool {
	return slices.ContainsFunc(all, func(e coordinator.Entry) bool {
		whole := e.Node + " " + e.Why + " " + e.By + " " + e.Error
		return e.Kind == kind && e.Outcome == outcome && !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(whole, text) })
	})
}

// explains waits until `holdfast status --why` contains all texts.
func explains(t *testing.T, c *integration.Cluster, n *integration.Node, texts ...string) {
	t.Helper()
	var out string
	c.Until(patience, fmt.Sprintf("status --why of %s has %q", n.Name, texts), func() error {
		o := n.Command("status", "--why")
		out = o.Out
		for _, text := range texts {
			if !strings.Contains(o.Out, text) {
				return fmt.Errorf("%q is not in\n%s%s", text, o.Out, o.Err)
			}
		}
		return nil
	})
	t.Logf("%s", out)
}

// entries parses the output of `holdfast history -o json`.
func entries(t *testing.T, out string) []coordinator.Entry {
	t.Helper()
	var all []coordinator.Entry
	for line := range strings.Lines(out) {
		var e coordinator.Entry
		must(t, json.Unmarshal([]byte(line), &e))
		all = append(all, e)
	}
	return all
}

// done runs a command that must succeed, and returns its output.
func done(t testing.TB, n *integration.Node, args ...string) string {
	t.Helper()
	o := n.Command(args...)
	if o.Code != 0 {
		t.Fatalf("holdfast %s: exit code %d: %s%s", strings.Join(args, " "), o.Code, o.Out, o.Err)
	}
	return o.Out
}

// refused runs a command that must be refused for a reason that contains text.
func refused(t *testing.T, n *integration.Node, text string, args ...string) {
	t.Helper()
	if o := n.Command(args...); o.Code != 1 || !strings.Contains(o.Err, text) {
		t.Errorf("holdfast %s: exit code %d, want 1 and %q: %s%s", strings.Join(args, " "), o.Code, text, o.Out, o.Err)
	}
}

// A paused cluster does not replace a lost disk, and says so on every node, in the history and in the metrics. After
// resume, it replaces the disk.
func TestPause(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(20)
	leader := c.Leader()
	victim := c.Nodes[0]
	if victim == leader {
		victim = c.Nodes[1]
	}
	explains(t, c, leader, "HEALTHY", "leader    "+leader.Name)

	refused(t, victim, "not paused", "resume", "--dry-run")
	if out := done(t, victim, "pause", "--dry-run"); !strings.Contains(out, "nothing was changed") {
		t.Error(out)
	}
	done(t, victim, "pause", "--reason", "the disk is coming back")
	refused(t, victim, "paused already", "pause")
	before := c.Members()
	replaced(t, c, victim, func() {
		victim.Kill()
		victim.Wipe()
		victim.Start()
		leader.Says("waits to be replaced", "paused by", "the disk is coming back")
		explains(t, c, leader, "DEGRADED", "paused    by ", "next       replace, after `holdfast resume`")
		if got := c.Members(); got[victim.Keys["volume.local.slot"].(string)].ID != before[victim.Keys["volume.local.slot"].(string)].ID {
			t.Error("a member was replaced during the pause")
		}
		if out := leader.Command("status").Out; !strings.Contains(out, "\nPAUSED by ") {
			t.Errorf("the short status does not say that it is paused:\n%s", out)
		}
		if got := series(t, leader, "holdfast_paused")["holdfast_paused"]; got != 1 {
			t.Errorf("holdfast_paused: got %v, want 1", got)
		}
		w.More(20) // it serves
		done(t, leader, "resume", "--dry-run")
		done(t, leader, "resume")
	})
	h := past(t, leader)
	for _, want := range [][]string{{"wait", "", "paused by"}, {"command", "done", "resume", "uid "}, {"replace", "done"}, {"promote", "done"}} {
		if !contains(h, want[0], want[1], want[2:]...) {
			t.Errorf("the history of %s has no %q: %+v", leader.Name, want, h)
		}
	}
	c.Healthy()
	w.More(20)
	w.Verify()
}

// The history survives kill -9, a torn last line, and a takeover by another node, which shows what the previous one
// did. It can be read without a node.
func TestHistoryGoesWithTheDisk(t *testing.T) {
	story(t)
	c := shared(t, 2, "a")
	c.Start()
	c.Serving()
	first := c.Holder("a")
	second := c.Nodes[0]
	if first == second {
		second = c.Nodes[1]
	}
	c.Until(patience, "the start is written", func() error {
		if h := past(t, first); !contains(h, "start", "done") {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
	volume := filepath.Join(first.Root, "a")
	c.Until(patience, "it is on the disk", func() error {
		if h := coordinator.ReadHistory(volume); !contains(h.Entries, "start", "done") {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
	first.Kill()
	f, err := os.OpenFile(filepath.Join(volume, "history.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"time":"2026-07-0`)
	must(t, err)
	must(t, f.Close())
	c.Serving()
	if got := c.Holder("a"); got != second {
		t.Fatalf("slot a is held by %s", got.Name)
	}
	c.Until(patience, "both nodes are in the history", func() error {
		h := past(t, second)
		if !contains(h, "start", "done", first.Name) || !contains(h, "start", "done", second.Name) {
			return fmt.Errorf("%+v", h)
		}
		return nil
	})
	if o := second.Command("history"); !strings.Contains(o.Err, "1 lines are damaged") || !strings.Contains(o.Out, "NODE") {
		t.Errorf("history: %s%s", o.Out, o.Err)
	}
	second.Stop()
	h := past(t, second) // from the disk
	if !contains(h, "stop", "", second.Name) || !contains(h, "start", "done", first.Name) {
		t.Errorf("without a node: %+v", h)
	}
	if byFile := past(t, second, "--file", filepath.Join(volume, "history.jsonl")); len(byFile) != len(h) {
		t.Errorf("--file: %d entries, want %d", len(byFile), len(h))
	}
}

// In each kind of trouble, `holdfast status --why` names what is missing and, if an operator must act, the command.
func TestWhyInTrouble(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	n := c.Nodes[0]
	n.Start()
	explains(t, c, n, "NO QUORUM, not founded", "n1, slot a, founding", "slots b, c have no live holder")
	refused(t, n, "has nothing to give up", "found", "--abandon", "--dry-run")
	refused(t, n, "holds nothing to set aside", "volume", "set-aside", "--dry-run")
	refused(t, n, "runs no member", "pause", "--dry-run")
	done(t, n, "volume", "release", "--dry-run")
	for _, other := range c.Nodes[1:] {
		other.Start()
	}
	c.Serving()
	done(t, n, "snapshot", "save", "--dry-run")
	done(t, n, "snapshot", "save")
	name := backupName(t, n)
	done(t, n, "snapshot", "pin", name, "--dry-run")
	refused(t, n, "newest verified", "snapshot", "delete", name, "--dry-run")
	done(t, n, "snapshot", "delete", name, "--force", "--dry-run")
	done(t, n, "snapshot", "copy", name, "--to", filepath.Join(c.Dir, "store"), "--dry-run")
	done(t, n, "restore", name, "--to", filepath.Join(c.Dir, "made"), "--dry-run")
	refused(t, n, "not empty", "restore", name, "--to", c.Dir, "--dry-run")
	refused(t, n, "no restore", "restore", "--abort", "--dry-run")
	if again := backupName(t, n); again != name {
		t.Errorf("dry runs have left the backup %s, it was %s", again, name)
	}
	c.Nodes[1].Kill()
	c.Nodes[2].Kill()
	explains(t, c, n, "NO QUORUM, generation 1", "leader    none", "slot b has no live holder", "etcd runs and waits for a quorum")
	refused(t, n, "needs a quorum", "pause")
	n.Kill()
	for _, other := range c.Nodes {
		other.Wipe()
	}
	c.Start()
	explains(t, c, n, "NO QUORUM", "or run holdfast restore latest --lost a,b,c, or holdfast found --new")
	done(t, n, "restore", "latest", "--lost", "a,b,c", "--dry-run")
	done(t, n, "found", "--new", "--dry-run")
}

// backupName returns the name of the only backup.
func backupName(t *testing.T, n *integration.Node) string {
	t.Helper()
	var all []struct {
		Name   string `json:"name"`
		Pinned bool   `json:"pinned"`
	}
	ask(t, n, &all, "snapshot", "list", "-o", "json")
	if len(all) != 1 || all[0].Pinned {
		t.Fatalf("backups: %+v", all)
	}
	return all[0].Name
}
