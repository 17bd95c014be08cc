package embedded

import (
	"context"
	"crypto/x509"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

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
