package integration_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
	"holdfast/gossip"
	"holdfast/integration"
)

// A cluster of etcd 3.5 is taken over in place. etcd 3.7 would panic on its logs, and does not after they are
// repaired. The directories are real ones, see embedded/testdata/etcd35.sh.
func TestRepairWALOfEtcd35(t *testing.T) {
	story(t)
	holdfast, err := binary()
	must(t, err)
	volume := t.TempDir()
	untar(t, "../embedded/testdata/etcd35.tar.zst", volume)

	// These members have names and run in this process, so they need a network of their own.
	c := cluster37(t, volume)
	for _, slot := range c.slots {
		err := c.members[slot].Start(t.Context(), c.specs[slot])
		if !errors.Is(err, embedded.ErrOldWAL) {
			t.Fatalf("start %s before the repair: got %v, want ErrOldWAL", slot, err)
		}
	}
	for _, slot := range c.slots {
		dir := c.specs[slot].DataDir
		repair := func(want string, flags ...string) {
			t.Helper()
			out, err := exec.CommandContext(t.Context(), holdfast, append([]string{"volume", "repair-wal", dir}, flags...)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), want) {
				t.Fatalf("repair-wal %s %v: %v\n%s", slot, flags, err, out)
			}
		}
		repair("it can be repaired", "--dry-run")
		repair("as it was: "+filepath.Join(volume, "aside"), "--yes")
		repair("nothing is to be repaired", "--yes")
	}
	for round := range 3 { // the cluster version rises in the first round
		c.start(t)
		c.holds(t, round)
		c.stop(t)
	}
}

// inProcess is a cluster of members in this process.
type inProcess struct {
	slots   []string
	members map[string]*embedded.Member
	specs   map[string]plan.Spec
	urls    []string
	client  *clientv3.Client
}

// cluster37 makes members for the directories a, b and c, and resolves their names to addresses.
func cluster37(t *testing.T, volume string) *inProcess {
	t.Helper()
	c := &inProcess{slots: []string{"a", "b", "c"}, members: map[string]*embedded.Member{}, specs: map[string]plan.Spec{}}
	peers, table := map[string]string{}, map[string][]netip.Addr{}
	prefix := integration.Reserve(t)
	for i, slot := range c.slots {
		peers[slot] = "http://" + slot + ".test.internal:2380"
		address := fmt.Sprintf("%s%d", prefix, i+1)
		table[slot] = []netip.Addr{netip.MustParseAddr(address)}
		c.urls = append(c.urls, "http://"+address+":2379")
		c.members[slot] = embedded.New(embedded.Config{Config: settings.Default().Resolve(address)}, zap.NewNop(), nil)
		c.specs[slot] = plan.Spec{Slot: slot, DataDir: filepath.Join(volume, slot), Token: "test@1", Peers: peers, PeerURL: peers[slot]}
		t.Cleanup(c.members[slot].Kill)
	}
	names := gossip.NewResolver("test.internal", "", zap.NewNop())
	names.Set(table)
	before := net.DefaultResolver
	net.DefaultResolver = names.Resolver()
	t.Cleanup(func() { net.DefaultResolver = before })
	client, err := clientv3.New(clientv3.Config{Endpoints: c.urls, Logger: zap.NewNop()})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	c.client = client
	return c
}

func (c *inProcess) start(t *testing.T) {
	t.Helper()
	for _, slot := range c.slots {
		must(t, c.members[slot].Start(t.Context(), c.specs[slot]))
	}
	for _, slot := range c.slots {
		for deadline := time.Now().Add(patience); c.members[slot].Status().ClusterVersion != "3.7.0"; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not at etcd 3.7.0: %+v", slot, c.members[slot].Status())
			}
		}
	}
}

func (c *inProcess) stop(t *testing.T) {
	t.Helper()
	for _, slot := range c.slots {
		must(t, c.members[slot].Stop(t.Context(), time.Second))
	}
}

// holds checks, on every member, the data that etcd35.sh wrote. etcd 3.5 left it at revision 23.
func (c *inProcess) holds(t *testing.T, round int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := c.client.Put(ctx, "new", fmt.Sprint(round)); err != nil {
		t.Fatal(err)
	}
	hashes := map[uint32]bool{}
	for i, url := range c.urls {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
		must(t, err)
		defer client.Close()
		got, err := client.Get(ctx, "key/", clientv3.WithPrefix())
		must(t, err)
		if want := int64(24 + round); len(got.Kvs) != 19 || got.Header.Revision != want {
			t.Errorf("%s in round %d: %d keys at revision %d, want 19 at %d", c.slots[i], round, len(got.Kvs), got.Header.Revision, want)
		}
		for _, kv := range got.Kvs {
			if want := "value-" + strings.TrimPrefix(string(kv.Key), "key/"); string(kv.Value) != want {
				t.Errorf("%s is %s, want %s", kv.Key, kv.Value, want)
			}
		}
		leased, err := client.Get(ctx, "leased")
		must(t, err)
		if len(leased.Kvs) != 1 || leased.Kvs[0].Lease == 0 {
			t.Errorf("%s has lost the lease", c.slots[i])
		}
		hash, err := client.HashKV(ctx, url, got.Header.Revision)
		must(t, err)
		hashes[hash.Hash] = true
		if members := c.members[c.slots[i]].Members(); len(members) != 3 {
			t.Errorf("%s has the members %v, want 3", c.slots[i], members)
		}
	}
	if len(hashes) != 1 {
		t.Errorf("round %d: the members differ: %v", round, hashes)
	}
}

// untar unpacks an archive of directories and files.
func untar(t *testing.T, archive, into string) {
	t.Helper()
	f, err := os.Open(archive)
	must(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	must(t, err)
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		path := filepath.Join(into, filepath.Clean("/"+h.Name))
		if h.FileInfo().IsDir() {
			must(t, os.MkdirAll(path, 0o700))
			continue
		}
		out, err := os.Create(path)
		must(t, err)
		_, err = io.Copy(out, r)
		must(t, errors.Join(err, out.Close()))
	}
}
