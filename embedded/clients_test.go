package embedded

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

type streamOf struct {
	grpc.ServerStream
	ctx context.Context
}

func (s streamOf) Context() context.Context { return s.ctx }

// Calls are reported with the verified chain, streams also when they end. Calls without a certificate are not reported.
func TestClientsAreSeen(t *testing.T) {
	var got []string
	seen := Seen(func(chain []*x509.Certificate, streams int) {
		got = append(got, fmt.Sprintf("%s %d", chain[0].Raw, streams))
	})
	with := func(state tls.ConnectionState) context.Context {
		return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: state}})
	}
	call := func(ctx context.Context) {
		t.Helper()
		answer, err := seen.unary(ctx, nil, nil, func(context.Context, any) (any, error) { return "answer", nil })
		if err != nil || answer != "answer" {
			t.Errorf("got %v, %v", answer, err)
		}
		if err := seen.stream(nil, streamOf{ctx: ctx}, nil, func(any, grpc.ServerStream) error {
			got = append(got, "handled")
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	chain := []*x509.Certificate{{Raw: []byte("client")}, {Raw: []byte("authority")}}
	call(with(tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{chain}}))
	if text := fmt.Sprint(got); text != "[client 0 client 1 handled client -1]" {
		t.Errorf("got %s", text)
	}
	got = nil
	call(with(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{}}})) // presented, but not verified
	call(t.Context())
	if text := fmt.Sprint(got); text != "[handled handled]" {
		t.Errorf("got %s", text)
	}
	if n := len(Seen(nil).serverOptions()); n != 0 {
		t.Errorf("%d options where nobody is told", n)
	}
}
