package etcdclient

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"holdfast/snapshot"
)

// The reasons why an endpoint does not answer are distinguished.
func TestWhySilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent := "http://" + listener.Addr().String()
	if err := whySilent(t.Context(), silent, nil); !strings.Contains(err.Error(), "is it etcd's client port, and is http right?") {
		t.Errorf("whySilent of a listener: got %v", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			conn.Close()
		}
	}()
	if err := whySilent(t.Context(), strings.Replace(silent, "http", "https", 1), nil); !strings.Contains(err.Error(), "tls") {
		t.Errorf("whySilent, TLS to what does not speak it: got %v", err)
	}
	listener.Close()
	if err := whySilent(t.Context(), silent, nil); !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("whySilent of nobody: got %v", err)
	}
}

// A member that begins to send its database, and then sends nothing, as one does whose disk hangs, is given up.
func TestSnapshotThatStalls(t *testing.T) {
	defer func(before time.Duration) { silence = before }(silence)
	silence = 300 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterMaintenanceServer(server, &stalling{})
	go server.Serve(listener)
	defer server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = Source{Endpoint: "http://" + listener.Addr().String()}.Fetch(ctx,
		clientv3.Config{Logger: zap.NewNop()}, snapshot.Options{Scratch: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "sent nothing for 300ms") {
		t.Errorf("got %v", err)
	}
}

// stalling sends the beginning of a database.
type stalling struct {
	pb.UnimplementedMaintenanceServer
}

func (*stalling) Snapshot(_ *pb.SnapshotRequest, to pb.Maintenance_SnapshotServer) error {
	err := to.Send(&pb.SnapshotResponse{RemainingBytes: 1 << 20, Blob: make([]byte, 10)})
	<-to.Context().Done()
	return err
}
