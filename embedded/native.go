package embedded

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/pkg/v3/runtime"
	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// native serves gRPC with gRPC's own transport. etcd does so over TLS only where HTTP has a port of its own. On a
// shared port it uses net/http for both (embed/serve.go), which costs a read half as much processor time again. So etcd
// gets another listener for HTTP, on a socket of this machine, with the same certificates. A client that offers
// HTTP/1.1 is connected to that one, because only the others are certain to speak gRPC.
type native struct {
	credentials.TransportCredentials
	// speaksGRPC listens to a client until it is certain that it speaks gRPC, or that it may speak HTTP.
	speaksGRPC func(*clientConn) (bool, error)
	other      func(net.Conn) // serves a connection on which HTTP may be spoken
	refused    func(*tls.Conn, error)
	files      *semaphore.Weighted // that clients' connections may have open
	conns      sync.Map            // each clientConn that is open
	server     atomic.Pointer[grpc.Server]
	calls      sync.RWMutex // locked for reading by each call over HTTP's listener, for good by a stop
	streams    *latch       // life's cutStreams
	cut        *latch       // life's cutCalls
	end        *latch       // gRPC's servers and clients' connections are to end
}

const (
	// ownFiles is how many files etcd keeps for itself (embed/etcd.go, reservedInternalFDNum).
	ownFiles = 150
	// handshakeTime is how long a client's handshake may take, as in etcd's TLS listener; gRPC's default is 2 minutes.
	handshakeTime = 10 * time.Second
)

// services are etcd's gRPC services (server/v3/etcdserver/api/v3rpc/grpc.go and embed/serve.go).
var services = []string{
	"etcdserverpb.KV", "etcdserverpb.Watch", "etcdserverpb.Lease", "etcdserverpb.Cluster", "etcdserverpb.Auth",
	"etcdserverpb.Maintenance", "grpc.health.v1.Health", "v3electionpb.Election", "v3lockpb.Lock",
}

// serveNatively changes the configuration. It leaves clients to etcd if HTTP has its own URLs, or if both schemes are
// served at one address.
func (l *life) serveNatively(ec *embed.Config) error {
	n := &l.native
	ec.ServiceRegister = n.register
	secure := ec.ListenClientUrls[0].Scheme == "https"
	differs := func(u url.URL) bool { return (u.Scheme == "https") != secure }
	if slices.ContainsFunc(ec.ListenClientUrls, differs) || len(ec.ListenClientHttpUrls) > 0 {
		return nil
	}
	files, err := runtime.FDLimit()
	if err != nil {
		return err
	}
	n.files, n.other = semaphore.NewWeighted(int64(min(files, math.MaxInt64))-ownFiles), l.forward
	n.refused = func(c *tls.Conn, err error) { ec.ClientTLSInfo.HandshakeFailure(c, err) } // etcd sets it when it starts
	ec.GRPCAdditionalServerOptions = append(ec.GRPCAdditionalServerOptions, grpc.Creds(n),
		grpc.ConnectionTimeout(handshakeTime))
	forHTTP := url.URL{Scheme: "unix", Path: "@holdfast-http-" + rand.Text()}
	if secure {
		forHTTP.Scheme = "unixs"
		err = n.secure(ec)
	} else {
		n.TransportCredentials, n.speaksGRPC = insecure.NewCredentials(), (*clientConn).startsHTTP2
	}
	ec.ListenClientHttpUrls = []url.URL{forHTTP}
	return err
}

func (n *native) secure(ec *embed.Config) error {
	config, err := ec.ClientTLSInfo.ServerConfig()
	if err != nil {
		return err
	}
	n.TransportCredentials, n.speaksGRPC = credentials.NewTLS(config), (*clientConn).offersOnlyGRPC
	// net/http lets a client ping as often as it likes. gRPC would end the connections of one that pings without a call.
	ec.GRPCAdditionalServerOptions = append(ec.GRPCAdditionalServerOptions,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 1, PermitWithoutStream: true}))
	ec.UserHandlers = map[string]http.Handler{}
	for _, s := range services {
		ec.UserHandlers["/"+s+"/"] = n
	}
	return nil
}

// register keeps a gRPC server of etcd, and stops it when the grace of a stop is over. etcd would wait 5 s for each
// client that no longer reads, 7 s for an HTTP request that is not complete, and gRPC 10 s for one that does not begin.
func (n *native) register(s *grpc.Server) {
	n.server.Store(s)
	go func() {
		<-n.end.Done()
		n.conns.Range(func(c, _ any) bool {
			c.(*clientConn).Close()
			return true
		})
		s.Stop()
	}()
}

func (n *native) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := &clientConn{Conn: conn, of: n}
	if n.conns.Store(c, nil); n.end.dropped() {
		c.Close()
	}
	defer n.streams.during(func() { c.Close() })() // gRPC's own stop would wait for the handshake
	secured, info, err := n.handshake(c)
	if err != nil && !errors.Is(err, credentials.ErrConnDispatched) {
		c.Close()
		if !n.streams.dropped() {
			n.refused(tls.Server(c, &tls.Config{}), err) // it is only asked for the client's address
		}
	}
	return secured, info, err
}

func (n *native) handshake(c *clientConn) (net.Conn, credentials.AuthInfo, error) {
	if err := c.open(1); err != nil {
		return nil, nil, err
	}
	grpc, err := n.speaksGRPC(c)
	if err != nil {
		return nil, nil, err
	}
	if grpc {
		return n.TransportCredentials.ServerHandshake(c)
	}
	if err := c.open(2); err != nil {
		return nil, nil, err
	}
	go n.other(c)
	return nil, nil, credentials.ErrConnDispatched
}

func (n *native) Clone() credentials.TransportCredentials { return n }

// ServeHTTP serves a call of a gRPC client that also offers HTTP/1.1. A gRPC server that stops would end it without a
// status.
func (n *native) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !n.calls.TryRLock() {
		http.Error(w, errCut.Error(), http.StatusServiceUnavailable) // gRPC's clients know it as Unavailable
		return
	}
	defer n.calls.RUnlock()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer n.cut.during(cancel)() // the question may never come
	n.server.Load().ServeHTTP(w, r.WithContext(ctx))
}

// drain refuses further calls over HTTP's listener. It waits until those in progress have ended or are cut: one that
// sends to a client that does not read could hold it up forever.
func (n *native) drain() {
	ended := make(chan struct{})
	go func() {
		n.calls.Lock()
		close(ended)
	}()
	select {
	case <-ended:
	case <-n.cut.Done():
	}
}

// forward connects a client with etcd's listener for HTTP, which is the only one on a Unix socket.
func (l *life) forward(client net.Conn) {
	defer client.Close()
	<-l.up
	if l.etcd == nil {
		return
	}
	for _, ln := range l.etcd.Clients {
		to, ok := ln.Addr().(*net.UnixAddr)
		if !ok {
			continue
		}
		server, err := dialAs(client, to)
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

// dialAs makes etcd's log name the client: the address of this end is that of the client, and, because the client may
// have connections to other nodes of this machine from there, the one that it has dialled. If the kernel refuses the
// name, because it is too long or taken, the client is served without.
func dialAs(client net.Conn, to *net.UnixAddr) (*net.UnixConn, error) {
	from := fmt.Sprintf("@%s to %s", client.RemoteAddr(), client.LocalAddr())
	if server, err := net.DialUnix(to.Net, &net.UnixAddr{Net: to.Net, Name: from}, to); err == nil {
		return server, nil
	}
	return net.DialUnix(to.Net, nil, to)
}

var (
	errHeard = errors.New("the client's offers are known")
	errFiles = errors.New("clients have as many files open as they may")
)

// clientConn counts the files that it costs until it is closed.
type clientConn struct {
	net.Conn
	r    io.Reader // what to read instead
	of   *native
	held atomic.Int64
}

func (c *clientConn) open(files int64) error {
	if !c.of.files.TryAcquire(files) {
		return errFiles
	}
	c.held.Add(files)
	return nil
}

func (c *clientConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *clientConn) Close() error {
	err := c.Conn.Close()
	c.of.files.Release(c.held.Swap(0))
	c.of.conns.Delete(c)
	return err
}

// offersOnlyGRPC reports whether a TLS client offers HTTP/2, and not HTTP/1.1 (ALPN). It returns an error if the client
// does not begin a handshake. Afterwards everything can be read from the beginning. Nothing is sent.
func (c *clientConn) offersOnlyGRPC() (bool, error) {
	var offers []string
	heard := &overheard{Conn: c.Conn}
	err := tls.Server(heard, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offers = hello.SupportedProtos
		return nil, errHeard
	}}).Handshake()
	if !errors.Is(err, errHeard) {
		return false, err
	}
	c.r = io.MultiReader(&heard.read, c.Conn)
	return slices.Contains(offers, "h2") && !slices.Contains(offers, "http/1.1"), nil
}

// startsHTTP2 reports whether a client without TLS begins as HTTP/2 does. No method of HTTP/1.1 begins so.
func (c *clientConn) startsHTTP2() (bool, error) {
	first := make([]byte, len("PRI"))
	if _, err := io.ReadFull(c.Conn, first); err != nil {
		return false, err
	}
	c.r = io.MultiReader(bytes.NewReader(first), c.Conn)
	return string(first) == "PRI", nil
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
