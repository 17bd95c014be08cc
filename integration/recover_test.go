package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/integration"
)

// bereave kills two of three nodes under writes, one after the other, so that the first node also has the last
// acknowledged writes. Its process is killed with them and comes back, so that its database is behind its log.
func bereave(t *testing.T, c *integration.Cluster, w *integration.Writer) {
	t.Helper()
	w.More(100)
	c.Nodes[2].Kill()
	w.More(100)
	c.Nodes[1].Kill()
	c.Nodes[0].Kill()
	w.Stop()
	c.Nodes[0].Start()
}

// allVoters waits until every slot is a voter of one cluster. A learner that has just started does not know yet that
// it is one, and says that it serves.
func allVoters(t *testing.T, c *integration.Cluster) {
	t.Helper()
	c.Until(patience, "every slot is a voter", func() error {
		members := c.Members()
		for _, m := range members {
			if m.Learner || m.Name == "" {
				return fmt.Errorf("members: %v", members)
			}
		}
		if len(members) != len(c.Slots) {
			return fmt.Errorf("members: %v", members)
		}
		return nil
	})
	oneCluster(t, c)
}

// A majority's disks are lost under writes. The survivor's plan shows what is left, and nothing is done until the lost
// disks are declared. Then the cluster continues with every acknowledged write, and blank disks join it. When the lost
// disks come back after all, they are recognized, and their data is set aside.
func TestRecover(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	refused(t, n, "recovery is not needed", "recover", "--yes")
	w := c.Write()
	bereave(t, c, w)
	copies := map[*integration.Node]string{}
	for _, lost := range c.Nodes[1:] {
		copies[lost] = filepath.Join(c.Dir, lost.Name+"-copy")
		must(t, os.CopyFS(copies[lost], os.DirFS(lost.Root)))
		lost.Wipe()
	}
	n.Says("waits for a quorum", "`holdfast recover --lost b,c`")
	o := n.Command("recover")
	if o.Code != 0 || !strings.Contains(o.Out, "most advanced") || !strings.Contains(o.Out, "b, c must be declared lost") || !strings.Contains(o.Out, "no live holder") {
		t.Errorf("plan: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	for _, args := range [][]string{{"--yes"}, {"--yes", "--lost", "b"}, {"--yes", "--lost", "a,b,c"}, {"--yes", "--lost", "b,c,x"}} {
		refused(t, n, "nothing was changed", append([]string{"recover"}, args...)...)
	}
	begin := time.Now()
	o = n.Command("recover", "--lost", "b,c", "--yes")
	if o.Code != 0 || !strings.Contains(o.Out, "recovered from slot a") {
		t.Fatalf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	_, err := etcd(t, "", n).Put(t.Context(), "first", "1")
	must(t, err)
	t.Logf("from the command to the first write: %s", time.Since(begin).Round(10*time.Millisecond))
	for _, lost := range c.Nodes[1:] {
		lost.Start()
	}
	generation(t, c, 2)
	allVoters(t, c)
	w.Verify()
	if aside, _ := filepath.Glob(filepath.Join(n.Volume(), "aside", "*-recovered", "member")); len(aside) != 1 {
		t.Errorf("set aside: %v", aside)
	}
	for _, back := range c.Nodes[1:] {
		back.Kill()
		back.Wipe()
		must(t, os.CopyFS(back.Root, os.DirFS(copies[back])))
		back.Start()
		rejoins(t, c, back)
		generation(t, c, 2)
		allVoters(t, c)
		if aside, _ := filepath.Glob(filepath.Join(back.Volume(), "aside", "*", "member")); len(aside) != 1 {
			t.Errorf("%s has set aside %v", back.Name, aside)
		}
	}
	again := c.Write()
	again.More(50)
	again.Verify()
}

// rejoins makes a disk that was declared lost, and is back, join the new generation. It joins by itself if its log is
// not beyond the survivor's, which depends on who led, and otherwise on an operator's order.
func rejoins(t *testing.T, c *integration.Cluster, n *integration.Node) {
	t.Helper()
	chosen := false
	c.Until(patience, n.Name+" joins generation 2, or asks", func() error {
		s, err := n.Self()
		if err != nil {
			return err
		}
		if !chosen && strings.Contains(s.Why, "`holdfast rejoin`") {
			o := n.Command("rejoin")
			if chosen = o.Code == 0; !chosen {
				return fmt.Errorf("rejoin: exit code %d: %s", o.Code, o.Err)
			}
		}
		if s.Record == nil || s.Record.Generation != 2 {
			return fmt.Errorf("it says %s", s.Why)
		}
		return nil
	})
}

// The steps of a recovery, in the order in which the survivor takes them.
var recovering = []string{
	"before-copy", "after-copy", "before-prepare", "before-conclude", "after-conclude", "after-enter-stop", "after-enter", "before-rename", "before-swap-rename",
	"before-swap", "after-swap",
}

// The survivor is killed at each step of a recovery. It continues where it was, and nothing is lost.
func TestKillWhileRecovering(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	n := c.Nodes[0]
	w := c.Write()
	bereave(t, c, w)
	n.Kill()
	k := killAtEach(t, recovering...)
	k.start(n)
	n.Says("`holdfast recover --lost b,c`")
	done := n.Begin("recover", "--lost", "b,c", "--yes", "--timeout", "90s")
	k.until("the cluster is recovered", func() error {
		if s, err := n.Self(); err != nil || s.State != "leader" || s.Record.Generation != 2 {
			return fmt.Errorf("%w, %s: %s", err, s.State, s.Why)
		}
		return nil
	})
	if o := <-done; o.Code != 0 {
		t.Errorf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	for _, lost := range c.Nodes[1:] {
		lost.Wipe()
		lost.Start()
	}
	generation(t, c, 2)
	allVoters(t, c)
	w.Verify()
}

// Of two survivors of five, the one with the more advanced log is chosen, and the other one is refused.
func TestRecoverMostAdvanced(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Nodes: 5, Slots: []string{"a", "b", "c", "d", "e"}})
	w := c.Write()
	w.More(50)
	c.Nodes[0].Kill() // slot a misses the following writes
	w.More(100)
	c.Nodes[4].Kill()
	w.More(50)
	for _, n := range c.Nodes[1:4] {
		n.Kill()
	}
	w.Stop()
	n := c.Nodes[0]
	n.Start()
	c.Nodes[1].Start()
	n.Says("recover --lost c,d,e`, which continues from slot b")
	refused(t, n, "more advanced log", "recover", "--lost", "c,d,e", "--survivor", "a", "--yes")
	if o := n.Command("recover", "--lost", "c,d,e", "--yes"); o.Code != 0 || !strings.Contains(o.Out, "recovered from slot b") {
		t.Fatalf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	for _, lost := range c.Nodes[2:] {
		lost.Wipe()
		lost.Start()
	}
	c.Serving()
	allVoters(t, c)
	w.Verify()
}

// A cluster whose members are only suspended is never torn down. When they continue before the conclusion, the
// recovery is aborted, and nothing has changed.
func TestRecoverOfSlowCluster(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	w := c.Write()
	w.More(50)
	n := c.Nodes[0]
	n.Kill()
	n.Start(killAt + "before-conclude")
	c.Serving()
	for _, m := range c.Nodes[1:] {
		m.Pause()
	}
	n.Says("`holdfast recover --lost b,c`")
	done := n.Begin("recover", "--lost", "b,c", "--yes")
	killed(t, n, "before-conclude") // everything is prepared
	for _, m := range c.Nodes[1:] {
		m.Continue()
	}
	c.Until(patience, "the recovery is aborted", func() error {
		outcomes, err := filepath.Glob(filepath.Join(c.Store, "holdfast", "*", "outcome-000002-01.json"))
		if err != nil || len(outcomes) == 0 {
			return errors.Join(err, errors.New("it is open"))
		}
		return nil
	})
	n.Start()
	o := <-done // either a voter without a leader objects, or the leader itself, which cannot be overruled
	if o.Code == 0 || !strings.Contains(o.Err, "objected") ||
		!strings.Contains(o.Err, "--overrule") && !strings.Contains(o.Err, "a recovery is not needed") {
		t.Errorf("recover: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	generation(t, c, 1)
	w.More(50)
	w.Verify()
}

// With cluster.recovery: automatic, no order is needed if the disks are here and have lost their data. If other disks
// have taken their place, nothing is proven, and the node says what to do.
func TestRecoverAutomatic(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"cluster.recovery": "automatic"}})
	w := c.Write()
	bereave(t, c, w)
	n := c.Nodes[0]
	for _, lost := range c.Nodes[1:] {
		must(t, os.RemoveAll(filepath.Join(lost.Volume(), "etcd")))
	}
	c.Nodes[1].Start()
	n.Says("it is not proven that what c held is gone")
	c.Nodes[2].Start()
	generation(t, c, 2)
	allVoters(t, c)
	w.Verify()

	again := c.Write()
	bereave(t, c, again)
	for _, lost := range c.Nodes[1:] {
		lost.Wipe()
		lost.Start()
	}
	n.Says("it is not proven that what b, c held is gone", "`holdfast recover --lost b,c`")
	done(t, n, "recover", "--lost", "b,c", "--yes")
	generation(t, c, 3)
	allVoters(t, c)
	again.Verify()
}
