package gossip

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"holdfast/embedded/pki/pkitest"
)

// authority is a test's authority of peers.
type authority struct{ *tls.Certificate }

// The names in the certificates of the tests.
const (
	nodeName    = "node.test"
	watcherName = "observer.test"
)

func newAuthority(t testing.TB) *authority { return &authority{pkitest.Authority(t, "peers")} }

// issue makes a certificate with a name that is valid until then. "NODE NAME" is one for that node.
func (a *authority) issue(t testing.TB, name string, until time.Time, usages ...x509.ExtKeyUsage) *tls.Certificate {
	t.Helper()
	node, name, bound := strings.Cut(name, " ")
	if !bound {
		node, name = "", node
	}
	return pkitest.Sign(t, a.Certificate, x509.Certificate{Subject: pkix.Name{CommonName: node}, DNSNames: []string{name},
		NotAfter: until, ExtKeyUsage: usages})
}

// papers are what a process presents and trusts, which a test may change.
type papers struct {
	mu   sync.Mutex
	cert *tls.Certificate
	pool *x509.CertPool
}

func (p *papers) set(cert *tls.Certificate, trusted ...*authority) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cert, p.pool = cert, x509.NewCertPool()
	for _, a := range trusted {
		p.pool.AddCert(a.Leaf)
	}
}

func (p *papers) tls() TLS {
	return TLS{
		label: "holdfast/main",
		Certificate: func() (*tls.Certificate, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.cert == nil {
				return nil, errors.New("no certificate yet")
			}
			return p.cert, nil
		},
		Authorities: func() (*x509.CertPool, error) { p.mu.Lock(); defer p.mu.Unlock(); return p.pool, nil },
		Speaker: func(c *x509.Certificate) (Speaker, error) {
			switch {
			case slices.Contains(c.DNSNames, nodeName):
				return Speaker{RoleNode, c.Subject.CommonName}, nil
			case slices.Contains(c.DNSNames, watcherName):
				return Speaker{Role: RoleObserver}, nil
			}
			return Speaker{}, errors.New("it bears no name of this mesh")
		},
		Sign: func(key crypto.Signer, text []byte) ([]byte, error) {
			sum := sha256.Sum256(text)
			return key.Sign(rand.Reader, sum[:], crypto.SHA256)
		},
		Check: func(by *x509.Certificate, text, signature []byte) error {
			return by.CheckSignature(x509.ECDSAWithSHA256, text, signature)
		},
	}
}

// papersOf are those of a node, or of an observer, by an authority.
func papersOf(t testing.TB, a *authority, name string) *papers {
	p := &papers{}
	p.set(a.issue(t, name, time.Now().Add(time.Hour)), a)
	return p
}

// writePapers puts papers into a file, for another process.
func writePapers(t testing.TB, a *authority, name string) string {
	t.Helper()
	pair := a.issue(t, name, time.Now().Add(time.Hour))
	cert, key := pkitest.Encode(t, pair)
	ca, _ := pkitest.Encode(t, a.Certificate)
	path := filepath.Join(t.TempDir(), "papers.pem")
	must(t, os.WriteFile(path, slices.Concat(cert, key, ca), 0o600))
	return path
}

func readPapers(path string) *papers {
	pair, err := tls.LoadX509KeyPair(path, path)
	if err != nil {
		panic(err)
	}
	ca, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil {
		panic(err)
	}
	pair.Certificate = pair.Certificate[:1]
	p := &papers{}
	p.set(&pair, &authority{&tls.Certificate{Leaf: ca}})
	return p
}

// startTLS starts a member of the cluster "main" that gossips over TLS.
func startTLS(t *testing.T, self Meta, p *papers, seeds ...*member) *member {
	t.Helper()
	return launch(t, "main", self, seeded(seeds...), func(m *Mesh) { m.UseTLS(p.tls()) })
}

// Where nobody listens any more, who asks there is told so: the lock on a volume needs it as a proof.
func TestRefusedConnectionIsTold(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	gone := l.Addr().(*net.TCPAddr).AddrPort()
	must(t, l.Close())
	for name, m := range map[string]*member{
		"plain": start(t, "main", node("a"), nil), "TLS": startTLS(t, node("a"), papersOf(t, newAuthority(t), bound("a"))),
	} {
		to := memberlist.Address{Addr: gone.String(), Name: node("b").process()}
		if _, err := m.streams.ask(t.Context(), to, []byte("who")); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: got %v, want ECONNREFUSED", name, err)
		}
	}
}

func TestNodesMeetOverTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := startTLS(t, node("a"), papersOf(t, ca, nodeName))
	b := startTLS(t, node("b"), papersOf(t, ca, nodeName), a)
	c := startTLS(t, node("c"), papersOf(t, ca, nodeName), a)
	o := observe(t, "main", "o", papersOf(t, ca, watcherName), nil, a)
	for i, m := range []hearer{a, b, c, o} {
		for _, name := range []string{"a", "b", "c"} {
			await(t, fmt.Sprint(i, " sees ", name), patience, sees(m, name))
		}
	}
	b.Publish([]byte("news"))
	for i, m := range []hearer{a, c, o} {
		await(t, fmt.Sprint(i, " hears b"), patience, says(m, "b", "news"))
	}
	await(t, "a knows the observer", patience, func() bool { return len(a.Observers()) == 1 })
	if got, err := a.Ask(t.Context(), "c", []byte("who")); err != nil || string(got) != "re: who" {
		t.Errorf("got %q, %v", got, err)
	}
	began := time.Now()
	b.stop()
	await(t, "a sees b leave", 2*time.Second, func() bool { return !sees(a, "b")() })
	t.Logf("a clean end was known after %v", time.Since(began))
}

// While a process is suspended, nodes connect to it and give up. What it then writes meets a connection that is gone:
// they are no strangers.
func TestWritingToWhoGaveUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	gone, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	conn, err := l.Accept()
	must(t, err)
	defer conn.Close()
	must(t, gone.Close())
	for err == nil {
		_, err = conn.Write([]byte("hello"))
	}
	if !hungUp(err) {
		t.Errorf("%v counts as something that is not of this mesh", err)
	}
}
