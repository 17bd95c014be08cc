package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"holdfast/integration"
)

// plains counts the clusters of plain etcd, to give each its own addresses.
var plains atomic.Int32

// plainEtcd starts a cluster of plain etcd on addresses of c's network, and returns its client URLs when it serves.
func plainEtcd(t *testing.T, c *integration.Cluster, size int) []string {
	t.Helper()
	binary, err := etcdBinary()
	must(t, err)
	return plainEtcdOf(t, binary, c, size)
}

// plainEtcdOf does the same with another binary of etcd.
func plainEtcdOf(t *testing.T, binary string, c *integration.Cluster, size int) []string {
	t.Helper()
	var urls []string
	for _, p := range plainMembers(t, binary, c, size) {
		p.Start(fmt.Sprintf("ETCD_QUOTA_BACKEND_BYTES=%d", quota()))
		urls = append(urls, p.ClientURL())
	}
	for _, url := range urls {
		must(t, firstWrite(t.Context(), nil, url))
	}
	return urls
}

// plainMembers makes the members of such a cluster, without starting them.
func plainMembers(t *testing.T, binary string, c *integration.Cluster, size int) []*plain {
	t.Helper()
	first := 101 + 10*int(plains.Add(1)%10)
	var members []*plain
	var founders []string
	for i := range size {
		p := &plain{b: t, binary: binary, name: fmt.Sprintf("e%d", i+1), address: c.Address(first + i)}
		p.dir = filepath.Join(c.Dir, fmt.Sprintf("%s-%d", p.name, first))
		p.data = filepath.Join(p.dir, "etcd")
		must(t, os.Mkdir(p.dir, 0o700))
		founders = append(founders, p.name+"=http://"+p.address+":2380")
		members = append(members, p)
	}
	t.Cleanup(func() {
		for _, p := range members {
			p.Signal(syscall.SIGKILL)
			p.Exit(time.Minute)
		}
	})
	for _, p := range members {
		p.founders = strings.Join(founders, ",")
	}
	return members
}

// dialed returns a client that is closed at the end of the test.
func dialed(t *testing.T, urls ...string) *clientv3.Client {
	t.Helper()
	client, err := dial(urls...)
	must(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}
