package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	writers    = 2                      // goroutines that write at the same time
	writePause = 100 * time.Millisecond // from one write to the next; much of a story's cost is writing
	writeSoon  = 20 * time.Millisecond  // the same, while a story waits for more writes
	writeTime  = 2 * time.Second        // the limit of a write, after which its outcome is unknown
)

// Writer writes in the background and remembers every acknowledged write. Each write is a transaction of two puts: a
// record under a key of its own, and the number of the newest record.
type Writer struct {
	c      *Cluster
	id     int // of this writer in the cluster
	cancel context.CancelFunc
	wg     sync.WaitGroup
	wanted atomic.Int32 // how many wait for more writes

	mu     sync.Mutex
	acked  map[string]string // record -> value
	newest [writers]int      // number of the newest acknowledged record of each writer
	vague  [writers][]int    // numbers of the records with an unknown outcome, which may still be written
	rev    int64             // of the newest acknowledged write
	at     time.Time         // of the newest acknowledged write
	gap    time.Duration     // longest time from one acknowledged write to the next, since the last call of Gap
}

// Write starts a writer, which writes until Stop or the end of the test. It uses any of the nodes that answers, or any
// node of the cluster if none are given.
func (c *Cluster) Write(nodes ...*Node) *Writer {
	c.t.Helper()
	client, err := c.dial(c.Endpoints(nodes...))
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.wrote++
	w := &Writer{c: c, id: c.wrote, cancel: cancel, acked: map[string]string{}, at: time.Now()}
	for i := range writers {
		w.wg.Go(func() { w.write(ctx, client, i) })
	}
	c.t.Cleanup(func() {
		cancel()
		w.wg.Wait()
		client.Close()
	})
	return w
}

func (w *Writer) write(ctx context.Context, client *clientv3.Client, i int) {
	for n := 1; ; n++ {
		pause := writePause
		if w.wanted.Load() > 0 {
			pause = writeSoon
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		key, value := w.record(i, n), strconv.Itoa(n)
		call, cancel := context.WithTimeout(ctx, writeTime)
		resp, err := client.Txn(call).Then(clientv3.OpPut(key, value), clientv3.OpPut(w.counter(i), value)).Commit()
		cancel()
		if err == nil {
			w.acknowledged(i, n, key, value, resp.Header.Revision)
		} else {
			w.mu.Lock()
			w.vague[i] = append(w.vague[i], n)
			w.mu.Unlock()
		}
	}
}

func (w *Writer) record(i, n int) string { return fmt.Sprintf("record/%d/%d/%08d", w.id, i, n) }
func (w *Writer) counter(i int) string   { return fmt.Sprintf("counter/%d/%d", w.id, i) }

func (w *Writer) acknowledged(i, n int, key, value string, rev int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.acked[key], w.newest[i] = value, n
	w.gap, w.at = max(w.gap, now.Sub(w.at)), now
	w.rev = max(w.rev, rev)
}

// Acked returns how many writes were acknowledged.
func (w *Writer) Acked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// Gap returns the longest time without an acknowledged write since the last call.
func (w *Writer) Gap() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := w.gap
	w.gap = 0
	return gap
}

// More waits until count more writes are acknowledged.
func (w *Writer) More(count int) {
	w.c.t.Helper()
	w.wanted.Add(1)
	defer w.wanted.Add(-1)
	want := w.Acked() + count
	w.c.Until(30*time.Second, fmt.Sprintf("%d more writes are acknowledged", count), func() error {
		if got := w.Acked(); got < want {
			return fmt.Errorf("%d are missing", want-got)
		}
		return nil
	})
}

// Stop ends the writing. It can be called again.
func (w *Writer) Stop() {
	w.cancel()
	w.wg.Wait()
}

// Verify stops the writing. It checks that every acknowledged write can be read from every running member, by a
// linearizable and by a serializable read, and that all members have the same data.
func (w *Writer) Verify() {
	w.c.t.Helper()
	w.Stop()
	if len(w.acked) == 0 {
		w.c.t.Fatal("no write was ever acknowledged: nothing is proven")
	}
	hashes := map[uint32]string{}
	rev := int64(0)
	for _, n := range w.c.Running() {
		s, err := n.Self()
		if err != nil {
			w.c.t.Fatal(err)
		}
		if s.Etcd == nil {
			continue // a standby
		}
		rev = max(rev, w.read(n))
	}
	for _, n := range w.c.Running() {
		if hash, ok := hashOf(w.c, n, rev); ok {
			hashes[hash] += n.Name + " "
		}
	}
	if len(hashes) != 1 {
		w.c.t.Errorf("members differ at revision %d: %v", rev, hashes)
	}
}

// read checks one member and returns its revision. The linearizable read comes first: it waits until the member has
// applied everything acknowledged, so the serializable read must find all of it.
func (w *Writer) read(n *Node) int64 {
	w.c.t.Helper()
	client, err := w.c.dial(w.c.Endpoints(n))
	if err != nil {
		w.c.t.Fatal(err)
	}
	defer client.Close()
	var rev int64
	for _, how := range []struct {
		name string
		opts []clientv3.OpOption
	}{{"linearizable", nil}, {"serializable", []clientv3.OpOption{clientv3.WithSerializable()}}} {
		found := map[string]string{}
		var resp *clientv3.TxnResponse
		w.c.Until(20*time.Second, how.name+" read from "+n.Name, func() (err error) { // an election may be under way
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			resp, err = client.Txn(ctx).Then(
				clientv3.OpGet("record/", append(how.opts, clientv3.WithPrefix())...),
				clientv3.OpGet("counter/", append(how.opts, clientv3.WithPrefix())...)).Commit()
			return err
		})
		for _, r := range resp.Responses {
			for _, kv := range r.GetResponseRange().Kvs {
				found[string(kv.Key)] = string(kv.Value)
			}
		}
		if err := w.compare(found); err != nil {
			w.c.t.Errorf("%s read from %s: %v", how.name, n.Name, err)
		}
		rev = resp.Header.Revision
	}
	if rev < w.rev {
		w.c.t.Errorf("%s is at revision %d, but %d was acknowledged", n.Name, rev, w.rev)
	}
	return rev
}

// Acknowledgements are the writes that were acknowledged at one moment.
type Acknowledgements struct {
	w      *Writer
	acked  map[string]string
	newest [writers]int
	vague  [writers][]int
}

// Snapshot returns what is acknowledged by now; the writing continues.
func (w *Writer) Snapshot() Acknowledgements {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Acknowledgements{w, maps.Clone(w.acked), w.newest, w.vague}
}

// Compare checks found, which has all keys at a later time. It returns an error if an acknowledged write is missing, or
// only half of one is there.
func (a Acknowledgements) Compare(found map[string]string) error {
	if len(a.acked) == 0 {
		return errors.New("no write was acknowledged: nothing is proven")
	}
	return (&Writer{id: a.w.id, acked: a.acked, newest: a.newest, vague: a.vague}).compare(found)
}

// Missing returns how many acknowledged writes are missing in found, which has the records by key.
func (w *Writer) Missing(found map[string]string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	missing := 0
	for key, value := range w.acked {
		if found[key] != value {
			missing++
		}
	}
	return missing
}

// compare returns an error if an acknowledged write is missing in found, or only half of one is there.
func (w *Writer) compare(found map[string]string) error {
	lost, example := 0, ""
	for key, value := range w.acked {
		if found[key] != value {
			lost++
			example = fmt.Sprintf("%s is %q, acknowledged was %q", key, found[key], value)
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d of %d acknowledged writes are lost: %s", lost, len(w.acked), example)
	}
	for i, newest := range w.newest {
		counted, _ := strconv.Atoi(found[w.counter(i)])
		// A member that was suspended later carries out old requests, which the writer had given up.
		late := slices.Contains(w.vague[i], counted) && counted < newest
		if counted < newest && !late {
			return fmt.Errorf("%s is %d, acknowledged was %d", w.counter(i), counted, newest)
		}
		if counted > 0 && found[w.record(i, counted)] == "" {
			return fmt.Errorf("%s is %d, but its record is not there: half a transaction", w.counter(i), counted)
		}
		if next := w.record(i, counted+1); found[next] != "" && !late {
			return fmt.Errorf("%s is %d, but %s is there: half a transaction", w.counter(i), counted, next)
		}
	}
	return nil
}

// hashOf returns the hash of a member's keys and history up to a revision. ok is false for a standby.
func hashOf(c *Cluster, n *Node, rev int64) (hash uint32, ok bool) {
	c.t.Helper()
	if s, err := n.Self(); err != nil || s.Etcd == nil {
		return 0, false
	}
	client, err := c.dial(c.Endpoints(n))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	// The read waits until the member has applied all that is committed. Its result does not matter.
	_, _ = client.Get(ctx, "any")
	resp, err := client.HashKV(ctx, n.ClientURL(), rev)
	if err != nil {
		c.t.Fatalf("hash of %s: %v", n.Name, err)
	}
	return resp.Hash, true
}

// dial returns a client that logs nothing, and notices a dead endpoint quickly.
func (c *Cluster) dial(endpoints []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialTimeout: 2 * time.Second, TLS: c.TLS,
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		BackoffWaitBetween: 25 * time.Millisecond,
	})
}
