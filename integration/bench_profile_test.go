package integration_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"holdfast/integration"
)

var profileTo = flag.String("profile.to", "", "directory for the profiles of BenchmarkProfile; it is left out without")

const (
	profileTime    = 40 * time.Second
	profileClients = 12
	profileWatches = 60
	profilePort    = ":6061"
)

// BenchmarkProfile takes a CPU profile of each node of a cluster under a load like that of Kubernetes, over TLS:
// puts in transactions, linearizable reads, ranges, leases, watches, and a backup. From these, `make profile` makes the
// profile for the optimised build.
func BenchmarkProfile(b *testing.B) {
	if *profileTo == "" {
		b.Skip("without -profile.to there is nothing to write")
	}
	path, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	c := integration.New(b, path, integration.Options{Keys: map[string]any{"etcd.log-level": logLevel}})
	for _, n := range c.Nodes {
		n.Keys["metrics.pprof"] = n.Address + profilePort
	}
	overTLS(b, c)
	c.Start()
	c.Serving()
	for b.Loop() {
		group, ctx := errgroup.WithContext(b.Context())
		// No deadline: etcd would know it, and could answer that it is over before the client's own clock says so.
		load, end := context.WithCancel(ctx)
		defer end()
		defer time.AfterFunc(profileTime+2*time.Second, end).Stop()
		for i := range profileClients {
			client := mustDialOver(b, c.TLS, c.Nodes[i%len(c.Nodes)].ClientURL())
			defer client.Close()
			group.Go(func() error { return kubernetes(load, client, i) })
		}
		for _, n := range c.Nodes {
			group.Go(func() error { return profile(ctx, n) })
		}
		if o := c.Nodes[0].Command("snapshot", "save"); o.Code != 0 {
			b.Fatal(o)
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// kubernetes is the load of one client until ctx is done.
func kubernetes(ctx context.Context, client *clientv3.Client, number int) error {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	for i := range profileWatches / profileClients {
		prefix := fmt.Sprintf("/registry/pods/%d/", i)
		events := client.Watch(watched, prefix, clientv3.WithPrefix(), clientv3.WithPrevKV())
		go func() {
			for range events {
			}
		}()
	}
	lease, err := client.Grant(ctx, 3600)
	for err == nil {
		key := fmt.Sprintf("/registry/pods/%d/%d", rand.IntN(50), rand.IntN(100))
		var found *clientv3.GetResponse
		if found, err = client.Get(ctx, key); err != nil {
			break
		}
		var revision int64
		if len(found.Kvs) == 1 {
			revision = found.Kvs[0].ModRevision
		}
		if _, err = client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(clientv3.OpPut(key, string(make([]byte, 200+rand.IntN(2000))))).Else(clientv3.OpGet(key)).Commit(); err != nil {
			break
		}
		switch rand.IntN(10) {
		case 0:
			_, err = client.Get(ctx, fmt.Sprintf("/registry/pods/%d/", rand.IntN(50)), clientv3.WithPrefix(), clientv3.WithLimit(50))
		case 1:
			_, err = client.Put(ctx, fmt.Sprintf("/registry/leases/%d", number), "held", clientv3.WithLease(lease.ID))
		case 2:
			_, err = client.KeepAliveOnce(ctx, lease.ID)
		case 3:
			_, err = client.Delete(ctx, key)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// profile saves the profile of a node.
func profile(ctx context.Context, n *integration.Node) error {
	url := fmt.Sprintf("http://%s%s/debug/pprof/profile?seconds=%d", n.Address, profilePort, profileTime/time.Second)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.Create(filepath.Join(*profileTo, n.Name+".prof"))
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, resp.Body); err != nil {
		return err
	}
	return f.Close()
}
