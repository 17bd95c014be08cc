package integration_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/integration"
	"holdfast/snapshot"
)

// etcd35 is the version of etcd from which the story moves.
const etcd35 = "3.5.33"

// A cluster of etcd 3.5 moves to holdfast without etcd 3.6 in between. Clients stop, and a backup is restored into a
// cluster that holdfast has founded on other disks. Then the clients use that cluster. No acknowledged write is lost,
// and the time without etcd is measured.
func TestShortestStopFromEtcd35(t *testing.T) {
	programs := os.Getenv(managerVariable)
	if programs == "" {
		t.Skipf("needs etcd %s: build it, and name the directory of etcd-v%[1]s in %s", etcd35, managerVariable)
	}
	story(t)
	c := founded(t, integration.Options{Keys: map[string]any{"etcd.quota-backend-bytes": quota()}})
	theirs := plainEtcdOf(t, filepath.Join(programs, "etcd-v"+etcd35, "etcd"), c, 3)
	w := newTraffic(t, nil, theirs...)
	w.agreed("3.5")
	w.fill()
	w.more(1000)

	w.cancel() // all clients stop
	w.wg.Wait()
	stopped, n := time.Now(), c.Nodes[0]
	o := n.Holdfast("snapshot", "save", "--snapshot.store", c.Store, "--cluster.name", "legacy", "--endpoints",
		strings.Join(theirs, ","), "-o", "json")
	var saved snapshot.Meta
	if err := json.Unmarshal([]byte(o.Out), &saved); err != nil || o.Code != 0 {
		t.Fatalf("save: %+v", o)
	}
	backup := time.Since(stopped)
	done(t, n, "restore", saved.Name, "--force-foreign", "--yes")
	w.urls = c.Endpoints()
	ours := w.dial(w.urls...)
	defer ours.Close()
	integration.Until(t, time.Minute, "clients write to holdfast", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := ours.Put(ctx, "first", "write")
		return err
	})
	t.Logf("clients stopped for %s, of which the backup took %s", time.Since(stopped).Round(time.Millisecond), backup.Round(time.Millisecond))

	c.Healthy()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.compare(ctx)
	lease, err := ours.TimeToLive(ctx, w.lease, clientv3.WithAttachedKeys())
	if err != nil || lease.TTL < 1 || len(lease.Keys) != 1 {
		t.Errorf("the lease has %+v: %v", lease, err)
	}
	t.Logf("%d writes were acknowledged by etcd %s", w.count(), etcd35)
}
