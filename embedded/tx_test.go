package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func watchStream(t *testing.T, c *clientv3.Client) (pb.Watch_WatchClient, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	stream, err := pb.NewWatchClient(c.ActiveConnection()).Watch(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("k")}}})
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv() // created
	return stream, err
}

func TestSnapshot(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	rev := put(t, c, "k", "v")
	tx, err := n.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, c, "k", "later")
	last, _ := tx.Bucket([]byte("key")).Cursor().Last()
	if got := int64(binary.BigEndian.Uint64(last)); got != rev {
		t.Errorf("revision in the transaction: got %d, want %d", got, rev)
	}
	var buf bytes.Buffer
	size := tx.Size()
	written, err := tx.WriteTo(&buf)
	if err != nil || written != size || int64(buf.Len()) != size {
		t.Errorf("write: got %d, %v, want %d", written, err, size)
	}
	if err := tx.Close(); err != nil {
		t.Error(err)
	}
	if err := tx.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	file := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(file, buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		last, _ := tx.Bucket([]byte("key")).Cursor().Last()
		if got := int64(binary.BigEndian.Uint64(last)); got != rev {
			t.Errorf("revision in the file: got %d, want %d", got, rev)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	stop(t, n, 0)
}

// Stop makes a running copy fail, waits for its holder, and admits no new one.
func TestStopUnderSnapshot(t *testing.T) {
	n := found(t, "a")[0]
	put(t, n.client(t), "k", string(make([]byte, 1<<20)))
	tx, err := n.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		_, err := tx.WriteTo(pw)
		wrote <- err
		pw.Close()
	}()
	if _, err := io.ReadFull(pr, make([]byte, 8192)); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(context.Background(), time.Second) }()
	awaitClosed(t, "stop has begun", n.current().abort.Done())
	if _, err := n.Snapshot(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("snapshot while stopping: got %v, want errStopped", err)
	}
	if _, err := io.Copy(io.Discard, pr); err != nil {
		t.Error(err)
	}
	if err := <-wrote; !errors.Is(err, errStopped) {
		t.Errorf("copy: got %v, want errStopped", err)
	}
	// The holder may still read the buckets, so etcd must not even have begun to stop.
	select {
	case <-n.current().etcd.Server.StoppingNotify():
		t.Error("etcd stops under an open transaction")
	case err := <-stopped:
		t.Fatalf("stopped under an open transaction: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	tx.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A client that saves a snapshot, and hardly reads, does not hold the stop up: its snapshot is cut first.
func TestStopUnderClientsSnapshot(t *testing.T) {
	n := found(t, "a")[0]
	for i := range 8 {
		put(t, n.client(t), fmt.Sprint(i), string(make([]byte, 1<<20)))
	}
	conn, err := grpc.NewClient(n.addr+":2379", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := pb.NewMaintenanceClient(conn).Snapshot(soon(t), &pb.SnapshotRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	stop(t, n, time.Second)
	if took := time.Since(begin); took > drainWait/2 {
		t.Errorf("stop took %v", took)
	}
	for err == nil { // what was sent before, then the end
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the client got %v, want Unavailable", err)
	}
}

// etcd would block every read and write of the member until the snapshot is closed.
func TestDefragmentWaitsForSnapshot(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	put(t, c, "k", "v")
	tx, err := n.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if n.Quiet() {
		t.Error("quiet under a snapshot")
	}
	if err := n.Defragment(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("defragment under a snapshot: got %v, want DeadlineExceeded", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Defragment(ctx, "http://"+n.addr+":2379"); err == nil {
		t.Error("a client defragmented under a snapshot")
	}
	put(t, c, "k", "w")
	tx.Close()
	for range 2 { // asking changes nothing
		if !n.Quiet() {
			t.Error("not quiet after the snapshot")
		}
	}
	if err := n.Defragment(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Defragment(t.Context(), "http://"+n.addr+":2379"); err != nil {
		t.Error(err)
	}
	put(t, c, "k", "x")
	if err := n.PutKey(t.Context(), "slots", []byte("old"), 0); err != nil {
		t.Fatal(err)
	}
	n.Key("slots")
	l, rev := n.current(), n.Status().Revision
	l.freeze()
	put(t, c, "k", "y")
	if v, version, err := n.Key("slots"); string(v) != "old" || version != 1 || err != nil {
		t.Errorf("key while the backend is locked: %q, version %d, %v; want what it was", v, version, err)
	}
	if _, _, err := n.Key("lock"); err == nil {
		t.Error("a key that was never read is said to be none while the backend is locked")
	}
	if err := n.RefreshLock(t.Context(), []byte("x")); !errors.Is(err, errBusy) {
		t.Errorf("refresh of the lock, which reads it as all keys are read, while the backend is locked: got %v", err)
	}
	if got := n.Status().Revision; got != rev {
		t.Errorf("revision while the backend is locked: got %d, want %d", got, rev)
	}
	l.thaw()
	if got := n.Status().Revision; got != rev+1 {
		t.Errorf("revision after it: got %d, want %d", got, rev+1)
	}
	stop(t, n, 0)
}

// TestSnapshotMemory reads a database of 24 MiB in a transaction. What is read counts as this process's memory only
// until the transaction is closed.
func TestSnapshotMemory(t *testing.T) {
	n := found(t, "a")[0]
	c := n.client(t)
	for i := range 24 {
		put(t, c, fmt.Sprint(i), strings.Repeat("x", 1<<20))
	}
	tx, err := n.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	cursor := tx.Bucket([]byte("key")).Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		sum += bytes.Count(v, []byte("x"))
	}
	read := residentFiles(t)
	if err := tx.Close(); err != nil {
		t.Fatal(err)
	}
	if after := residentFiles(t); sum < 24<<20 || after > read-16<<10 {
		t.Errorf("%d bytes read, resident file pages: %d KiB, and %d KiB after the end", sum, read, after)
	}
	got, err := c.Get(t.Context(), "23")
	if err != nil || len(got.Kvs) != 1 || len(got.Kvs[0].Value) != 1<<20 {
		t.Errorf("read afterwards: want one value of 1 MiB, got another answer, %v", err)
	}
}

// residentFiles returns how much of mapped files counts as this process's memory, in KiB.
func residentFiles(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}
