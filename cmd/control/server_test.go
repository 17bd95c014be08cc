package control

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/pki/pkitest"
)

// authority signs certificates for a test.
type authority struct {
	*tls.Certificate
	t   *testing.T
	dir string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.replace()
	return a
}

// replace makes another authority in place of this one.
func (a *authority) replace() {
	a.t.Helper()
	a.Certificate = pkitest.Authority(a.t, "")
	_, key := a.pair("ca")
	pkitest.Write(a.t, a.Certificate, a.ca(), key)
}

// ca is the file of the authority's certificate.
func (a *authority) ca() string { return filepath.Join(a.dir, "ca.crt") }

// pair are the files of a certificate that was signed before.
func (a *authority) pair(name string) (cert, key string) {
	return filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
}

// sign makes a certificate for 127.0.0.1 and a common name, and writes it under a name.
func (a *authority) sign(name, commonName string, change ...func(*x509.Certificate)) {
	a.t.Helper()
	c := x509.Certificate{Subject: pkix.Name{CommonName: commonName}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, f := range change {
		f(&c)
	}
	certFile, keyFile := a.pair(name)
	pkitest.Write(a.t, pkitest.Sign(a.t, a.Certificate, c), certFile, keyFile)
}

// serveTest answers every permitted request with the caller's name until the test ends.
func serveTest(t *testing.T, s *Server, l net.Listener) {
	t.Helper()
	s.Log = zap.NewNop()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			Reply(w, nil, err)
			return
		}
		if _, mesh, err := Shown(r); err == nil && mesh {
			w.Header().Set("Mesh", "true")
		}
		Reply(w, r.Context().Value(peerKey{}).(caller).name, nil)
	})
	routes := new(Routes)
	routes.Do("POST /drain", func(*http.Request) error { return nil }, DryRun)
	routes.Do("POST /own", func(*http.Request) error { return nil }, Own)
	go func() { done <- s.answerOn(ctx, s.guarded(h, routes), []net.Listener{l}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A certificate of the peers' authority gives no command, whatever it is called and whichever name it asks for; it may ask
// for what concerns itself.
func TestRemoteControlOfTheMesh(t *testing.T) {
	const name = "node.gossip.main.internal"
	clients, peers := newAuthority(t), newAuthority(t)
	clients.sign("server", "")
	clients.sign("ops", "ops")
	peers.sign("ops", "ops") // an observer that somebody has called so
	peers.sign("expired", "ops", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	peers.sign("node", "n1", func(c *x509.Certificate) { c.DNSNames = []string{name} })
	certFile, keyFile := clients.pair("server")
	s := &Server{CertFile: certFile, KeyFile: keyFile, CAFile: clients.ca(),
		Config: config.Control{Listen: "127.0.0.1:0", Readers: []string{"n1"}, Operators: []string{"ops"}},
		Mesh: &Mesh{Name: name, Certificate: func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(peers.pair("node"))
			return &pair, err
		}, Authorities: func() (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			pool.AddCert(peers.Leaf)
			return pool, nil
		}}}
	l, err := s.listenRemote()
	must(t, err)
	serveTest(t, s, l)
	sessions := tls.NewLRUClientSessionCache(1)
	for _, c := range []struct {
		by           *authority // of the certificate that is shown, and of the node
		of           *authority
		cert, name   string
		method, path string
		mesh         bool
		want         string // of the error
	}{
		{clients, clients, "ops", "127.0.0.1", "POST", "/drain", false, ""},
		{peers, peers, "ops", name, "POST", "/own", true, ""},
		{peers, peers, "ops", name, "POST", "/drain", true, "gives no command"},
		{peers, peers, "ops", name, "POST", "/drain?dry=true", true, "gives no command"},
		{peers, peers, "ops", name, "GET", "/status", true, "gives no command"},
		{peers, peers, "node", name, "GET", "/status", true, "gives no command"},
		{peers, peers, "expired", name, "POST", "/own", true, "expired certificate"},
		{peers, clients, "ops", "127.0.0.1", "POST", "/drain", false, "unknown certificate authority"},
		{clients, peers, "ops", name, "POST", "/own", true, "unknown certificate authority"},
		{clients, peers, "ops", name, "POST", "/drain", true, "unknown certificate authority"},
	} {
		t.Run(c.cert+" "+c.name+" "+c.method+" "+c.path, func(t *testing.T) {
			pair, err := tls.LoadX509KeyPair(c.by.pair(c.cert))
			must(t, err)
			pool := x509.NewCertPool()
			pool.AddCert(c.of.Leaf)
			node := OpenAs(l.Addr().String(), c.name, pair, pool)
			node.HTTP.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = sessions // of another name, and authority
			req, err := http.NewRequestWithContext(t.Context(), c.method, node.URL+c.path, nil)
			must(t, err)
			resp, err := node.HTTP.Do(req)
			said := ""
			if err != nil {
				said = err.Error()
			} else {
				text, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					said = string(text)
				} else if (resp.Header.Get("Mesh") == "true") != c.mesh {
					t.Errorf("mesh: %v", !c.mesh)
				}
				if resp.TLS.DidResume {
					t.Error("a session was taken up again")
				}
			}
			if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("got %q, want %q", said, c.want)
			}
		})
	}
}

// Another machine may do what its certificate is named for, and nothing without one.
func TestRemoteControl(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for _, name := range []string{"server", "ops", "eyes", "stranger"} {
		ours.sign(name, strings.TrimPrefix(name, "server")) // that of a server names nobody
	}
	theirs.sign("ops", "ops")
	ours.sign("expired", "ops", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	ours.sign("early", "ops", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })
	ours.sign("serves", "ops", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	certFile, keyFile := ours.pair("server")
	s := &Server{CertFile: certFile, KeyFile: keyFile, CAFile: ours.ca(),
		Config: config.Control{Listen: "127.0.0.1:0", Readers: []string{"eyes"}, Operators: []string{"ops"}}}
	l, err := s.listenRemote()
	must(t, err)
	serveTest(t, s, l)
	for _, c := range []struct {
		by           *authority
		name         string
		method, path string
		want         string // of the error, empty: none
	}{
		{ours, "ops", "GET", "/status", ""},
		{ours, "ops", "POST", "/drain?force=true", ""},
		{ours, "eyes", "GET", "/status", ""},
		{ours, "eyes", "POST", "/drain?dry=true", ""},
		{ours, "eyes", "POST", "/drain?force=true", "refused: eyes from 127.0.0.1 may look, but not change anything"},
		{ours, "ops", "POST", "/consent?proposal=1", ""},
		{ours, "eyes", "POST", "/consent?proposal=1", "may look, but not change anything"},
		{ours, "eyes", "POST", "/consent?proposal=1&dry=true", "may look, but not change anything"}, // knows no dry run
		{ours, "stranger", "POST", "/consent?proposal=1", "is named neither"},
		{ours, "eyes", "POST", "/downgrade?to=3.6&dry=true", "may look, but not change anything"}, // knows no dry run
		{ours, "eyes", "DELETE", "/downgrade?dry=true", "may look, but not change anything"},
		{ours, "stranger", "GET", "/status", `the certificate of "stranger" is named neither by control.readers nor by control.operators`},
		{ours, "server", "GET", "/status", `the certificate of "" is named neither`},
		{ours, "stranger", "POST", "/own", ""}, // what concerns itself
		{ours, "eyes", "POST", "/own", ""},
		{ours, "stranger", "GET", "/own", "is named neither"},
		{ours, "stranger", "POST", "/own/../drain", "is named neither"},
		{ours, "stranger", "POST", "/drain?dry=true", "is named neither"},
		{ours, "server", "POST", "/own", `the certificate of "" is named neither`},
		{theirs, "ops", "POST", "/own", "no node answers"},
		{theirs, "ops", "GET", "/status", "no node answers"}, // the handshake fails
		{ours, "expired", "GET", "/status", "no node answers"},
		{ours, "expired", "POST", "/own", "no node answers"},
		{ours, "early", "GET", "/status", "no node answers"},
		{ours, "serves", "GET", "/status", "no node answers"}, // for another use
		{ours, "ops", "GET", "/status?" + strings.Repeat("x", 64<<10), "the node on"},
	} {
		t.Run(c.name+" "+c.method+" "+c.path, func(t *testing.T) {
			cert, key := c.by.pair(c.name)
			node, err := newRemote(config.Remote{Address: l.Addr().String(), CertFile: cert, KeyFile: key, CAFile: ours.ca()})
			must(t, err)
			var got string
			err = node.Get(t.Context(), c.method+" "+c.path, &got)
			if c.want == "" && (err != nil || got != c.name+" from 127.0.0.1") {
				t.Errorf("got %q, %v", got, err)
			}
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %q, %v, want an error with %q", got, err, c.want)
			}
		})
	}
	t.Run("no certificate", func(t *testing.T) {
		pool := x509.NewCertPool()
		pool.AddCert(ours.Leaf)
		h := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		if resp, err := h.Get("https://" + l.Addr().String() + "/status"); err == nil {
			resp.Body.Close()
			t.Errorf("got %s", resp.Status)
		}
	})
	t.Run("a node that is not ours", func(t *testing.T) {
		cert, key := ours.pair("ops")
		node, err := newRemote(config.Remote{Address: l.Addr().String(), CertFile: cert, KeyFile: key, CAFile: theirs.ca()})
		must(t, err)
		if err := node.Get(t.Context(), "GET /status", new(string)); !errors.Is(err, ErrUnreachable) {
			t.Errorf("got %v", err)
		}
	})
	// A certificate may expire meanwhile, or its authority be dropped.
	t.Run("a connection that stays open", func(t *testing.T) {
		pair, err := tls.LoadX509KeyPair(ours.pair("ops"))
		must(t, err)
		pool := x509.NewCertPool()
		pool.AddCert(ours.Leaf)
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool,
			NextProtos: []string{"h2", "http/1.1"}})
		must(t, err)
		defer conn.Close()
		if p := conn.ConnectionState().NegotiatedProtocol; p == "h2" {
			t.Fatal("HTTP/2 serves many requests on one connection")
		}
		_, err = io.WriteString(conn, strings.Repeat("GET /status HTTP/1.1\r\nHost: n1\r\n\r\n", 2))
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
		answers, _ := io.ReadAll(conn)
		if n := strings.Count(string(answers), "200 OK"); n != 1 {
			t.Errorf("%d requests were answered, want 1", n)
		}
	})
	// Without a limit, anyone with a certificate could hold all connections.
	for _, name := range []string{"ops", "stranger"} {
		t.Run("a body that does not come, from "+name, func(t *testing.T) {
			pair, err := tls.LoadX509KeyPair(ours.pair(name))
			must(t, err)
			pool := x509.NewCertPool()
			pool.AddCert(ours.Leaf)
			conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool})
			must(t, err)
			defer conn.Close()
			if _, err := io.WriteString(conn, "POST /own HTTP/1.1\r\nHost: n1\r\nContent-Length: 9\r\n\r\nx"); err != nil {
				t.Fatal(err)
			}
			must(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.Contains(string(answer), "the request has a body") {
				t.Errorf("got %q, %v", answer, err)
			}
		})
	}
	t.Run("the certificate is replaced", func(t *testing.T) {
		ours.replace()
		ours.sign("server", "")
		ours.sign("ops", "ops")
		cert, key := ours.pair("ops")
		node, err := newRemote(config.Remote{Address: l.Addr().String(), CertFile: cert, KeyFile: key, CAFile: ours.ca()})
		must(t, err)
		if err := node.Get(t.Context(), "GET /status", new(string)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a body without end", func(t *testing.T) {
		cert, key := ours.pair("ops")
		node, err := newRemote(config.Remote{Address: l.Addr().String(), CertFile: cert, KeyFile: key, CAFile: ours.ca()})
		must(t, err)
		body := io.LimitReader(zeros{}, 1<<30)
		req, err := http.NewRequestWithContext(t.Context(), "POST", node.URL+"/found", body)
		must(t, err)
		resp, err := node.HTTP.Do(req)
		if err != nil {
			return // it was cut off
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("a gigabyte was read")
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Connections that never say anything do not keep out who has something to say.
func TestRemoteControlOfTheSlow(t *testing.T) {
	if testing.Short() {
		t.Skip("a handshake may take 5 s")
	}
	ours := newAuthority(t)
	ours.sign("ops", "ops")
	certFile, keyFile := ours.pair("ops")
	s := &Server{CertFile: certFile, KeyFile: keyFile, CAFile: ours.ca(), Config: config.Control{Listen: "127.0.0.1:0", Operators: []string{"ops"}}}
	l, err := s.listenRemote()
	must(t, err)
	serveTest(t, s, l)
	for range 2 * maxConnections {
		slow, err := net.Dial("tcp", l.Addr().String())
		must(t, err)
		defer slow.Close()
	}
	node, err := newRemote(config.Remote{Address: l.Addr().String(), CertFile: certFile, KeyFile: keyFile, CAFile: ours.ca()})
	must(t, err)
	node.HTTP.Transport.(*http.Transport).TLSHandshakeTimeout = time.Minute
	if err := node.Get(t.Context(), "GET /status", new(string)); err != nil {
		t.Error(err)
	}
}

const dialVariable = "HOLDFAST_TEST_DIAL"

// A process of another user is refused, even if someone has opened the socket's mode to all.
func TestSocketOfAnotherUser(t *testing.T) {
	if socket := os.Getenv(dialVariable); socket != "" { // the child
		fmt.Println(Local(socket).Get(t.Context(), "GET /status", new(string)))
		return
	}
	if os.Getuid() != 0 || !peerKnown {
		t.Skip("needs root, to be another user, and Linux, which tells of it")
	}
	dir, err := os.MkdirTemp("", "holdfast") // unlike t.TempDir's, all of its parents are open
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := listenAt(socket, zap.NewNop())
	must(t, err)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	serveTest(t, &Server{}, l)
	var who string
	if err := Local(socket).Get(t.Context(), "GET /status", &who); err != nil || !strings.HasSuffix(who, "(uid 0)") {
		t.Errorf("root: got %q, %v", who, err)
	}
	binary := filepath.Join(dir, "test")
	for _, open := range []func() error{
		func() error { return os.Chmod(dir, 0o755) }, func() error { return os.Chmod(socket, 0o666) },
		func() error { return copyFile(os.Args[0], binary) },
	} {
		must(t, open())
	}
	child := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSocketOfAnotherUser$", "-test.v")
	child.Env, child.Dir = append(os.Environ(), dialVariable+"="+socket), dir
	child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := child.CombinedOutput()
	if want := "refused: only root and uid 0, which holdfast runs as, may use this socket"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("got %v\n%swant %q", err, out, want)
	}
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	_, err = io.Copy(w, in)
	return errors.Join(err, w.Flush(), out.Close())
}

// Anyone who cannot be told apart from others is nobody.
func TestLocalCaller(t *testing.T) {
	for _, c := range []struct {
		uid   uint32
		known bool
		own   int
		want  role
	}{
		{0, true, 1000, mayChange}, {1000, true, 1000, mayChange}, {1001, true, 1000, mayNothing}, {1, true, 0, mayNothing},
	} {
		if got := localCaller(c.uid, c.known, c.own); got.role != c.want || (got.why == "") != (c.want != mayNothing) {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
	if got := localCaller(0, false, 0); peerKnown && got.role != mayNothing {
		t.Errorf("of an unknown user: got %+v", got)
	}
}

// What lies where the socket is to be is removed only if it is a socket that a process that is gone has left.
func TestSocketInThePlaceOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "control.sock")
	must(t, os.WriteFile(path, []byte("precious"), 0o600))
	if l, err := listenAt(path, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("got %v, %v", l, err)
	}
	if text, err := os.ReadFile(path); string(text) != "precious" {
		t.Fatalf("the file: %q, %v", text, err)
	}
	must(t, os.Remove(path))
	must(t, listenElse(t, path).Close())
	l, err := listenAt(path, zap.NewNop())
	must(t, err)
	l.Close()
}

// listening is a socket on which nobody answers.
func listening(t *testing.T) (socket string, l net.Listener) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return socket, l
}

// Who is interrupted while he waits is not told that no node answers.
func TestInterrupted(t *testing.T) {
	socket, l := listening(t)
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil {
			interrupt()
			conn.Close()
		}
	}()
	c := Local(socket)
	c.wakes = 0
	err := c.Get(ctx, "GET /status", new(string))
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// A node that ends while it works on a command was there, and may have carried the command out.
func TestEndsBeforeItAnswers(t *testing.T) {
	socket, l := listening(t)
	go func() {
		if conn, err := l.Accept(); err == nil {
			http.ReadRequest(bufio.NewReader(conn))
			conn.Close()
		}
	}()
	c := Local(socket)
	c.wakes = 0
	if err := c.Do(t.Context(), "POST /resume"); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "it may have done what was asked of it") {
		t.Errorf("got %v", err)
	}
}

// A user who may not use the socket is not sent to look for a node that runs.
func TestDenied(t *testing.T) {
	c := Local("/run/holdfast.sock")
	c.wakes = 0
	c.HTTP.Transport = denied{}
	err := c.Get(t.Context(), "GET /status", new(string))
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "run the command as root") || strings.Contains(err.Error(), "is holdfast running here") {
		t.Errorf("got %v", err)
	}
}

type denied struct{}

func (denied) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
}

// The kernel accepts connections for a process that is suspended: a command says so, and does not wait forever.
func TestSuspended(t *testing.T) {
	socket, _ := listening(t)
	c := Local(socket)
	c.wakes = 10 * time.Millisecond
	if err := c.Get(t.Context(), "GET /status", new(string)); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "suspended") {
		t.Errorf("got %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
