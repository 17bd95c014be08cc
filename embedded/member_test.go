package embedded

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

func TestFoundStopRestart(t *testing.T) {
	n := newNode(t, "a")
	if got := (New(n.cfg, n.lg, nil)).Status(); got.Running {
		t.Errorf("a new member runs: %+v", got)
	}
	n.run(t).awaitReady(t)
	members, cluster, err := FounderIDs(n.spec.Token, n.spec.Peers)
	if err != nil {
		t.Fatal(err)
	}
	rev := put(t, n.client(t), "k", "v")
	got := n.Status()
	if got.ID != members["a"] || got.Cluster != cluster {
		t.Errorf("IDs: got %x in %x, want %x in %x", got.ID, got.Cluster, members["a"], cluster)
	}
	if !got.Running || !got.Ready || !got.Leader || got.Learner || !got.HasLead || got.Revision != rev ||
		got.Term == 0 || got.Applied == 0 || got.Space.Size == 0 || got.Space.Quota != 2<<30 ||
		got.Version != version.Version {
		t.Errorf("status: got %+v", got)
	}
	stop(t, n, 0)
	stop(t, n, 0)
	awaitClosed(t, "done", n.Done())
	if err := n.Err(); err != nil {
		t.Errorf("error after stop: %v", err)
	}
	if got := n.Status(); got.Running || got.ID != 0 || n.Status().Ready || n.Members() != nil {
		t.Errorf("status after stop: got %+v", got)
	}
	if _, err := n.Snapshot(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("snapshot after stop: got %v, want errStopped", err)
	}
	n.spec.Peers = map[string]string{"a": n.spec.PeerURL}
	n.run(t).awaitReady(t)
	if got := n.Status(); got.Revision != rev || got.ID != members["a"] {
		t.Errorf("after restart: got %+v, want revision %d of %x", got, rev, members["a"])
	}
	if err := n.begin(t); err == nil {
		t.Error("started twice")
	}
	stop(t, n, time.Second)
}

func TestStopBeforeStart(t *testing.T) {
	n := newNode(t, "a")
	m := New(n.cfg, n.lg, nil)
	if err := m.Stop(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	m.Kill()
	if m.Done() != nil || m.Err() != nil {
		t.Error("a member that never ran is done")
	}
}

// Without a quorum etcd's own Close waits forever.
func TestStopNeverReady(t *testing.T) {
	n := newNode(t, "a")
	n.spec.Peers["b"] = "http://127.0.0.1:1"
	n.run(t)
	if n.Status().Ready || !n.Status().Running {
		t.Errorf("status: got %+v", n.Status())
	}
	begin := time.Now()
	stop(t, n, time.Minute)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("stop took %v", took)
	}
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}

func TestStopWhileStarting(t *testing.T) {
	n := newNode(t, "a")
	n.spec.Peers["b"] = "http://127.0.0.1:1"
	n.Member = New(n.resolved(), n.lg, nil)
	started := make(chan error)
	go func() { started <- n.Start(soon(t), n.spec) }()
	await(t, "start is under way", func() bool { return n.Done() != nil })
	stop(t, n, time.Minute)
	if err := <-started; !errors.Is(err, errStopped) {
		t.Errorf("start: got %v, want errStopped", err)
	}
	awaitClosed(t, "done", n.Done())
	if err := n.Err(); err != nil {
		t.Errorf("Err after stop: %v", err)
	}
}

func TestStartContextEnds(t *testing.T) {
	n := newNode(t, "a")
	n.Member = New(n.resolved(), n.lg, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Start(ctx, n.spec); !errors.Is(err, context.Canceled) {
		t.Errorf("start: got %v, want Canceled", err)
	}
	awaitClosed(t, "what was begun is undone", n.Done())
	// The member may have ended before its log had an entry. With such a log etcd has no voters and waits forever, so
	// the coordinator begins again.
	if data, err := (Disk{}).Inspect(n.spec.DataDir); err != nil {
		t.Fatal(err)
	} else if data.Unborn {
		if _, err := (Disk{}).SetAside(n.spec.DataDir, "unborn"); err != nil {
			t.Fatal(err)
		}
	}
	n.spec.Peers = map[string]string{"a": n.spec.PeerURL}
	n.run(t).awaitReady(t)
	stop(t, n, 0)
}

// Close waits 7 s for a watch; ours must not, and its clients must learn why.
func TestStopUnderWatches(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	const watchers = 20
	ended := make(chan error, watchers)
	for i := range watchers {
		// The client shares a stream among watchers with equal metadata.
		ctx := metadata.AppendToOutgoingContext(t.Context(), "watcher", strconv.Itoa(i))
		w := c.Watch(ctx, "k", clientv3.WithCreatedNotify(), clientv3.WithPrefix())
		if resp := <-w; !resp.Created {
			t.Fatalf("watch: %+v", resp)
		}
		go func() {
			for resp := range w {
				if err := resp.Err(); err != nil {
					ended <- err
					return
				}
			}
			ended <- errors.New("closed without an error")
		}()
	}
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for !n.current().stop.dropped() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _ = c.Put(ctx, "k", "v")
			cancel()
		}
	}()
	rev := n.Status().Revision
	await(t, "writes flow", func() bool { return n.Status().Revision > rev+10 })
	begin := time.Now()
	stop(t, n, 10*time.Second)
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("stop took %v", took)
	}
	<-writing
	c.Close()
	for range watchers {
		<-ended
	}
}

func TestCutTellsUnavailable(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	stream, err := watchStream(t, c)
	if err != nil {
		t.Fatal(err)
	}
	n.current().cutStreams.drop()
	if _, err := stream.Recv(); !isUnavailable(err) {
		t.Errorf("open watch: got %v, want Unavailable", err)
	}
	n.current().cutCalls.drop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := c.Put(ctx, "k", "v"); !isUnavailable(err) {
		t.Errorf("put: got %v, want Unavailable", err)
	}
}

func TestKill(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	stream, err := watchStream(t, c)
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "k", "v")
	tx, txErr := n.Snapshot(t.Context())
	if txErr != nil {
		t.Fatal(txErr)
	}
	begin := time.Now()
	n.Kill() // an open snapshot stands for a disk that hangs
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("kill took %v", took)
	}
	for err == nil { // what was sent before, then the end
		_, err = stream.Recv()
	}
	for _, port := range []string{"2379", "2380"} {
		if conn, err := net.Dial("tcp", net.JoinHostPort(n.addr, port)); err == nil {
			conn.Close()
			t.Errorf("port %s still answers", port)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := c.Put(ctx, "k", "w"); err == nil {
		t.Error("put after kill succeeded")
	}
	if err := n.begin(t); err == nil {
		t.Error("started although the killed one is still there")
	}
	tx.Close()
	awaitClosed(t, "killed member ends", n.Done())
	if err := n.Err(); err != nil {
		t.Error(err)
	}
}

// etcd would panic on a file that is not a database. It is refused with a clear error, and can be set aside.
func TestDamagedDatabase(t *testing.T) {
	for name, damage := range map[string]func(path string, size int64) error{
		"overwritten": func(path string, size int64) error {
			return os.WriteFile(path, bytes.Repeat([]byte("garbage!"), int(size/8)), 0o600)
		},
		"zeroed":   func(path string, size int64) error { return os.WriteFile(path, make([]byte, size), 0o600) },
		"cut off":  func(path string, _ int64) error { return os.Truncate(path, 100) },
		"emptied?": func(path string, _ int64) error { return os.Truncate(path, 5000) },
	} {
		t.Run(name, func(t *testing.T) {
			n := found(t, "a")[0]
			stop(t, n, 0)
			path := DatabasePath(n.spec.DataDir)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(path, info.Size()); err != nil {
				t.Fatal(err)
			}
			if err := n.begin(t); !errors.Is(err, errDamaged) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want errDamaged with the path", err)
			}
			if _, err := (Disk{}).SetAside(n.spec.DataDir, "test"); err != nil {
				t.Errorf("set aside: %v", err)
			}
		})
	}
}

func TestLocked(t *testing.T) {
	n := found(t, "a")[0]
	second := newNode(t, "a")
	second.spec.DataDir = n.spec.DataDir
	if err := second.begin(t); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), n.spec.DataDir) {
		t.Errorf("second member: got %v, want errLocked with the path", err)
	}
	if err := second.Err(); err != nil {
		t.Errorf("Err of a start that failed: got %v, want nil, for it can be tried again", err)
	}
	// An etcd that holdfast does not run holds only the database.
	if err := probeBackend(n.spec.DataDir); !errors.Is(err, errLocked) {
		t.Errorf("open database: got %v, want errLocked", err)
	}
	if _, err := (Disk{}).SetAside(n.spec.DataDir, "test"); !errors.Is(err, errLocked) {
		t.Errorf("set aside: got %v, want errLocked", err)
	}
	stop(t, n, 0)
	if err := probeBackend(n.spec.DataDir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(n.spec.DataDir); err != nil {
		t.Error(err)
	}
}

func isUnavailable(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "this member is stopping") || errors.Is(err, rpctypes.ErrStopped))
}
