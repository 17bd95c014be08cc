package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"filippo.io/age"

	"holdfast/embedded/plan"
	"holdfast/integration"
	"holdfast/integration/tier"
	"holdfast/snapshot"
)

// The steps of a restore, in the order in which a node takes them.
var (
	preparing = []string{"before-fetch", "after-fetch", "after-build", "before-prepare", "after-prepare", "before-conclude", "after-conclude"}
	entering  = []string{
		"before-enter-stop", "after-enter-stop", "before-enter", "after-enter", "before-swap-aside", "before-rename", "before-swap-rename", "after-swap-rename",
		"before-swap", "after-swap",
	}
)

// Nodes are killed at each step of a restore and come back: one that is alone, one of three, or all three at once.
// They continue where they were, and in the end the cluster has the data of the backup.
func TestKillWhileRestoring(t *testing.T) {
	t.Parallel() // its parts are stories
	all := slices.Concat(preparing, entering)
	type kill struct {
		name    string
		steps   []string
		victims int
		o       integration.Options
	}
	for _, k := range tier.Share(t, 2, []kill{
		{"alone", all, 1, integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{"gossip.seeds": []string{}}}},
		{"one-entering", entering, 1, integration.Options{}},
		{"all-entering", entering, 3, integration.Options{}},
		{"all-preparing", preparing, 3, integration.Options{}},
	}) {
		t.Run(k.name, func(t *testing.T) { killWhileRestoring(t, k.o, k.steps, k.victims) })
	}
}

func killWhileRestoring(t *testing.T, o integration.Options, steps []string, victims int) {
	story(t)
	c := founded(t, o)
	name := beforeAndAfter(t, c)
	k := killAtEach(t, steps...)
	for _, n := range c.Nodes[:victims] {
		n.Stop()
		k.start(n)
	}
	c.Serving()
	done := c.Nodes[0].Begin("restore", name, "--yes", "--timeout", "90s")
	k.until("the cluster is restored", func() error {
		for _, n := range c.Nodes {
			if s, err := n.Self(); err != nil || s.Record == nil || s.Record.Generation != 2 {
				return fmt.Errorf("%s: %w, %s: %s", n.Name, err, s.State, s.Why)
			}
		}
		return c.Served()
	})
	if o := <-done; o.Code != 0 {
		t.Errorf("restore: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	generation(t, c, 2)
	holdsOnly(t, c)
	w := c.Write()
	w.More(10)
	w.Verify()
}

// A backup that cannot be restored changes nothing. The members continue to serve in their generation, and the store
// has no proposal.
func TestRestoreRefused(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	w := c.Write()
	w.More(100)
	p := pinned(t, c)
	good := save(t, n)
	other := cluster(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	other.Name, other.Store = "other", c.Store
	other.Start()
	other.Serving()
	foreign := save(t, other.Nodes[0])
	key, err := age.GenerateX25519Identity()
	must(t, err)
	var sealed snapshot.Meta
	ask(t, n, &sealed, "snapshot", "save", "-o", "json", "--endpoints", n.ClientURL(), "--snapshot.recipients", key.Recipient().String())

	kept, damaged := filepath.Join(c.Dir, "kept"), filepath.Join(c.Store, good.Name)
	must(t, os.CopyFS(kept, os.DirFS(damaged)))
	damages := map[string]func(path string){
		"flipped":   func(path string) { flip(t, path) },
		"truncated": func(path string) { must(t, os.Truncate(path, good.Stored.Size/2)) },
		"no data":   func(path string) { must(t, os.Remove(path)) },
		"forged":    func(path string) { forge(t, filepath.Join(filepath.Dir(path), "holdfast.meta.json")) },
	}
	refused := func(what string, want []string, args ...string) {
		t.Helper()
		o := n.Command(append([]string{"restore"}, args...)...)
		if o.Code == 0 {
			t.Errorf("%s: restored", what)
		}
		for _, text := range want {
			if !strings.Contains(o.Err, text) {
				t.Errorf("%s: said %q, want %q", what, o.Err, text)
			}
		}
	}
	for what, damage := range damages {
		damage(filepath.Join(damaged, "etcd.backup.zst"))
		refused(what, []string{"nothing was changed"}, good.Name, "--yes")
		must(t, os.RemoveAll(damaged))
		must(t, os.CopyFS(damaged, os.DirFS(kept)))
	}
	refused("no such backup", []string{"not found", "nothing was changed"}, "2020-01-01T00:00:00Z-000000", "--yes")
	refused("another cluster's", []string{"--force-foreign", "other"}, foreign.Name, "--yes")
	refused("sealed", []string{"snapshot.identity-file"}, sealed.Name, "--yes", "--force-foreign") // saved as a foreign backup
	refused("nobody to ask", []string{"--yes"}, good.Name)
	refused("a slot that is here", []string{"slot b is here"}, good.Name, "--yes", "--lost", "b")
	refused("a slot that is none", []string{"no slot x"}, good.Name, "--yes", "--lost", "x")
	if o := n.Command("restore", good.Name, "--dry-run"); o.Code != 0 || !strings.Contains(o.Out, "nothing was changed") {
		t.Errorf("dry run: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if found, _ := filepath.Glob(filepath.Join(c.Store, "holdfast", "story", "re*")); len(found) != 1 {
		t.Errorf("in the store: %v, want the record alone", found)
	}
	w.More(50)
	for _, a := range p.everywhere(t, c, 1) {
		if a.cluster != p.all[0].cluster {
			t.Fatalf("%s serves another cluster", a.node)
		}
	}
	other.Kill()
	w.Verify()
}

// forge changes a sidecar.
func forge(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(text, []byte(`"revision": `), []byte(`"revision": 1`), 1), 0o600))
}

// Of two restores at the same time one is proposed, and the other one is refused with the reason.
func TestRestoreTwice(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	saved := save(t, c.Nodes[0])
	var wg sync.WaitGroup
	outputs := make([]integration.Output, 3)
	for i, n := range c.Nodes {
		wg.Go(func() { outputs[i] = n.Command("restore", saved.Name, "--yes") })
	}
	wg.Wait()
	won := 0
	for _, o := range outputs {
		switch {
		case o.Code == 0:
			won++
		case !strings.Contains(o.Err, "came first") && !strings.Contains(o.Err, "is under way"):
			t.Errorf("a loser: exit code %d: %s", o.Code, o.Err)
		}
	}
	if won != 1 {
		t.Errorf("%d of 3 commands restored: %+v", won, outputs)
	}
	generation(t, c, 2)
}

// A restore that cannot be prepared is shown, and aborted by hand, by Ctrl-C, or by its timeout. The cluster serves
// all the time, and nothing is left on the disks.
func TestRestoreAborted(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	w := c.Write()
	w.More(50)
	saved := save(t, n)
	s, err := n.Self()
	must(t, err)
	// The store has another backup than the proposed one under the same name.
	p := plan.Restore{Cluster: c.Name, Generation: 2, Attempt: 1, ID: "00000000000000aa", Line: []string{s.Record.ID}, Backup: saved.Name,
		Digest: strings.Repeat("0", 64), Revision: saved.Content.Revision, Bump: 10, By: "a story", Led: &plan.Stand{Node: n.Name, Leader: true}}
	text, err := json.Marshal(p)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(c.Store, "holdfast", c.Name, "restore-000002-01.json"), text, 0o600))
	confirmed := n.Begin("restore", "--confirm", p.ID, "--yes")
	c.Until(patience, "all nodes say that they cannot prepare", func() error {
		s, err := n.Status()
		for _, m := range s.Nodes {
			if m.Restore == nil || m.Restore.State != "unable" || !strings.Contains(m.Restore.Error, "another backup by that name") {
				return fmt.Errorf("%s: %+v, %w", m.Node, m.Restore, err)
			}
		}
		return err
	})
	if o := n.Command("status"); o.Code != 1 || !strings.Contains(o.Out, "a restore of "+saved.Name) {
		t.Errorf("status: exit code %d: %s", o.Code, o.Out)
	}
	refused(t, n, "under way", "restore", saved.Name, "--yes")
	done(t, n, "restore", "--abort")
	if o := <-confirmed; o.Code == 0 || !strings.Contains(o.Err, "was aborted") {
		t.Errorf("who confirmed it: exit code %d: %s", o.Code, o.Err)
	}
	nothingBuilt(t, c)

	for _, away := range c.Nodes[1:] { // without them no majority can prepare
		away.Kill()
	}
	c.Until(patience, "the others are missed", func() error {
		s, err := n.Status()
		for _, m := range s.Nodes {
			if m.Live != (m.Node == n.Name) {
				return fmt.Errorf("%s: live %v, %w", m.Node, m.Live, err)
			}
		}
		return err
	})
	if o := n.Command("restore", saved.Name, "--yes", "--lost", "b,c", "--timeout", "8s"); o.Code == 0 || !strings.Contains(o.Err, "aborted before the point of no return") || !strings.Contains(o.Err, "b has no live holder") {
		t.Errorf("timeout: exit code %d: %s", o.Code, o.Err)
	}
	interrupt(t, n, saved.Name)
	for _, away := range c.Nodes[1:] {
		away.Start()
	}
	nothingBuilt(t, c)
	c.Serving()
	w.More(20)
	w.Verify()
	s, err = n.Self()
	must(t, err)
	if s.Record.Generation != 1 {
		t.Errorf("generation %d", s.Record.Generation)
	}
	done(t, n, "restore", saved.Name, "--yes")
	generation(t, c, 2)
}

// interrupt begins a restore, and ends the command with SIGINT when it has made the proposal.
func interrupt(t *testing.T, n *integration.Node, name string) {
	t.Helper()
	path, err := binary()
	must(t, err)
	cmd := exec.Command(path, "restore", name, "--yes", "--lost", "b,c", "--config", n.File())
	said := &proposed{cmd: cmd}
	cmd.Stderr = said
	err = cmd.Run()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "interrupted: the restore of "+name+" was aborted before") {
		t.Errorf("interrupted: %v: %s", err, said)
	}
}

// proposed sends SIGINT to a command as soon as the command says that it has proposed a restore.
type proposed struct {
	said bytes.Buffer
	cmd  *exec.Cmd
}

func (p *proposed) String() string { return p.said.String() }

func (p *proposed) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("proposal ")) {
		_ = p.cmd.Process.Signal(syscall.SIGINT)
	}
	return p.said.Write(b)
}

// nothingBuilt waits until no node has anything of a restore on its disk.
func nothingBuilt(t *testing.T, c *integration.Cluster) {
	t.Helper()
	c.Until(patience, "what was built is removed", func() error {
		for _, n := range c.Nodes {
			if found, _ := filepath.Glob(filepath.Join(n.Volume(), "restore-*")); len(found) > 0 {
				return fmt.Errorf("there is %v", found)
			}
			if s, err := n.Self(); err != nil || s.Restore != nil {
				return fmt.Errorf("%s: %+v, %w", n.Name, s.Restore, err)
			}
		}
		return nil
	})
}
