package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/integration"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest/gateway"
)

// onBucket makes a cluster whose store is a bucket behind a proxy.
func onBucket(t *testing.T, keys map[string]any) (*integration.Cluster, *gateway.Proxy) {
	t.Helper()
	g := gateway.Start(t, "")
	g.Bucket("backups")
	proxy := gateway.NewProxy(t, g.URL)
	all := map[string]any{
		"snapshot.store": "s3://backups/etcd/story", "snapshot.s3.endpoint": proxy.URL, "snapshot.s3.path-style": true,
		"snapshot.every": "1s", "snapshot.retry": "1s", "snapshot.drill": "0s",
	}
	maps.Copy(all, keys)
	return founded(t, integration.Options{Keys: all, Env: gateway.Env()}), proxy
}

// The bucket is down, breaks connections and is slow while backups are made. The members continue to serve, the
// failure is visible, and the spool does not grow. When the bucket is back, backups work again without help.
func TestBucketFails(t *testing.T) {
	story(t)
	c, proxy := onBucket(t, nil)
	n := c.Leader()
	more(t, c, n, patience)
	w := c.Write()
	for name, fault := range map[string]gateway.Fault{
		"down":                gateway.Answer(http.StatusServiceUnavailable, "ServiceUnavailable"),
		"the data breaks off": gateway.On(http.MethodPut, "etcd.backup", gateway.CutRequest(100)),
		"it cannot be read":   gateway.On(http.MethodGet, "etcd.backup", gateway.Answer(http.StatusForbidden, "AccessDenied")),
	} {
		proxy.Set(fault)
		c.Until(time.Minute, "the failure is loud: "+name, func() error {
			s, err := n.Status()
			if err != nil {
				return err
			}
			if !strings.Contains(strings.Join(s.Reasons(), "\n"), "backups fail") {
				return fmt.Errorf("%s says %s because %v", n.Name, s.Health, s.Reasons())
			}
			return nil
		})
		w.More(20)
		spooled, err := os.ReadDir(filepath.Join(n.Data, "spool"))
		must(t, err)
		if dirs := slices.DeleteFunc(spooled, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }); len(dirs) > 2 {
			t.Errorf("%s: the spool holds %v", name, dirs)
		}
		proxy.Set(nil)
		more(t, c, n, time.Minute)
		c.Healthy()
	}
	proxy.Set(func(*gateway.Proxy, http.ResponseWriter, *http.Request) bool {
		time.Sleep(200 * time.Millisecond) // the bucket is slow
		return false
	})
	more(t, c, n, patience)
	proxy.Set(nil)
	c.Set("snapshot.every", "0s") // nothing must change during the checks
	n.Configure()
	n.Logs("configuration reloaded", `"key":"snapshot.every"`)
	done(t, n, append([]string{"snapshot", "verify"}, good(t, n)...)...)
	w.Verify()
}

// A paused leader continues and still believes that it leads, while its successor saves backups to the same bucket.
// Both may save, and whatever is listed as good is good.
func TestTwoLeadersSave(t *testing.T) {
	story(t)
	c, _ := onBucket(t, nil)
	w := c.Write()
	for range 3 {
		old := c.Leader()
		more(t, c, old, patience)
		old.Pause()
		next := c.Leader()
		more(t, c, next, patience)
		old.Continue()
		more(t, c, old, patience)
	}
	unscheduled(c)
	n := c.Nodes[0]
	done(t, n, append([]string{"snapshot", "verify"}, good(t, n)...)...)
	w.Verify()
}

// unscheduled ends the schedule of backups. A short schedule would change what is checked at the end of a story, and
// is late on a busy machine.
func unscheduled(c *integration.Cluster) {
	c.Set("snapshot.every", "0s")
	for _, n := range c.Nodes {
		n.Configure()
		n.Logs("configuration reloaded", `"key":"snapshot.every"`)
	}
}

// The disk of the spool is full. The save fails visibly before it has used the last byte, and the next one succeeds
// when there is room.
func TestSpoolFull(t *testing.T) {
	story(t)
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	spool := t.TempDir()
	must(t, unix.Mount("tmpfs", spool, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { _ = unix.Unmount(spool, unix.MNT_DETACH) })
	c := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}, Keys: map[string]any{"snapshot.spool": spool}})
	n := c.Nodes[0]
	done(t, n, "snapshot", "save")
	filler := filepath.Join(spool, "filler")
	fill(t, filler)
	o := n.Command("snapshot", "save")
	if o.Code == 0 || !strings.Contains(o.Err, "NOT saved") || !strings.Contains(o.Err, syscall.ENOSPC.Error()) {
		t.Errorf("save on a full disk: exit code %d: %s%s", o.Code, o.Out, o.Err)
	}
	if got := good(t, n); len(got) != 1 {
		t.Errorf("good backups after that: %v, want the first alone", got)
	}
	must(t, os.Remove(filler))
	done(t, n, "snapshot", "save")
	c.Healthy()
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A hundred times a save or a prune is killed at a random moment. Whatever is listed as good can then be verified, and
// only pruning removes a good backup.
func TestKilledSavesAndPrunes(t *testing.T) {
	story(t)
	c := founded(t, integration.Options{Nodes: 1, Slots: []string{"a"}})
	n := c.Nodes[0]
	w := c.Write()
	w.More(200)
	path, err := binary()
	must(t, err)
	commands := [][]string{
		{"snapshot", "save", "--cluster.name", "legacy", "--endpoints", n.ClientURL()},
		{"snapshot", "prune", "--cluster.name", "legacy", "--snapshot.keep.all", "0s", "--snapshot.keep.hourly", "0s", "--snapshot.keep.daily", "0s", "--snapshot.keep.newest", "2"},
	}
	store := snapshot.NewDir(c.Store)
	if o := n.Holdfast(append(commands[0], "--snapshot.store", c.Store)...); o.Code != 0 {
		t.Fatalf("save: exit code %d: %s", o.Code, o.Err)
	}
	begin := time.Now()
	var lives [2]time.Duration // how long each command lasted when it last finished; longer after each kill, because the machine's speed changes
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	killed, finished := 0, 0
	for killed < 100 && time.Since(begin) < time.Minute {
		kind := (killed + finished) % 3 / 2
		cmd := exec.Command(path, append(commands[kind], "--snapshot.store", c.Store)...)
		cmd.Dir = n.Dir
		born := time.Now()
		must(t, cmd.Start())
		killIn := patience // the first of each finishes
		if life := lives[kind]; life > 0 {
			killIn = life/10 + time.Duration(random.Int64N(int64(life*5/4)))
		}
		timer := time.AfterFunc(killIn, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // ProcessState has the result
		timer.Stop()
		if cmd.ProcessState.ExitCode() == 0 {
			finished++
			lives[kind] = time.Since(born)
		} else {
			killed++
			lives[kind] += lives[kind] / 50
		}
		if (killed+finished)%10 == 0 {
			allGood(t, store)
		}
	}
	allGood(t, store)
	t.Logf("%d killed, %d finished in %s (seed %d)", killed, finished, time.Since(begin).Round(time.Second), seed)
	if finished == 0 || killed < 20 {
		t.Errorf("%d killed, %d finished: nothing is proven", killed, finished)
	}
	w.Verify()
}

// allGood verifies every backup that is listed without a problem.
func allGood(t *testing.T, store snapshot.Store) {
	t.Helper()
	all, err := snapshot.List(t.Context(), store, snapshot.Identity{Cluster: "legacy"})
	must(t, err)
	count := 0
	for _, b := range all {
		if b.Problem != "" {
			continue
		}
		count++
		if _, err := snapshot.Verify(t.Context(), store, b.Name, snapshot.Options{Scratch: t.TempDir()}); err != nil {
			t.Errorf("%s is listed as good: %v", b.Name, err)
		}
	}
	if count == 0 {
		t.Error("no backup is left")
	}
}
