package integration_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/integration"
	"holdfast/volume/device/devicetest"
)

// The directories for making backups are on a disk that answers nothing. A node that starts then, starts its member.
func TestDeadBackupDirectories(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	dead := devicetest.Dead(t) // after the cluster: a process that waits for it cannot end before it
	n := c.Nodes[1]
	n.Signal(syscall.SIGTERM)
	n.Exit(patience)
	n.Keys["snapshot.spool"], n.Keys["snapshot.scratch"] = filepath.Join(dead, "spool"), filepath.Join(dead, "scratch")
	n.Start()
	c.Serving()
	w := c.Write(n)
	w.More(20)
	w.Stop()
}

// Writes to the disk of the leader of an idle cluster hang without an error. Its node is not ready, the others elect,
// and all say who leads and which disk hangs. When the disk works again, the old leader follows.
func TestStalledDisk(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	for _, n := range c.Nodes {
		n.Root = filepath.Join(devicetest.New(t, 2*devicetest.Small).Mount(t), "volumes")
	}
	t.Cleanup(c.Kill) // before the disks are removed
	c.Start()
	c.Healthy()
	w := c.Write()
	w.More(20)
	w.Stop()
	old := c.Leader()
	slot := old.Keys["volume.local.slot"].(string)
	others := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *integration.Node) bool { return n == old })

	begin := time.Now()
	thaw := devicetest.Freeze(t, old.Volume())
	defer thaw()
	c.Until(patience, "the node with the stalled disk is not ready", func() error {
		if got := readyz(t, old); got != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz answers %d", got)
		}
		return nil
	})
	t.Logf("not ready after %s", time.Since(begin).Round(time.Millisecond))
	c.Until(patience, "all say which disk hangs and who leads", func() error { // including the node itself
		for _, n := range c.Nodes {
			if err := blames(n, old, slot); err != nil {
				return err
			}
		}
		return nil
	})
	t.Logf("blamed after %s", time.Since(begin).Round(time.Millisecond))
	views(t, c, health.Degraded)
	if o := others[0].Command("status"); o.Code != 1 || !strings.Contains(o.Out, "the disk of slot "+slot+" at "+old.Volume()+" may hang") {
		t.Errorf("status: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	w = c.Write(others...)
	w.More(100)

	// A restart does not repair a disk. This is longer than the coordinator may go without a look.
	c.Until(2*time.Minute, "the disk has stalled for 40 s", func() error {
		if got := livez(t, old); got != http.StatusOK {
			t.Fatalf("/livez answers %d after %s", got, time.Since(begin))
		}
		if got := readyz(t, old); got != http.StatusServiceUnavailable {
			t.Errorf("/readyz answers %d after %s", got, time.Since(begin))
		}
		for _, n := range c.Nodes {
			if err := blames(n, old, slot); err != nil {
				t.Error(err)
			}
		}
		if since := time.Since(begin); since < 40*time.Second {
			return fmt.Errorf("%s", since)
		}
		return nil
	})
	w.More(100)

	thaw()
	c.Healthy()
	if got := readyz(t, old); got != http.StatusOK {
		t.Errorf("/readyz answers %d although the cluster is healthy", got)
	}
	if got := c.Leader(); got == old {
		t.Errorf("%s, whose disk had stalled, leads again", old.Name)
	}
	w.More(50)
	w.Verify()
}

// A node whose disk stalls is told to stop. Within stop.wait and 30 s it says what it waited for. The kernel keeps the
// process while a write hangs, and then its exit code is 1.
func TestStopOnStalledDisk(t *testing.T) {
	story(t)
	c := cluster(t, integration.Options{})
	for _, n := range c.Nodes {
		n.Root = filepath.Join(devicetest.New(t, 2*devicetest.Small).Mount(t), "volumes")
	}
	t.Cleanup(c.Kill) // before the disks are removed
	c.Start()
	c.Healthy()
	n := c.Nodes[1]
	thaw := devicetest.Freeze(t, n.Volume())
	defer thaw()
	c.Until(patience, "the node with the stalled disk is not ready", func() error {
		if got := readyz(t, n); got != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz answers %d", got)
		}
		return nil
	})
	begin := time.Now()
	n.Signal(syscall.SIGTERM)
	c.Until(time.Minute, "the node says what it waited for", func() error {
		if log := n.Log(); !strings.Contains(log, "the node ends") {
			return fmt.Errorf("after %s: %s", time.Since(begin), log[max(0, len(log)-500):])
		}
		return nil
	})
	took := time.Since(begin)
	if last := n.Log()[strings.LastIndex(n.Log(), "the node ends"):]; !strings.Contains(last, "its disk may hang") {
		t.Errorf("it does not name the disk: %s", last)
	}
	if took > 40*time.Second {
		t.Errorf("it took %s to give up, want at most stop.wait and 30 s", took)
	}
	thaw()
	if code := n.Exit(patience); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	n.Start()
	c.Healthy()
}

// blames returns nil if n says that old's disk may hang, counts no other member as stalled, and sees exactly one
// leader, which is another member.
func blames(n, old *integration.Node, slot string) error {
	s, err := n.Status()
	if err != nil {
		return err
	}
	var states []string
	for _, m := range s.Nodes {
		states = append(states, m.State)
		if (m.State == "stalled") != (m.Node == old.Name) || (m.Stall != nil) != (m.Node == old.Name) || m.State == "leader" && m.Node != s.Leader {
			return fmt.Errorf("%s says that %s is %s", n.Name, m.Node, m.State)
		}
	}
	slices.Sort(states)
	text := strings.Join(s.Reasons(), "\n")
	says := []string{"no write has been committed here for ", "the disk of slot " + slot + " at " + old.Volume() + " may hang",
		"2 nodes claim to lead: " + s.Leader + " does", "slot " + slot + " is stalled on " + old.Name}
	missing := slices.ContainsFunc(says, func(what string) bool { return !strings.Contains(text, what) })
	if s.Health != health.Degraded || !slices.Equal(states, []string{"follower", "leader", "stalled"}) || missing {
		return fmt.Errorf("%s says %s, leader %s, states %s: %s", n.Name, s.Health, s.Leader, states, text)
	}
	return nil
}
