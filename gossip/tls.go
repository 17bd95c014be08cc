package gossip

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// Role says for whom a certificate speaks in the mesh.
type Role int

const (
	// RoleNode is that of a node: it speaks for itself and passes on what others say.
	RoleNode Role = iota + 1
	// RoleObserver is that of an observer: it listens, and is believed about nobody but itself.
	RoleObserver
)

// TLS is what the gossip needs to go over mutually authenticated TLS. All functions are asked at each handshake, so that
// a renewed certificate and a changed authority count at once.
type TLS struct {
	// Certificate is what this process presents, to whom it dials and to who dials it. An error says why there is none
	// yet; the gossip does not start before there is one.
	Certificate func() (*tls.Certificate, error)
	// Authorities are those that sign the certificates of the mesh.
	Authorities func() (*x509.CertPool, error)
	// Role says for whom a certificate speaks that one of the authorities has signed, or why it has no place here.
	Role func(*x509.Certificate) (Role, error)
}

// The protocols of a connection, agreed in the handshake.
const (
	forPackets = "holdfast-gossip-packets/1"
	forStream  = "holdfast-gossip-stream/1"
)

var (
	errCertificate = errors.New("its certificate is not one of this mesh")
	errNoTLS       = errors.New("it does not speak TLS as this node does (tls.mode off, a holdfast of before, or no holdfast)")
	errRefusesUs   = errors.New("it refuses the certificate of this node (other authorities, or another clock)")
	errSlow        = errors.New("it connected and completed no handshake in time")
)

// config is that of one side of a connection. Go's own verification asks for a host name, of which members have none
// that they keep; check does the rest of it.
func (t TLS) config(usage x509.ExtKeyUsage, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true,
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.Certificate() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.Certificate() },
		VerifyConnection: func(s tls.ConnectionState) error {
			if s.NegotiatedProtocol == "" {
				return errNoTLS
			}
			return t.check(s, usage)
		},
	}
}

// check verifies the other side's certificate, for a usage.
func (t TLS) check(s tls.ConnectionState, usage x509.ExtKeyUsage) error {
	roots, err := t.Authorities()
	if err != nil {
		return err
	}
	if len(s.PeerCertificates) == 0 {
		return fmt.Errorf("%w: it has none", errCertificate)
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	leaf := s.PeerCertificates[0]
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err == nil {
		_, err = t.Role(leaf)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errCertificate, err)
	}
	return nil
}

// shake completes a handshake within limit, and returns for whom the other side speaks.
func (t TLS) shake(ctx context.Context, conn *tls.Conn, limit time.Duration) (Role, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		return 0, whyNot(err)
	}
	return t.Role(conn.ConnectionState().PeerCertificates[0])
}

// whyNot translates the error of a handshake, or of what follows one: with TLS 1.3 who dials hears only then that it
// was refused.
func whyNot(err error) error {
	var plain tls.RecordHeaderError
	var alert tls.AlertError
	var slow net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &plain), strings.Contains(err.Error(), "unsupported application protocol"):
		return errNoTLS
	case errors.As(err, &op) && op.Op == "remote error", errors.As(err, &alert):
		return fmt.Errorf("%w: %w", errRefusesUs, err)
	case strings.Contains(err.Error(), "didn't provide a certificate"):
		return fmt.Errorf("%w: it has none", errCertificate)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return errSlow
	}
	return err
}

// hungUp reports whether the other side only went away, as a node that stops, or a port check, does.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET)
}

// UseTLS has every byte of the gossip go over TLS. Call it before Run.
func (m *Mesh) UseTLS(t TLS) { m.tls = &t }

// awaitCertificate returns true when there is a certificate, and false when ctx ends. One of an authority which is not
// known yet, say, is waited for while a member serves.
func (m *Mesh) awaitCertificate(ctx context.Context) bool {
	begin := time.Now()
	for {
		_, err := m.tls.Certificate()
		if err == nil {
			_, err = m.tls.Authorities()
		}
		if err == nil {
			m.notices.settle(ProblemTLS)
			return true
		}
		notice := m.notices.show // at each first start it takes a moment: no news for the log
		if time.Since(begin) >= certificateTime {
			notice = m.notices.warn
		}
		notice(ProblemTLS, err.Error())
		select {
		case <-ctx.Done():
			return false
		case <-time.After(certificateTime / 10):
		}
	}
}

// certificateTime is how long the lack of a certificate is nothing unusual.
const certificateTime = 2 * time.Second
