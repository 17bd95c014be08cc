package embedded

import (
	"context"
	"crypto/x509"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// callGrace is how long client calls in progress may take when the member stops. etcd's own answers take milliseconds;
// it would wait 7 s for a slow one.
const callGrace = time.Second

// latch is a context that ends when anyone drops it.
type latch struct {
	context.Context
	drop context.CancelFunc
}

func newLatch() *latch {
	ctx, drop := context.WithCancel(context.Background())
	return &latch{ctx, drop}
}

func (l *latch) dropped() bool { return l.Err() != nil }

// during calls end, if the latch is dropped before over is called.
func (l *latch) during(end func()) (over func() bool) { return context.AfterFunc(l, end) }

// closed reports whether a channel that nothing is sent to is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errCut is what a client gets whose call is ended, so that it resumes on another member. A watch lasts as long as its
// client likes, and etcd's Close waits 7 s for it while a leader keeps leading (measured: 8.1 s with one watch, 14 ms
// with this). The text must differ from the two texts on which etcd's client repeats a write (clientv3
// retry_interceptor.go), because the write may have been carried out.
var errCut = status.Error(codes.Unavailable, "holdfast: this member is stopping")

// serverOptions install interceptors that run after etcd's own.
func (l *life) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainStreamInterceptor(l.stream),
		grpc.ChainUnaryInterceptor(l.unary),
	}
}

// stream runs the handler in a goroutine of its own and returns without it when streams are cut. The handler ends soon
// after, because gRPC cancels the stream's context when stream returns. A snapshot is cut earlier, like our own,
// because a stop hands over only when none is open.
func (l *life) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	cut, leave, snapshot := l.cutStreams, func() {}, info.FullMethod == "/etcdserverpb.Maintenance/Snapshot"
	if snapshot {
		cut = l.abort
	}
	if cut.dropped() {
		return errCut
	}
	if snapshot {
		if err := l.gate.acquire(ss.Context()); err != nil {
			return status.FromContextError(err).Err()
		}
		leave = l.gate.release
	}
	ended := make(chan error, 1)
	go func() {
		defer leave()
		ended <- handler(srv, ss)
	}()
	select {
	case err := <-ended:
		return err
	case <-cut.Done():
		return errCut
	}
}

func (l *life) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if l.cutCalls.dropped() {
		return nil, errCut
	}
	switch {
	case info.FullMethod == "/etcdserverpb.Maintenance/Defragment":
		return l.defragmentCall(ctx, req, handler)
	case waits(info.FullMethod):
		return l.waitingCall(ctx, req, handler)
	case l.refuses(req):
		return nil, rpctypes.ErrGRPCNoSpace
	}
	return handler(ctx, req)
}

// waits reports whether a call blocks until another client acts. All other calls are bounded by etcd's request timeout,
// and a goroutine for each of them would cost too much.
func waits(method string) bool {
	return strings.HasPrefix(method, "/v3lockpb.") || strings.HasPrefix(method, "/v3electionpb.")
}

// waitingCall ends the call through its context, so that etcd gives up the client's place in the queue.
func (l *life) waitingCall(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var resp any
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		resp, err = handler(ctx, req)
	}()
	select {
	case <-ended:
		return resp, err
	case <-l.cutStreams.Done():
		return nil, errCut
	}
}

// defragmentCall keeps a client's defragmentation away from open snapshots. Otherwise etcd would block every read and
// write of the member until the snapshot is closed.
func (l *life) defragmentCall(ctx context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	if err := l.gate.acquireAll(ctx); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	defer l.gate.releaseAll()
	if l.abort.dropped() {
		return nil, errCut
	}
	l.freeze()
	defer l.thaw()
	return handler(ctx, req)
}

// Seen is called with the verified certificate chain of a client, the client's own certificate first. streams is 0 for
// a unary call, 1 when a stream such as a watch begins, and -1 when it ends. It is called for each call, by many
// goroutines at once, and must not block.
type Seen func(chain []*x509.Certificate, streams int)

// Tell registers seen, which is then called for each client call. Call Tell before the first Start. Calls through
// etcd's JSON gateway bear the server's own certificate.
func (m *Member) Tell(seen Seen) { m.seen = seen }

// serverOptions install interceptors that run before the other interceptors of holdfast.
func (s Seen) serverOptions() []grpc.ServerOption {
	if s == nil {
		return nil
	}
	return []grpc.ServerOption{grpc.ChainStreamInterceptor(s.stream), grpc.ChainUnaryInterceptor(s.unary)}
}

func (s Seen) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if chain := chainOf(ctx); chain != nil {
		s(chain, 0)
	}
	return handler(ctx, req)
}

func (s Seen) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if chain := chainOf(ss.Context()); chain != nil {
		s(chain, 1)
		defer s(chain, -1)
	}
	return handler(srv, ss)
}

// chainOf returns the verified chain of a call's client, nil if the client presented no certificate.
func chainOf(ctx context.Context) []*x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0]
}
