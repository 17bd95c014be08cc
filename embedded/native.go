package embedded

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// native serves gRPC over TLS with gRPC's own transport. etcd does so only where HTTP has a port of its own. On a
// shared port it uses net/http for both (embed/serve.go), which costs a read half as much processor time again. So etcd
// gets another listener for HTTP, on a loopback address, with the same certificates. A client that offers HTTP/1.1 is
// connected to that one, because only the others are certain to speak gRPC.
type native struct {
	credentials.TransportCredentials
	other   func(net.Conn) // serves a connection on which HTTP may be spoken
	server  atomic.Pointer[grpc.Server]
	streams *latch // life's cutStreams
	cut     *latch // life's cutCalls
}

const (
	// httpHost is where etcd listens for HTTP, on a port that the kernel chooses. No other listener has this address.
	httpHost = "127.0.0.79"
	// handshakeTime is how long a client's handshake may take, as in etcd's TLS listener; gRPC's default is 2 minutes.
	handshakeTime = 10 * time.Second
)

// services are etcd's gRPC services (server/v3/etcdserver/api/v3rpc/grpc.go and embed/serve.go).
var services = []string{
	"etcdserverpb.KV", "etcdserverpb.Watch", "etcdserverpb.Lease", "etcdserverpb.Cluster", "etcdserverpb.Auth",
	"etcdserverpb.Maintenance", "grpc.health.v1.Health", "v3electionpb.Election", "v3lockpb.Lock",
}

// serveNatively changes the configuration. Clients without TLS are left to etcd, which serves them natively; so are
// those of a configuration that gives HTTP its own URLs, or serves both schemes at one address.
func (l *life) serveNatively(ec *embed.Config) error {
	plain := func(u url.URL) bool { return u.Scheme != "https" }
	if slices.ContainsFunc(ec.ListenClientUrls, plain) || len(ec.ListenClientHttpUrls) > 0 {
		return nil
	}
	config, err := ec.ClientTLSInfo.ServerConfig()
	if err != nil {
		return err
	}
	n := &l.native
	n.TransportCredentials, n.other, n.streams, n.cut = credentials.NewTLS(config), l.forward, l.cutStreams, l.cutCalls
	ec.ListenClientHttpUrls = []url.URL{{Scheme: "https", Host: net.JoinHostPort(httpHost, "0")}}
	ec.GRPCAdditionalServerOptions = append(ec.GRPCAdditionalServerOptions, grpc.Creds(n),
		grpc.ConnectionTimeout(handshakeTime))
	ec.ServiceRegister = n.server.Store
	ec.UserHandlers = map[string]http.Handler{}
	for _, s := range services {
		ec.UserHandlers["/"+s+"/"] = n
	}
	return nil
}

// ServerHandshake implements credentials.TransportCredentials.
func (n *native) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	defer n.streams.during(func() { conn.Close() })() // gRPC's own stop would wait for the handshake
	offers, conn := listenIn(conn)
	if slices.Contains(offers, "h2") && !slices.Contains(offers, "http/1.1") {
		return n.TransportCredentials.ServerHandshake(conn)
	}
	go n.other(conn)
	return nil, nil, credentials.ErrConnDispatched
}

// Clone implements credentials.TransportCredentials.
func (n *native) Clone() credentials.TransportCredentials { return n }

// ServeHTTP serves a call of a gRPC client that also offers HTTP/1.1.
func (n *native) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer n.cut.during(cancel)() // the question may never come
	n.server.Load().ServeHTTP(w, r.WithContext(ctx))
}

// forward connects a client with etcd's listener for HTTP.
func (l *life) forward(client net.Conn) {
	defer client.Close()
	<-l.up
	if l.etcd == nil {
		return
	}
	for _, ln := range l.etcd.Clients {
		to, ok := ln.Addr().(*net.TCPAddr)
		if !ok || to.IP.String() != httpHost {
			continue
		}
		server, err := net.DialTCP("tcp", nil, to)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.CloseWrite()
		}()
		_, _ = io.Copy(client, server)
	}
}

var errHeard = errors.New("the client's offers are known")

// listenIn returns the application protocols that a TLS client offers (ALPN), and a connection on which everything can
// be read from the beginning. Nothing is sent. Of something else than TLS nothing is known.
func listenIn(conn net.Conn) (offers []string, again net.Conn) {
	heard := &overheard{Conn: conn}
	_ = tls.Server(heard, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offers = hello.SupportedProtos
		return nil, errHeard
	}}).Handshake()
	return offers, &repeated{conn, io.MultiReader(bytes.NewReader(heard.read.Bytes()), conn)}
}

// overheard keeps what is read, and sends nothing.
type overheard struct {
	net.Conn
	read bytes.Buffer
}

func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	o.read.Write(p[:n])
	return n, err
}

func (o *overheard) Write(p []byte) (int, error) { return len(p), nil }

// repeated reads from r instead.
type repeated struct {
	net.Conn
	r io.Reader
}

func (r *repeated) Read(p []byte) (int, error) { return r.r.Read(p) }
