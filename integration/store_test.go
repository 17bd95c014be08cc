package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/snapshot"
)

// The backup store is missing when a cluster is founded. Nothing shows whether the store knows the cluster, so all
// nodes wait until it answers.
func TestFoundWithoutStore(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	must(t, os.Remove(c.Store))
	c.Start()
	for _, n := range c.Nodes {
		n.Says("the backup store does not answer", c.Store)
	}
	must(t, os.WriteFile(c.Store, nil, 0o600))
	for _, n := range c.Nodes {
		n.Says("the backup store does not answer", "not a directory")
	}
	must(t, os.Remove(c.Store))
	must(t, os.Mkdir(c.Store, 0o700))
	c.Serving()
	oneCluster(t, c)
	w := c.Write()
	w.More(20)
	w.Verify()
}

// The store knows the cluster, but every disk is blank. Nothing is founded until the operator gives up the old
// cluster, and the store's record of it is kept.
func TestFoundNew(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	old := oneCluster(t, c)
	control := filepath.Join(c.Store, "holdfast", c.Name)
	record, err := os.ReadFile(filepath.Join(control, "record-000001.json"))
	must(t, err)
	c.Kill()
	for _, n := range c.Nodes {
		n.Wipe()
		n.Start()
	}
	for _, n := range c.Nodes {
		n.Says("the backup store knows the cluster as story@1-", "holdfast found --new")
	}
	done(t, c.Nodes[0], "found", "--new")
	c.Serving()
	if got := oneCluster(t, c); got == old {
		t.Errorf("the cluster ID is still %s", got)
	}
	aside, err := filepath.Glob(filepath.Join(control, "aside-*.json"))
	must(t, err)
	if len(aside) != 1 {
		t.Fatalf("kept of the former cluster: %v", aside)
	}
	if kept, err := os.ReadFile(aside[0]); err != nil || string(kept) != string(record) {
		t.Errorf("%s is not the former record (%v)", aside[0], err)
	}
	w := c.Write()
	w.More(20)
	w.Verify()
}

// A backup is saved, listed, verified, read by etcd's own tool, found to be bad after one byte was changed, and
// deleted.
func TestBackups(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	n := c.Nodes[1] // the node that is asked saves, whether it leads or not
	var saved snapshot.Meta
	ask(t, n, &saved, "snapshot", "save", "-o", "json")
	var backups []snapshot.Backup
	ask(t, n, &backups, "snapshot", "list", "-o", "json")
	if len(backups) != 1 || backups[0].Name != saved.Name {
		t.Fatalf("listed %+v, want %s", backups, saved.Name)
	}
	done(t, n, "snapshot", "verify", saved.Name)
	stored := content(t, c.Store, saved.Stored.Size)
	plain := filepath.Join(c.Dir, "plain.db")
	unpack(t, stored, plain)
	status := n.Holdfast("etcdutl", "snapshot", "status", plain, "-w", "json")
	var seen struct{ Revision int64 }
	if err := json.Unmarshal([]byte(status.Out), &seen); err != nil || seen.Revision != saved.Content.Revision {
		t.Errorf("etcdutl says %s%s (%v), want revision %d", status.Out, status.Err, err, saved.Content.Revision)
	}
	flip(t, stored)
	o := n.Command("snapshot", "verify")
	if o.Code == 0 || !strings.Contains(o.Out, saved.Name) || !strings.Contains(o.Out, "BAD") {
		t.Errorf("verify of a damaged backup: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	refused(t, n, "the newest backup, and none is good", "snapshot", "delete", saved.Name)
	done(t, n, "snapshot", "delete", "--force", saved.Name)
	if _, err := os.Stat(stored); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", stored, err)
	}
	w.Verify()
}

// ask runs a command and decodes its output.
func ask(t *testing.T, n *integration.Node, v any, args ...string) {
	t.Helper()
	o := n.Command(args...)
	if o.Code != 0 {
		t.Fatalf("holdfast %s: exit code %d: %s", strings.Join(args, " "), o.Code, o.Err)
	}
	if err := json.Unmarshal([]byte(o.Out), v); err != nil {
		t.Fatalf("holdfast %s: %v: %s", strings.Join(args, " "), err, o.Out)
	}
}

// content finds the one file in the store that has the size of a backup.
func content(t *testing.T, store string, size int64) string {
	t.Helper()
	var found []string
	must(t, filepath.WalkDir(store, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Size() == size {
			found = append(found, path)
		}
		return err
	}))
	if len(found) != 1 {
		t.Fatalf("files of %d bytes in the store: %v", size, found)
	}
	return found[0]
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	z, err := zstd.NewReader(in)
	must(t, err)
	defer z.Close()
	out, err := os.Create(to)
	must(t, err)
	_, err = z.WriteTo(out)
	must(t, err)
	must(t, out.Close())
}

// flip changes one bit in the middle of a file.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
}

// A changed configuration is applied as far as possible, automatically and on SIGHUP. For the rest, the log and the
// status say that it needs a restart, until there is one. The status also says that the file is wrong, or gone.
func TestReload(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	n := c.Nodes[0]
	c.Set("snapshot.every", "1s")
	n.Configure() // the file changes under the running node
	n.Logs("configuration reloaded", `"key":"snapshot.every"`)
	c.Until(patience, "a backup is made", func() error {
		var backups []snapshot.Backup
		if ask(t, n, &backups, "snapshot", "list", "-o", "json"); len(backups) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	c.Set("log.level", "warn")
	c.Set("stop.wait", "3s")
	n.Configure()
	n.Signal(syscall.SIGHUP)
	n.Logs("configuration reloaded", `"key":"log.level"`, `"new":"warn"`)
	n.Logs("this key needs a restart", `"key":"stop.wait"`)
	c.Set("log.level", "nonsense")
	n.Configure()
	n.Logs("the changed configuration is wrong and was not taken over", "log.level")
	c.Healthy()
	only := func(want health.Code, text string) { // of the configuration
		t.Helper()
		c.Until(patience, fmt.Sprintf("the status says %q", want), func() error {
			s, err := n.Self()
			if err != nil {
				return err
			}
			for _, code := range []health.Code{health.ConfigWrong, health.RestartNeeded} {
				i := slices.IndexFunc(s.Found, func(f health.Finding) bool { return f.Code == code })
				if (i >= 0) != (code == want) || i >= 0 && !strings.Contains(s.Found[i].Text, text) {
					return fmt.Errorf("%+v", s.Found)
				}
			}
			return nil
		})
	}
	only(health.ConfigWrong, "log.level")
	c.Set("log.level", "warn") // commands read the file, too
	n.Configure()
	only(health.RestartNeeded, "the old values of stop.wait until")
	must(t, os.Rename(n.File(), n.File()+".gone"))
	only(health.ConfigWrong, "no such file")
	must(t, os.Rename(n.File()+".gone", n.File()))
	only(health.RestartNeeded, "stop.wait")
	n.Stop()
	n.Start()
	only("", "")
}
