package embedded

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/embedded/plan"
)

const longLock = time.Minute

// lockOf returns the disruption lock as the member has applied it, "" for none.
func lockOf(t *testing.T, n *node) string {
	t.Helper()
	value, _, err := n.Key(plan.KeyLock)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func leases(t *testing.T, n *node) int {
	t.Helper()
	resp, err := n.client(t).Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(resp.Leases)
}

// If many ask for the lock at once, on leader and follower, one gets it and the others learn which. Its holder can take
// it again, anyone who knows it can refresh it, and nobody else can give it back. No lease is left behind.
func TestLock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("founds a cluster")
	}
	nodes := found(t, "a", "b")
	one, other := nodes[0], nodes[1]
	ctx := t.Context()
	var wg sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wg.Go(func() {
			_, results[i] = nodes[i%2].TryLock(ctx, []byte{'0' + byte(i)}, nil, longLock)
		})
	}
	wg.Wait()
	holder := ""
	for i, err := range results {
		switch {
		case err == nil && holder != "":
			t.Fatalf("both %s and %d have it", holder, i)
		case err == nil:
			holder = string('0' + byte(i))
		case !errors.Is(err, errHeld):
			t.Fatal(err)
		}
	}
	present, err := other.TryLock(ctx, []byte("late"), []byte("not it"), longLock)
	if !errors.Is(err, errHeld) || string(present) != holder {
		t.Fatalf("got %q, %v; want errHeld by %q", present, err, holder)
	}
	if err := other.Unlock(ctx, []byte("late")); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		await(t, "it is applied", func() bool { return lockOf(t, n) == holder })
		if err := n.RefreshLock(ctx, []byte(holder)); err != nil {
			t.Error(err)
		}
		if err := n.RefreshLock(ctx, []byte("late")); !errors.Is(err, ErrChanged) {
			t.Errorf("refresh of a lock that is another's: got %v", err)
		}
	}
	if _, err := other.TryLock(ctx, []byte("again"), []byte(holder), longLock); err != nil {
		t.Fatal(err)
	}
	await(t, "it was taken again, and outlives its first lease", func() bool { return lockOf(t, one) == "again" && leases(t, one) == 1 })
	if err := one.Unlock(ctx, []byte("again")); err != nil {
		t.Fatal(err)
	}
	await(t, "nothing is left of it", func() bool { return lockOf(t, other) == "" && leases(t, other) == 0 })
	stop(t, one, 0)
	if _, err := one.TryLock(ctx, []byte("x"), nil, longLock); !errors.Is(err, errStopped) {
		t.Errorf("a member that does not run: got %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := other.TryLock(short, []byte("x"), nil, longLock); err == nil || time.Since(begin) > 2*time.Second {
		t.Errorf("without a quorum: got %v after %s", err, time.Since(begin))
	}
}

// The lock of a holder that is gone expires, but not while anyone refreshes it. All of this works with authentication
// enabled.
func TestLockExpires(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for a lease to expire")
	}
	nodes := found(t, "a", "b")
	one, other := nodes[0], nodes[1]
	ctx := t.Context()
	enableAuth(t, one.client(t))
	await(t, "the other member asks for passwords", func() bool { return other.current().server().AuthStore().IsAuthEnabled() })
	const ttl = 2 * time.Second
	if _, err := other.TryLock(ctx, []byte("mine"), nil, ttl); err != nil {
		t.Fatal(err)
	}
	await(t, "the other member has applied it", func() bool { return lockOf(t, one) == "mine" })
	begin := time.Now()
	await(t, "it is refreshed for longer than it lasts", func() bool {
		if err := one.RefreshLock(ctx, []byte("mine")); err != nil {
			t.Fatal(err)
		}
		return time.Since(begin) > 2*ttl
	})
	if got := lockOf(t, one); got != "mine" {
		t.Fatalf("a refreshed lock has ended: %q", got)
	}
	begin = time.Now()
	await(t, "it ends", func() bool { return lockOf(t, one) == "" })
	if took := time.Since(begin); took < ttl/2 {
		t.Errorf("it ended %s after it was refreshed", took)
	}
	for _, n := range nodes {
		if _, err := n.TryLock(ctx, []byte("next"), nil, longLock); err != nil {
			t.Fatal(err)
		}
		if err := n.Unlock(ctx, []byte("next")); err != nil {
			t.Fatal(err)
		}
	}
}

func enableAuth(t *testing.T, c *clientv3.Client) {
	t.Helper()
	_, err := c.UserAdd(t.Context(), "root", "secret")
	if err == nil {
		_, err = c.UserGrantRole(t.Context(), "root", "root")
	}
	if err == nil {
		_, err = c.AuthEnable(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}
