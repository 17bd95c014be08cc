package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/integration"
)

const atRisk = "stopped although that is a risk"

// longestGap is more than any hand-over may delay writers on a busy machine, and less than a loss of the quorum during
// a restart.
const longestGap = 1500 * time.Millisecond

// beating writes to all nodes, each write on its own, until rest. When a leader hands over, etcd may drop the writes
// under way; each then hangs until its timeout, which is no loss of the quorum.
func beating(t *testing.T, c *integration.Cluster) (p *pulse, rest func()) {
	t.Helper()
	client, err := dialOver(c.TLS, c.Endpoints()...)
	must(t, err)
	p = newPulse(longestGap / 50) // a tenth of the benchmarks' pace: writing is what such a story costs
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() { p.beat(ctx, client); close(ended) }()
	rest = sync.OnceFunc(func() { cancel(); <-ended; client.Close() })
	t.Cleanup(rest)
	return p, rest
}

// neverSilent fails the test if the writers had to wait too long since a time. It ends their writing.
func neverSilent(t *testing.T, p *pulse, rest func(), since time.Time) {
	t.Helper()
	gap := p.gap(since, time.Now())
	rest()
	t.Logf("longest time without a write: %s; %d writes hung", gap.Round(time.Millisecond), p.failed())
	if gap == 0 || gap > longestGap {
		t.Errorf("%s without a write", gap)
	}
}

// A rolling restart by a shell loop that waits only for the end of each process. Each SIGTERM waits until the last
// member serves again, so there is always a quorum.
func TestRollingRestart(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	w := c.Write()
	w.More(50)
	p, rest := beating(t, c)
	begin := time.Now()
	for round := range 2 {
		for _, n := range c.Nodes {
			took := n.Stop()
			if strings.Contains(n.Log(), atRisk) {
				t.Errorf("%s did not wait for its turn:\n%s", n.Name, n.Report())
			}
			n.Start()
			t.Logf("round %d: %s stopped in %s", round, n.Name, took.Round(time.Millisecond))
		}
	}
	w.More(50)
	c.Serving()
	unlocked(c)
	neverSilent(t, p, rest, begin)
	w.Verify()
}

// unlocked waits until no node holds the disruption lock.
func unlocked(c *integration.Cluster) {
	c.Until(patience, "nobody holds the disruption lock", func() error {
		s, err := c.Running()[0].Status()
		if err == nil && s.Lock != nil {
			err = errors.New(s.Lock.String())
		}
		return err
	})
}

// Two nodes are stopped at the same moment: the second one waits until the first one is back.
func TestTwoStopsAtOnce(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	w := c.Write()
	w.More(50)
	p, rest := beating(t, c)
	begin := time.Now()
	one, other := c.Nodes[0], c.Nodes[1]
	one.Signal(syscall.SIGTERM)
	other.Signal(syscall.SIGTERM)
	c.Until(patience, "one of them ends", func() error {
		if one.Running() && other.Running() {
			return errors.New("both still run")
		}
		return nil
	})
	if !other.Running() {
		one, other = other, one
	}
	w.More(50)
	if !other.Running() {
		t.Fatalf("both have ended:\n%s", other.Report())
	}
	one.Start()
	if code := other.Exit(patience); code != 0 || strings.Contains(other.Log(), atRisk) {
		t.Errorf("%s ended with code %d:\n%s", other.Name, code, other.Report())
	}
	w.More(50)
	other.Start()
	c.Serving()
	neverSilent(t, p, rest, begin)
	unlocked(c)
	w.Verify()
}

// The leader is drained under load, with authentication enabled. The others continue, the node stays in the gossip, no
// other member can be drained meanwhile, and undrain brings it back. With a member suspended a moment ago, a drain is
// refused; with a member dead, too, unless it is forced.
func TestDrain(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{})
	c.Healthy()
	w := c.Write()
	w.More(50)
	leader := c.Leader()
	var other *integration.Node
	for _, n := range c.Nodes {
		if n != leader {
			other = n
		}
	}
	if out := leader.Command("drain", "--dry-run"); out.Code != 0 || !strings.Contains(out.Out, "can be drained now") {
		t.Errorf("dry run: %+v", out)
	}
	p, rest := beating(t, c)
	begin := time.Now()
	drain(t, leader, 0, "is down, and the cluster does without it")
	w.More(50)
	neverSilent(t, p, rest, begin)
	leader.Says("is drained by an operator")
	drain(t, leader, 1, "drained already")
	drain(t, other, 1, leader.Name+" (slot ", "holds the disruption lock (drain) since")
	if out := other.Command("status"); !strings.Contains(out.Out, leader.Name+" (slot ") || !strings.Contains(out.Out, "drained") {
		t.Errorf("the status does not show it: %+v", out)
	}
	done(t, leader, "undrain")
	done(t, other, "drain", "--wait", "20s")
	done(t, other, "undrain")
	c.Healthy()
	unlocked(c)

	mute, leader := c.Nodes[0], c.Leader()
	if mute == leader {
		mute = c.Nodes[1]
	}
	mute.Signal(syscall.SIGSTOP) // its connections stay open
	drain(t, leader, 1, "is not connected: without")
	mute.Signal(syscall.SIGCONT)
	c.Healthy()
	unlocked(c)

	dead := c.Leader()
	dead.Kill()
	if other = c.Nodes[0]; other == dead {
		other = c.Nodes[1]
	}
	c.Leader()
	c.Until(patience, "a drain is refused because of the dead member", func() error {
		out := other.Command("drain")
		if out.Code != 1 || !strings.Contains(out.Err, "is not connected: without") || !strings.Contains(out.Err, "1 of 3 voters would be left, and 2 are needed") {
			return fmt.Errorf("%+v", out)
		}
		return nil
	})
	unlocked(c)
	drain(t, other, 0, "drained by force", "is not connected", "--force")
	done(t, other, "undrain")
	dead.Start()
	c.Healthy()
	w.Verify()
}

// drain runs the command with the flags among texts, and expects the exit code and the texts.
func drain(t *testing.T, n *integration.Node, code int, texts ...string) {
	t.Helper()
	args := []string{"drain"}
	for _, text := range texts {
		if strings.HasPrefix(text, "--") {
			args = append(args, text)
		}
	}
	out := n.Command(args...)
	for _, text := range texts {
		if out.Code != code || !strings.HasPrefix(text, "--") && !strings.Contains(out.Out+out.Err, text) {
			t.Fatalf("%s drain: want %d and %q, got %+v", n.Name, code, text, out)
		}
	}
}

// A drained node keeps the lock for longer than the lock lasts by itself. When the node is lost, the lock expires.
// Authentication is enabled, and the lock needs no password.
func TestDrainedNodeIsLost(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"stop.hold": "5s"}})
	c.Healthy()
	must(t, withRoot(c))
	gone, other := c.Nodes[0], c.Nodes[1]
	drain(t, gone, 0, "is down")
	begin := time.Now()
	c.Until(patience, "twice the time of the lock passes, and nobody can take it", func() error {
		drain(t, other, 1, "holds the disruption lock (drain)")
		if time.Since(begin) < 10*time.Second {
			return errors.New("not yet")
		}
		return nil
	})
	gone.Kill()
	begin = time.Now()
	c.Until(patience, "the lock ends", func() error {
		s, err := other.Status()
		if err == nil && s.Lock != nil {
			err = errors.New(s.Lock.String())
		}
		return err
	})
	t.Logf("the lock of 5 s ended %s after its node was killed", time.Since(begin).Round(100*time.Millisecond))
	drain(t, other, 1, "is not connected")
	gone.Start()
	c.Healthy()
}

// withRoot enables authentication.
func withRoot(c *integration.Cluster, nodes ...*integration.Node) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(nodes...), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := client.Ctx()
	if _, err := client.UserAdd(ctx, "root", "secret"); err != nil {
		return err
	}
	if _, err := client.UserGrantRole(ctx, "root", "root"); err != nil {
		return err
	}
	_, err = client.AuthEnable(ctx)
	return err
}
