package snapshot_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/snapshot"
)

// midday is the time of the first backup in tests.
var midday = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// forged returns a sidecar as Save would make it for this data, of a backup made at created.
func forged(created time.Time, data string) snapshot.Meta {
	m := identity
	m.Name, m.Created, m.Verified = snapshot.FormatName(created), created, created.Add(time.Second)
	m.Members = 3
	m.Content = snapshot.Content{Revision: 7, Keys: 3, Size: 4096}
	m.Trailer = strings.Repeat("0", 64)
	sum := sha256.Sum256([]byte(data))
	m.Stored = snapshot.Stored{Codec: "zstd", Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	return m
}

// gzipped turns m into one in etcd-manager's format.
func gzipped(m snapshot.Meta) snapshot.Meta {
	m.Stored.Codec = "gzip"
	return m
}

// forge puts a backup into a store in the order in which Save does, without a database.
func forge(t testing.TB, store snapshot.Store, m snapshot.Meta, data string) snapshot.Meta {
	t.Helper()
	text, err := snapshot.EncodeBegin(snapshot.Begin{Cluster: m.Cluster, Lineage: m.Lineage, Node: m.Node, Since: m.Created})
	must(t, err)
	put(t, store, m.Name+"/holdfast.begin.json", string(text))
	file := "etcd.backup.zst"
	if m.Stored.Codec == "gzip" {
		file = "etcd.backup.gz"
	}
	put(t, store, m.Name+"/"+file, data)
	text, err = snapshot.EncodeMeta(m)
	must(t, err)
	put(t, store, m.Name+"/holdfast.meta.json", string(text))
	if m.Stored.Codec == "gzip" {
		text, err = snapshot.EncodeManagerMeta(m)
		must(t, err)
		put(t, store, m.Name+"/_etcd_backup.meta", string(text))
	}
	return m
}

// legacy puts a backup into a store as etcd-manager does.
func legacy(t testing.TB, store snapshot.Store, name string, created time.Time, data string) {
	t.Helper()
	put(t, store, name+"/etcd.backup.gz", data)
	put(t, store, name+"/_etcd_backup.meta", fmt.Sprintf(`{"etcdVersion":"3.5.9", "timestamp":"%d","clusterSpec":{"memberCount":3,"etcdVersion":"3.5.9"}}`, created.Unix()))
}

func put(t testing.TB, store snapshot.Store, name, text string) {
	t.Helper()
	must(t, store.Put(t.Context(), name, strings.NewReader(text)))
}

// names lists the objects of a store.
func objects(t testing.TB, store snapshot.Store, prefix string) (names []string) {
	t.Helper()
	list, err := store.List(t.Context(), prefix)
	must(t, err)
	for _, o := range list {
		names = append(names, o.Name)
	}
	return names
}

// written sets the modification time of everything below a directory.
func written(t testing.TB, dir string, at time.Time) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Chtimes(path, at, at)
	}))
}

// observed is a store that records changes, and lets a test refuse or alter them.
type observed struct {
	snapshot.Store
	refuse func(op, name string) error
	alter  func(name string, data []byte) []byte // of the data for Put

	mu  sync.Mutex
	log []string
}

func (o *observed) note(op, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuse != nil {
		if err := o.refuse(op, name); err != nil {
			return err
		}
	}
	o.log = append(o.log, op+" "+name)
	return nil
}

// did returns the changes since the last call.
func (o *observed) did() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	log := o.log
	o.log = nil
	return slices.DeleteFunc(log, func(s string) bool { return strings.HasPrefix(s, "list ") || strings.HasPrefix(s, "get ") })
}

func (o *observed) Put(ctx context.Context, name string, r io.Reader) error {
	if err := o.note("put", name); err != nil {
		return err
	}
	if o.alter != nil {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		r = strings.NewReader(string(o.alter(name, b)))
	}
	return o.Store.Put(ctx, name, r)
}

func (o *observed) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	if err := o.note("create", name); err != nil {
		return err
	}
	return o.Store.PutIfAbsent(ctx, name, data)
}

func (o *observed) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := o.note("get", name); err != nil {
		return nil, err
	}
	return o.Store.Get(ctx, name)
}

func (o *observed) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	if err := o.note("list", prefix); err != nil {
		return nil, err
	}
	return o.Store.List(ctx, prefix)
}

func (o *observed) Delete(ctx context.Context, name string) error {
	if err := o.note("delete", name); err != nil {
		return err
	}
	return o.Store.Delete(ctx, name)
}
