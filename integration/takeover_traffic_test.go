package integration_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/integration"
)

const (
	trafficWriters = 4                     // goroutines that write at the same time
	trafficPause   = 40 * time.Millisecond // of each, from one write to the next
	trafficPrefix  = "traffic/"
	trafficLease   = 60 // the seconds of the lease's TTL: longer than any outage here
)

// traffic are clients of a cluster that moves from one program to another. They write, watch and keep a lease through
// all members. They use only etcd's API, so that they do not depend on the program.
type traffic struct {
	t      *testing.T
	urls   []string // client URLs of all members
	over   *tls.Config
	client *clientv3.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
	lease  clientv3.LeaseID
	born   identity

	mu      sync.Mutex
	acked   map[string]int64 // key -> revision of its only write
	refused map[string]int   // how often writes failed, by error
	seen    map[string]int64 // key -> revision at which the watch reported it
	told    int64            // newest revision that the watch reported
	watched error            // why the watch or the lease ended
	at      time.Time        // of the newest acknowledged write
	gap     time.Duration    // longest time without an acknowledged write since the last call of longest
	worst   time.Duration    // longest gap of all
}

// identity is what must not change when another program runs the members.
type identity struct {
	cluster uint64
	members map[uint64]string // ID -> peer URLs
}

// newTraffic starts the traffic, which ends with verify or with the test.
func newTraffic(t *testing.T, over *tls.Config, urls ...string) *traffic {
	t.Helper()
	w := &traffic{t: t, urls: urls, over: over, acked: map[string]int64{}, refused: map[string]int{},
		seen: map[string]int64{}, at: time.Now()}
	w.client = w.dial(urls...)
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	t.Cleanup(func() {
		cancel()
		w.wg.Wait()
		w.client.Close()
	})
	call, done := context.WithTimeout(ctx, patience)
	defer done()
	w.born = w.identity(call)
	lease, err := w.client.Grant(call, trafficLease)
	must(t, err)
	w.lease = lease.ID
	first, err := w.client.Put(call, trafficPrefix+"leased", "alive", clientv3.WithLease(lease.ID))
	must(t, err)
	alive, err := w.client.KeepAlive(ctx, lease.ID)
	must(t, err)
	w.wg.Go(func() {
		for range alive {
		}
		if ctx.Err() == nil {
			w.broken(errors.New("the lease is no longer kept alive"))
		}
	})
	watch := w.client.Watch(ctx, trafficPrefix, clientv3.WithPrefix(), clientv3.WithRev(first.Header.Revision))
	w.wg.Go(func() { w.watch(ctx, watch) })
	for i := range trafficWriters {
		w.wg.Go(func() { w.write(ctx, i) })
	}
	return w
}

// dial returns a client that notices within seconds that a member is gone.
func (w *traffic) dial(urls ...string) *clientv3.Client {
	w.t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: urls, Logger: zap.NewNop(), TLS: w.over,
		DialTimeout: 2 * time.Second, DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
		BackoffWaitBetween: 25 * time.Millisecond})
	must(w.t, err)
	return c
}

func (w *traffic) broken(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = errors.Join(w.watched, err)
}

func (w *traffic) write(ctx context.Context, i int) {
	pace := time.NewTicker(trafficPause)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		key := fmt.Sprintf("%s%d/%08d", trafficPrefix, i, n)
		call, cancel := context.WithTimeout(ctx, 2*time.Second)
		resp, err := w.client.Put(call, key, key)
		cancel()
		w.mu.Lock()
		switch now := time.Now(); {
		case err == nil:
			w.acked[key] = resp.Header.Revision
			w.gap, w.worst, w.at = max(w.gap, now.Sub(w.at)), max(w.worst, now.Sub(w.at)), now
		case ctx.Err() == nil:
			w.refused[err.Error()]++
		}
		w.mu.Unlock()
	}
}

// watch records the events. An event that comes twice, too late or not at all means a broken watch, and so does its
// end.
func (w *traffic) watch(ctx context.Context, events clientv3.WatchChan) {
	for resp := range events {
		if err := resp.Err(); err != nil {
			w.broken(fmt.Errorf("the watch ended: %w", err))
			return
		}
		w.mu.Lock()
		for _, e := range resp.Events {
			key := string(e.Kv.Key)
			if e.Kv.ModRevision < w.told || w.seen[key] != 0 {
				w.watched = errors.Join(w.watched, fmt.Errorf("the watch told of %s at revision %d after revision %d", key,
					e.Kv.ModRevision, w.told))
			}
			w.seen[key], w.told = e.Kv.ModRevision, e.Kv.ModRevision
		}
		w.mu.Unlock()
	}
	if ctx.Err() == nil {
		w.broken(errors.New("the watch ended"))
	}
}

// count returns how many writes were acknowledged.
func (w *traffic) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// longest returns the longest time without an acknowledged write since the last call, including the current one.
func (w *traffic) longest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	gap := max(w.gap, time.Since(w.at))
	w.gap = 0
	return gap.Round(time.Millisecond)
}

// more waits until count more writes are acknowledged.
func (w *traffic) more(count int) {
	w.t.Helper()
	want := w.count() + count
	integration.Until(w.t, time.Minute, fmt.Sprintf("%d more writes are acknowledged", count), func() error {
		if missing := want - w.count(); missing > 0 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return fmt.Errorf("%d are missing; others ended with %v", missing, w.refused)
		}
		return nil
	})
}

// identity reads the identity from all members, which must agree.
func (w *traffic) identity(ctx context.Context) (first identity) {
	w.t.Helper()
	for i, url := range w.urls {
		c := w.dial(url)
		list, err := c.MemberList(ctx)
		c.Close()
		if err != nil {
			w.t.Fatalf("list the members by way of %s: %v", url, err)
		}
		is := identity{list.Header.ClusterId, map[uint64]string{}}
		for _, m := range list.Members {
			is.members[m.ID] = strings.Join(m.PeerURLs, ",")
			if m.IsLearner {
				w.t.Errorf("member %x is a learner", m.ID)
			}
		}
		if i == 0 {
			first = is
		} else if is.cluster != first.cluster || !maps.Equal(is.members, first.members) {
			w.t.Errorf("%s says %x, %s says %x", w.urls[0], first, url, is)
		}
	}
	return first
}

// serves waits until a member answers a linearizable read and has caught up with the others.
func (w *traffic) serves(url string) {
	w.t.Helper()
	c := w.dial(url)
	defer c.Close()
	integration.Until(w.t, 2*time.Minute, url+" serves", func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Get(ctx, trafficPrefix+"leased")
		return err
	})
}

// version returns the cluster version according to a member. It is 3.0.0 until the founders have reported theirs.
func (w *traffic) version(url string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: w.over, DisableKeepAlives: true}}
	resp, err := client.Get(url + "/version")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ EtcdCluster string }
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.EtcdCluster, err
}

// agreed waits until all members say that the cluster has this minor version.
func (w *traffic) agreed(minor string) {
	w.t.Helper()
	integration.Until(w.t, time.Minute, "the cluster is at etcd "+minor, func() error {
		for _, url := range w.urls {
			if is, err := w.version(url); err != nil || is != minor+".0" {
				return fmt.Errorf("%s says %q: %v", url, is, err)
			}
		}
		return nil
	})
}

// leader returns the index of the member that leads.
func (w *traffic) leader() (leader int) {
	w.t.Helper()
	integration.Until(w.t, patience, "a member leads", func() (err error) {
		for i, url := range w.urls {
			ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
			status, say := w.client.Status(ctx, url)
			cancel()
			if say == nil && status.Leader == status.Header.MemberId {
				leader = i
				return nil
			}
			err = errors.Join(err, say)
		}
		return errors.Join(errors.New("no member says that it leads"), err)
	})
	return leader
}

// leaderLast returns the indexes of all members, the leader's last.
func (w *traffic) leaderLast() []int {
	w.t.Helper()
	leader := w.leader()
	var order []int
	for i := range w.urls {
		if i != leader {
			order = append(order, i)
		}
	}
	return append(order, leader)
}

// verify ends the traffic. It checks that nothing is lost, and that the cluster is the same one.
func (w *traffic) verify() {
	w.t.Helper()
	w.more(20)
	integration.Until(w.t, patience, "the watch is told of every acknowledged write", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.watched != nil {
			return nil // reported below
		}
		missing := 0
		for key, rev := range w.acked {
			if rev > w.told {
				continue // the event is still on its way
			}
			if w.seen[key] != rev {
				missing++
			}
		}
		if missing > 0 || len(w.acked) == 0 {
			return fmt.Errorf("%d of %d are missing", missing, len(w.acked))
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	lease, err := w.client.TimeToLive(ctx, w.lease, clientv3.WithAttachedKeys())
	if err != nil || lease.TTL < 1 || len(lease.Keys) != 1 {
		w.t.Errorf("the lease has %+v: %v", lease, err)
	}
	w.cancel()
	w.wg.Wait()
	if w.watched != nil {
		w.t.Error(w.watched)
	}
	if is := w.identity(ctx); is.cluster != w.born.cluster || !maps.Equal(is.members, w.born.members) {
		w.t.Errorf("the cluster was %x with the members %x, and is %x with %x", w.born.cluster, w.born.members,
			is.cluster, is.members)
	}
	w.compare(ctx)
	unsure := 0
	for _, n := range w.refused {
		unsure += n
	}
	w.t.Logf("%d writes were acknowledged and %d were not (%v); the longest gap was %s", len(w.acked), unsure, w.refused,
		w.worst.Round(time.Millisecond))
}

// compare reads everything from each member, which must have everything acknowledged, and the same hash as the others.
func (w *traffic) compare(ctx context.Context) {
	w.t.Helper()
	revision, hashes := int64(0), map[string]uint32{}
	for _, url := range w.urls {
		c := w.dial(url)
		defer c.Close()
		got, err := c.Get(ctx, trafficPrefix, clientv3.WithPrefix())
		if err != nil {
			w.t.Fatalf("read from %s: %v", url, err)
		}
		found := map[string]int64{}
		for _, kv := range got.Kvs {
			found[string(kv.Key)] = kv.ModRevision
		}
		lost := 0
		for key, rev := range w.acked {
			if found[key] != rev {
				lost++
			}
		}
		if lost > 0 {
			w.t.Errorf("%s has lost %d of %d acknowledged writes", url, lost, len(w.acked))
		}
		revision = max(revision, got.Header.Revision)
	}
	for _, url := range w.urls {
		hash, err := w.client.HashKV(ctx, url, revision)
		if err != nil {
			w.t.Fatalf("hash of %s: %v", url, err)
		}
		hashes[url] = hash.Hash
	}
	if all := slices.Compact(slices.Sorted(maps.Values(hashes))); len(all) != 1 {
		w.t.Errorf("the members differ at revision %d: %v", revision, hashes)
	}
}
