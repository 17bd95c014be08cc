package embedded

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/net/http2"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// secureClients runs a member that serves clients over TLS, and returns it with the configuration of such clients.
func secureClients(t *testing.T) (*node, func(protocols ...string) *tls.Config) {
	t.Helper()
	n := newNode(t, "a")
	return n, n.serveSecurely(t, newAuthority(t))
}

func (n *node) serveSecurely(t *testing.T, ca *authority) (offering func(protocols ...string) *tls.Config) {
	t.Helper()
	n.cfg.CertFile, n.cfg.KeyFile = ca.issue(t, "server", n.addr)
	n.cfg.TrustedCAFile, n.cfg.ClientCertAuth = ca.ca(), true
	n.run(t).awaitReady(t)
	s := &schemes{ca: ca, nodes: []*plainNode{{slot: "a", addr: n.addr}}}
	return func(protocols ...string) *tls.Config {
		c := s.tlsConfig(t)
		c.NextProtos = protocols
		return c
	}
}

func (n *node) secureClient(t *testing.T, over *tls.Config) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://" + n.addr + ":2379"}, TLS: over,
		Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Whatever a client offers, it is served at the one address, and one that speaks only gRPC by gRPC's own transport.
func TestNative(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	n, offering := secureClients(t)
	for _, offers := range [][]string{nil, {"h2"}, {"grpc-exp", "h2"}, {"h2", "http/1.1"}, {"http/1.1", "h2"}} {
		c := n.secureClient(t, offering(offers...)) // gRPC adds h2
		put(t, c, "k", "v")
		if _, err := watchStream(t, c); err != nil {
			t.Errorf("%q: watch: %v", offers, err)
		}
	}
	method := map[bool]string{true: http.MethodGet, false: http.MethodPost}
	for _, offers := range [][]string{nil, {"http/1.1"}, {"h2", "http/1.1"}} {
		h := http.Client{Transport: &http.Transport{TLSClientConfig: offering(offers...),
			ForceAttemptHTTP2: len(offers) == 2}}
		defer h.CloseIdleConnections()
		for path, body := range map[string]string{"/health": "", "/version": "", "/metrics": "",
			"/v3/kv/range": `{"key": "aw=="}`} {
			r, err := http.NewRequestWithContext(soon(t), method[body == ""], "https://"+n.addr+":2379"+path,
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := h.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%q: %s: got %s, %v", offers, path, resp.Status, err)
			}
			resp.Body.Close()
		}
	}
	var only http.Protocols
	only.SetHTTP2(true)
	h := http.Client{Transport: &http.Transport{TLSClientConfig: offering("h2"), Protocols: &only}}
	defer h.CloseIdleConnections()
	if resp, err := h.Get("https://" + n.addr + ":2379/version"); err == nil {
		if resp.Body.Close(); resp.StatusCode == http.StatusOK {
			t.Error("a client that offers only HTTP/2 is not served by gRPC's own transport")
		}
	}
	have := slices.Sorted(maps.Keys(n.current().native.server.Load().GetServiceInfo()))
	if want := slices.Sorted(slices.Values(services)); !slices.Equal(have, want) {
		t.Errorf("etcd has the services %q, and those over HTTP's listener are %q", have, want)
	}
}

// Each client that is refused is in the log with its address, whatever it speaks. A process that already has the name
// of a client's address on this machine keeps nobody out.
func TestRefusedClients(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	core, logs := observer.New(zap.WarnLevel)
	n := newNode(t, "a")
	n.lg = zap.New(core)
	offering := n.serveSecurely(t, newAuthority(t))
	refused := func(from net.Addr) func() bool {
		return func() bool {
			for _, e := range logs.FilterMessage("rejected connection on client endpoint").All() {
				if at, _ := e.ContextMap()["remote-addr"].(string); strings.Contains(at, from.String()) {
					return true
				}
			}
			return false
		}
	}
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", n.addr+":2379")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for _, protocol := range []string{"h2", "http/1.1"} {
		conn, stranger := dial(), offering(protocol)
		stranger.Certificates, stranger.ServerName = nil, n.addr
		_ = tls.Client(conn, stranger).Handshake()
		await(t, protocol+" is refused without a certificate", refused(conn.LocalAddr()))
	}
	conn := dial()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	await(t, "one without TLS is refused", refused(conn.LocalAddr()))

	conn = dial()
	taken, err := net.Listen("unix", fmt.Sprintf("@%s to %s", conn.LocalAddr(), conn.RemoteAddr()))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	served := offering("http/1.1")
	served.ServerName = n.addr
	if err := tls.Client(conn, served).Handshake(); err != nil {
		t.Error(err)
	}
}

// A renewed certificate is presented at the next handshake, whatever the client speaks, and ends no connection.
func TestRenewedForClients(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	ca, n := newAuthority(t), newNode(t, "a")
	offering := n.serveSecurely(t, ca)
	native := n.secureClient(t, offering("h2"))
	stream, err := watchStream(t, native)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(protocol string) *tls.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", n.addr+":2379", offering(protocol))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	http1 := dial("http/1.1")
	served := func() {
		t.Helper()
		put(t, native, "k", "v")
		if _, err := stream.Recv(); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(http1, "GET /version HTTP/1.1\r\nHost: etcd\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(http1), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	served()
	ca.issue(t, "server", n.addr)
	renewed, err := tls.LoadX509KeyPair(n.cfg.CertFile, n.cfg.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"h2", "http/1.1"} {
		if got := dial(protocol).ConnectionState().PeerCertificates[0]; !got.Equal(renewed.Leaf) {
			t.Errorf("%s: the old certificate is presented", protocol)
		}
	}
	served()
}

// Nothing but ClientTLSInfo.ServerConfig reaches gRPC's handshake. What etcd's own listener would apply beyond that
// must not be configurable, because gRPC's clients would be served without it.
func TestNativeHonoursTLS(t *testing.T) {
	n := newNode(t, "a")
	n.cfg.CertFile, n.cfg.KeyFile, n.cfg.TrustedCAFile, n.cfg.ClientCertAuth = "cert", "key", "ca", true
	ec, err := etcdConfig(n.resolved(), n.spec, n.lg, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := transport.TLSInfo{CertFile: "cert", KeyFile: "key", TrustedCAFile: "ca", ClientCertAuth: true}
	if got := ec.ClientTLSInfo; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	usual := embed.NewConfig()
	if len(ec.CipherSuites) > 0 || ec.TlsMinVersion != usual.TlsMinVersion || ec.TlsMaxVersion != "" || ec.ClientAutoTLS {
		t.Errorf("cipher suites %q, versions %q to %q, auto-tls %v", ec.CipherSuites, ec.TlsMinVersion, ec.TlsMaxVersion,
			ec.ClientAutoTLS)
	}
}

// No connection holds up a member that stops: none that is still silent, and no request or call over HTTP's listener.
func TestStopUnderHandshakes(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	n, offering := secureClients(t)
	var open []net.Conn
	for _, first := range [][]byte{nil, {22}, {22, 3, 1, 2, 0, 1}, []byte("GET / HTTP/1.1\r\n")} {
		conn, err := net.Dial("tcp", n.addr+":2379")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(first); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	frozen, err := tls.Dial("tcp", n.addr+":2379", offering("h2"))
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	if _, err := frozen.Write([]byte(http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(frozen, make([]byte, 9)); err != nil { // it is connected, and reads no more
		t.Fatal(err)
	}
	open = append(open, frozen)
	both := offering("h2", "http/1.1")
	for first, config := range map[string]*tls.Config{
		"": both, "PRI": offering("h2"),
		"POST /version HTTP/1.1\r\nHost: etcd\r\nContent-Length: 9\r\n\r\n": offering("http/1.1"),
		strings.Repeat("GET /metrics HTTP/1.1\r\nHost: etcd\r\n\r\n", 100):  offering("http/1.1"), // it reads no answer
	} {
		conn, err := tls.Dial("tcp", n.addr+":2379", config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	ask, never := io.Pipe() // a call whose question never comes
	defer never.Close()
	called := make(chan error, 1)
	go func() {
		h := http.Client{Transport: &http.Transport{TLSClientConfig: both, ForceAttemptHTTP2: true}}
		r, err := http.NewRequestWithContext(soon(t), http.MethodPost, "https://"+n.addr+":2379/etcdserverpb.KV/Range", ask)
		if err == nil {
			r.Header.Set("Content-Type", "application/grpc")
			var resp *http.Response
			if resp, err = h.Do(r); err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		called <- err
	}()
	if _, err := never.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	stream, err := watchStream(t, n.secureClient(t, both))
	if err != nil {
		t.Fatal(err)
	}
	life := n.current()
	ctx, cancel := context.WithTimeout(t.Context(), handshakeTime/2)
	defer cancel()
	if err := n.Stop(ctx, 0); err != nil {
		t.Fatal(err)
	}
	again := httptest.NewRecorder() // etcd may stop HTTP's listener after gRPC's server
	if life.native.ServeHTTP(again, nil); again.Code != http.StatusServiceUnavailable {
		t.Errorf("a call after the stop is answered with %d", again.Code)
	}
	if _, err := stream.Recv(); err == nil {
		t.Error("a watch lives on")
	}
	<-called
	for _, conn := range open {
		_, _ = io.Copy(io.Discard, conn) // it was closed
	}
}

// Without TLS, HTTP and gRPC share a port as well, and no connection holds up a member that stops, whatever its client
// has said.
func TestStopUnderPlainConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	n := found(t, "a")[0]
	resp, err := http.Get("http://" + n.addr + ":2379/version")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, first := range []string{"", "PRI * HTTP", "GET", "GET / HTTP/1.1\r\n",
		"POST /version HTTP/1.1\r\nHost: " + n.addr + "\r\nContent-Length: 9\r\n\r\n"} {
		conn, err := net.Dial("tcp", n.addr+":2379")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, first); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := watchStream(t, n.client(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), handshakeTime/2)
	defer cancel()
	if err := n.Stop(ctx, 0); err != nil {
		t.Error(err)
	}
}

// A client that does not begin a handshake costs one file, not three.
func TestNoHandshake(t *testing.T) {
	n := &native{speaksGRPC: (*clientConn).offersOnlyGRPC, streams: newLatch(), files: semaphore.NewWeighted(1),
		end: newLatch(), refused: func(*tls.Conn, error) {}}
	for _, first := range []string{"", "\x16", "\x16\x03\x01\x00\x04", "GET / HTTP/1.1\r\n"} {
		client, server := net.Pipe()
		go func() {
			_, _ = client.Write([]byte(first))
			client.Close()
		}()
		if _, _, err := n.ServerHandshake(server); err == nil || errors.Is(err, credentials.ErrConnDispatched) {
			t.Errorf("%q: got %v", first, err)
		}
		if !n.files.TryAcquire(1) {
			t.Fatalf("%q: its file is not free", first)
		}
		n.files.Release(1)
	}
}

// A client that connects when all others have been cut off is cut off as well, though its handshake may be faster than
// the word that streams are cut.
func TestHandshakeAfterTheEnd(t *testing.T) {
	n := &native{speaksGRPC: (*clientConn).startsHTTP2, streams: newLatch(), files: semaphore.NewWeighted(9),
		end: newLatch(), refused: func(*tls.Conn, error) {}, other: func(c net.Conn) { t.Error("it is served") }}
	n.end.drop()
	client, server := net.Pipe()
	defer client.Close()
	go func() { _, _ = client.Write([]byte("GET / HTTP/1.1\r\n")) }()
	if _, _, err := n.ServerHandshake(server); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

// Clients leave etcd the files that it needs itself: one is refused rather than served with the last ones.
func TestFilesOfClients(t *testing.T) {
	for protocol, need := range map[string]int64{"h2": 1, "http/1.1": 3} {
		for have := range need + 1 {
			served := make(chan net.Conn, 1)
			n := &native{TransportCredentials: insecure.NewCredentials(), speaksGRPC: (*clientConn).offersOnlyGRPC,
				other: func(c net.Conn) { served <- c }, files: semaphore.NewWeighted(have), streams: newLatch(), end: newLatch(),
				refused: func(*tls.Conn, error) {}}
			client, server := net.Pipe()
			go func() {
				hello := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}
				_ = tls.Client(client, hello).Handshake()
			}()
			conn, _, err := n.ServerHandshake(server)
			if errors.Is(err, credentials.ErrConnDispatched) {
				conn, err = <-served, nil
			}
			if (err == nil) != (have == need) {
				t.Errorf("%s: got %v with %d files, need %d", protocol, err, have, need)
			}
			if err == nil {
				if n.files.TryAcquire(1) {
					t.Errorf("%s: a client takes less than %d files", protocol, need)
				}
				conn.Close()
			}
			if !n.files.TryAcquire(have) {
				t.Errorf("%s: not all of %d files are free", protocol, have)
			}
			client.Close()
		}
	}
}

// A client may ping without a call in progress, as it may where net/http serves.
func TestIdlePings(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds")
	}
	n, offering := secureClients(t)
	conn, err := tls.Dial("tcp", n.addr+":2379", offering("h2"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for answers := 0; answers < 10; {
		if err := framer.WritePing(false, [8]byte{}); err != nil {
			t.Fatal(err)
		}
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			t.Fatalf("after %d pings: %v", answers, f)
		case *http2.PingFrame:
			answers++
		}
	}
}
