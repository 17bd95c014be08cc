package embedded

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// Anyone who reaches the peers' port without a peer's certificate learns nothing. Nothing that is sent there stops the
// member or keeps a peer out.
func TestHostilePeersPort(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("several seconds")
	}
	ca, forged := newAuthority(t), newAuthority(t) // with the same name
	n := newNode(t, "a")
	n.secure(t, ca, peerName)
	n.spec.Peers = map[string]string{"a": n.spec.PeerURL}
	n.run(t).awaitReady(t)
	at := n.addr + ":2380"
	as := func(a *authority, file, san string, change func(*x509.Certificate)) []tls.Certificate {
		pair, err := tls.LoadX509KeyPair(a.issueAs(t, file, change, san))
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{pair}
	}
	same := func(*x509.Certificate) {}
	past := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	server := func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
	peer := as(ca, "peer", peerName, same)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	ask := func(pair []tls.Certificate, method, path string, header http.Header, body io.Reader) error {
		r, err := http.NewRequestWithContext(soon(t), method, "https://"+at+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		h := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: pair}}}
		resp, err := h.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNoContent {
			return errors.New(resp.Status)
		}
		return nil
	}
	serves := func(after string) {
		t.Helper()
		if err := ask(peer, http.MethodGet, "/version", nil, nil); err != nil {
			t.Errorf("after %s a peer is refused: %v", after, err)
		}
		put(t, n.client(t), "k", after)
	}
	serves("nothing")

	large := http.Header{"X-Large": {strings.Repeat("x", 2<<20)}}
	foreign := http.Header{"X-Etcd-Cluster-Id": {"1"}, "X-Server-From": {"1"}, "X-Server-Version": {"3.6.0"},
		"X-Min-Cluster-Version": {"3.0.0"}}
	version := func(pair []tls.Certificate) error { return ask(pair, http.MethodGet, "/version", nil, nil) }
	for name, err := range map[string]error{
		"no certificate":         version(nil),
		"a forged authority":     version(as(forged, "forged", peerName, same)),
		"an expired one":         version(as(ca, "old", peerName, past)),
		"one of the gossip":      version(as(ca, "gossip", "node.gossip.test.holdfast.internal", same)),
		"one of a server alone":  version(as(ca, "server", peerName, server)),
		"one of another cluster": version(as(ca, "other", "peer.other.holdfast.internal", same)),
		"an oversized header":    ask(peer, http.MethodGet, "/version", large, nil),
		"a foreign message":      ask(peer, http.MethodPost, "/raft", foreign, io.LimitReader(zeros{}, 1<<30)),
	} {
		if err == nil {
			t.Errorf("%s is let in", name)
		}
	}
	serves("strangers")

	wire := &recorded{Conn: dial()}
	once := tls.Client(wire, &tls.Config{InsecureSkipVerify: true, Certificates: peer})
	if _, err := io.WriteString(once, "GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(once); err != nil || !bytes.Contains(text, []byte("200 OK")) {
		t.Fatalf("got %q, %v", text, err)
	}
	for what, text := range map[string][]byte{
		"a replay": wire.sent,
		"garbage":  bytes.Repeat([]byte{22}, 1<<20),
		"http":     []byte("GET /version HTTP/1.1\r\nHost: a\r\n\r\n"),
	} {
		conn := dial()
		_, _ = conn.Write(text) // the member may end it before
		got, err := io.ReadAll(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) || bytes.Contains(got, []byte("200 OK")) {
			t.Errorf("%s: got %d bytes, %v", what, len(got), err)
		}
		serves(what)
	}

	for i := range 300 { // connections that send nothing, or only a beginning
		if conn := dial(); i%2 == 0 {
			if _, err := conn.Write([]byte{22, 3, 1, 2, 0}); err != nil {
				t.Fatal(err)
			}
		}
	}
	serves("slow and half-open connections")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// recorded keeps what is sent.
type recorded struct {
	net.Conn
	sent []byte
}

func (r *recorded) Write(p []byte) (int, error) {
	r.sent = append(r.sent, p...)
	return r.Conn.Write(p)
}
