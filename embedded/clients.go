package embedded

import (
	"context"
	"crypto/x509"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Seen is told of the certificate with which a client calls, the chain that was verified, the client's certificate
// first. streams is 0 for a single call, 1 when a stream such as a watch begins, -1 when it ends. It is called by
// many goroutines at once, for each call, and must return at once.
type Seen func(chain []*x509.Certificate, streams int)

// Tell has seen told of the certificates with which clients call. It is called before the first Start. Calls by way
// of etcd's JSON gateway come with the server's own certificate.
func (m *Member) Tell(seen Seen) { m.seen = seen }

// serverOptions look at each call before holdfast's own interceptors do.
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

// chainOf is the verified chain of a call's client, nil if it came with no certificate.
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
