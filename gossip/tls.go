package gossip

import (
	"cmp"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Role is the kind of process that a certificate speaks for in the mesh.
type Role int

const (
	// RoleNode is that of a node: it speaks for itself and passes on what others say.
	RoleNode Role = iota + 1
	// RoleObserver is that of an observer: it is told what nodes say, and says nothing.
	RoleObserver
)

// Speaker is the process that a certificate speaks for.
type Speaker struct {
	Role Role
	// Node is the only node whose facts a certificate of RoleNode may tell; "" means any, for it names none.
	Node string
}

// speaksFor reports whether the facts of a node count when this speaker tells them as its own.
func (s Speaker) speaksFor(node string) bool {
	return s.Role == RoleNode && (s.Node == "" || s.Node == node)
}

// TLS is what the gossip needs for mutually authenticated TLS. All functions are called at each handshake, so that a
// renewed certificate and a changed authority count at once.
type TLS struct {
	// Certificate is what this process presents, as client and as server. An error says why there is none yet; the gossip
	// does not start before there is one.
	Certificate func() (*tls.Certificate, error)
	// Authorities are those that sign the certificates of the mesh.
	Authorities func() (*x509.CertPool, error)
	// Speaker says which process a certificate that one of the authorities has signed speaks for, or why it has no place
	// here.
	Speaker func(*x509.Certificate) (Speaker, error)
	// Sign signs a text with the key of a certificate, and Check says why such a signature is not one.
	Sign  func(key crypto.Signer, text []byte) ([]byte, error)
	Check func(by *x509.Certificate, text, signature []byte) error

	// foreign is the error for a certificate that is not one of ours; nil: errCertificate.
	foreign error
	label   string // of the cluster, in the name of each protocol
}

// What a connection is for. It is agreed in the handshake, behind the label of the cluster and the version.
const (
	forPackets  = "packets"
	forStream   = "stream"
	forObserver = "observer"
	forQuestion = "question"
)

var (
	errCertificate = errors.New("its certificate is not one of this mesh, or has expired")
	errCluster     = errors.New("it belongs to another cluster, or to another version of holdfast")
	errNoTLS       = errors.New("it does not gossip over TLS (an older build of holdfast, or another program)")
	errRefusesUs   = errors.New("it refuses the certificate of this node (which has expired or is of other authorities, " +
		"its tls.mode is another one, or a clock is wrong)")
	errNoneShown = errors.New("it has no certificate that it can show now: its own status says why")
	errOwn       = errors.New("this node cannot show its certificate")
	errSpeaks    = errors.New("with an observer's certificate it speaks as a node does: it is not listened to")
	errOther     = errors.New("its certificate is not that of the node that is known at its address")
	errSlow      = errors.New("it connected and completed no handshake in time")
)

// config is the TLS configuration of one side of a connection. Go's own verification needs a host name, which members
// do not keep; check does the rest of it.
func (t TLS) config(usage x509.ExtKeyUsage, purposes ...string) *tls.Config {
	var protocols []string
	for _, p := range purposes {
		protocols = append(protocols, t.protocol(p))
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true,
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.own() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.own() },
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol == "" {
				return errNoTLS
			}
			_, err := t.check(s.PeerCertificates, usage)
			return err
		},
	}
}

// own returns what this process shows. Its error is never the other side's fault.
func (t TLS) own() (*tls.Certificate, error) {
	pair, err := t.Certificate()
	if err != nil {
		err = fmt.Errorf("%w: %w", errOwn, err)
	}
	return pair, err
}

// check verifies another's certificate, followed by its chain to the authority, for a usage, and returns the process
// that it speaks for.
func (t TLS) check(chain []*x509.Certificate, usage x509.ExtKeyUsage) (from Speaker, err error) {
	roots, err := t.Authorities()
	if err != nil {
		return from, err
	}
	if len(chain) == 0 {
		return from, fmt.Errorf("%w: it has none", t.refusal())
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	if err == nil {
		from, err = t.Speaker(chain[0])
	}
	if err != nil {
		return from, fmt.Errorf("%w: %w", t.refusal(), err)
	}
	return from, nil
}

// refusal is the error for a certificate that is not one of ours.
func (t TLS) refusal() error { return cmp.Or(t.foreign, errCertificate) }

// protocol is what is agreed on for a purpose.
func (t TLS) protocol(purpose string) string {
	return fmt.Sprintf("%s %d %s", t.label, version, purpose)
}

// peerConn is a connection whose sides have shown each other their certificates.
type peerConn struct {
	*tls.Conn
	Speaker // the other side
	purpose string
	papers  TLS
	usage   x509.ExtKeyUsage
	checked time.Time
}

// verify verifies the certificate of the other side again, once in recheck.
func (c *peerConn) verify() error {
	if time.Since(c.checked) < recheck {
		return nil
	}
	c.checked = time.Now()
	_, err := c.papers.check(c.ConnectionState().PeerCertificates, c.usage)
	return err
}

// cut closes a connection without a word, which could have to wait.
func (c *peerConn) cut() { _ = c.NetConn().Close() }

// dial opens a connection to a node, to the end of its handshake, within limit.
func (t TLS) dial(ctx context.Context, by net.Dialer, address, purpose string, limit time.Duration) (*peerConn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	raw, err := by.DialContext(ctx, "tcp", address)
	var family *net.AddrError
	if errors.As(err, &family) || errors.Is(err, syscall.EADDRNOTAVAIL) {
		by.LocalAddr = nil // it is of the other IP family, or this machine has it no more
		raw, err = by.DialContext(ctx, "tcp", address)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		op.Source = nil // the text would say that we dial from port 0
	}
	if err != nil {
		return nil, err
	}
	usage := x509.ExtKeyUsageServerAuth
	conn, err := t.shake(ctx, tls.Client(raw, t.config(usage, purpose)), usage)
	if err == nil && conn.Role != RoleNode {
		conn.cut()
		return nil, errCertificate
	}
	return conn, err
}

// shake completes a handshake within handshakeTime. It closes the connection if that fails.
func (t TLS) shake(ctx context.Context, conn *tls.Conn, usage x509.ExtKeyUsage) (*peerConn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	c := &peerConn{Conn: conn, papers: t, usage: usage, checked: time.Now()}
	err := conn.HandshakeContext(ctx)
	if err == nil {
		state := conn.ConnectionState()
		c.purpose = strings.TrimPrefix(state.NegotiatedProtocol, t.protocol(""))
		c.Speaker, err = t.Speaker(state.PeerCertificates[0])
	}
	if err != nil {
		c.cut()
		return nil, t.whyNot(err)
	}
	return c, nil
}

// whyNot translates the error of a handshake, or of the first read after one: with TLS 1.3 the client learns only then
// that it was refused.
func (t TLS) whyNot(err error) error {
	var plain tls.RecordHeaderError
	var alert tls.AlertError
	var slow net.Error
	var op *net.OpError
	switch {
	case strings.Contains(err.Error(), "application protocol"):
		return fmt.Errorf("%w: %w", errCluster, err)
	case errors.As(err, &plain):
		return errNoTLS
	case strings.HasSuffix(err.Error(), "remote error: tls: internal error"):
		return fmt.Errorf("%w: %w", errNoneShown, err)
	case errors.As(err, &op) && op.Op == "remote error", errors.As(err, &alert):
		return fmt.Errorf("%w: %w", cmp.Or(t.foreign, errRefusesUs), err)
	case strings.Contains(err.Error(), "didn't provide a certificate"):
		return fmt.Errorf("%w: it has none", t.refusal())
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return errSlow
	}
	return err
}

// hungUp reports whether the other side only went away, as a node that stops or a port check does, or one that has
// waited long enough for an answer from this process, which was suspended.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// await returns true when there is a certificate, and false when ctx ends. A certificate whose authority is not known
// yet, for example, takes until a member serves.
func (t TLS) await(ctx context.Context, n *notices) bool {
	begin := time.Now()
	missing := func(err error, _ time.Duration) {
		notice := n.show // at each first start it takes a moment: no news for the log
		if time.Since(begin) >= certificateTime {
			notice = n.warn
		}
		notice(ProblemTLS, err.Error())
	}
	_, err := backoff.Retry(ctx, func() (*x509.CertPool, error) {
		if _, err := t.Certificate(); err != nil {
			return nil, err
		}
		return t.Authorities()
	}, backoff.WithBackOff(backoff.NewConstantBackOff(certificateTime/10)), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(missing))
	if err == nil {
		n.settle(ProblemTLS)
	}
	return err == nil
}

// certificateTime is how long it is normal to have no certificate.
const certificateTime = 2 * time.Second
