package node

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
)

// Fresh is the answer to GET and POST /tls/client: what the certificate needs that was shown.
type Fresh struct {
	Authorities string `json:"authorities"`           // the clients' authorities, PEM
	Due         bool   `json:"due"`                   // it is time for another certificate
	Certificate string `json:"certificate,omitempty"` // of a POST: for the same name and key, PEM
}

// controlAt is where other machines reach the control surface, "" if nowhere.
func controlAt(cfg config.Config) string {
	at, err := netip.ParseAddrPort(cfg.Control.Listen)
	if err != nil { // it is not set
		return ""
	}
	if at.Addr().IsUnspecified() {
		return net.JoinHostPort(cfg.Node.Address, strconv.Itoa(int(at.Port())))
	}
	return at.String()
}

// shownCertificate is the certificate of the caller. Nothing else in a request says whom it is about.
func shownCertificate(r *http.Request) (*x509.Certificate, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, errors.New("no certificate was shown: a machine without a node asks for its own, over control.listen")
	}
	return r.TLS.PeerCertificates[0], nil
}

// lookAtOwn answers what a client's certificate needs.
func (n routes) lookAtOwn(r *http.Request) (any, error) {
	has, err := shownCertificate(r)
	if err != nil {
		return nil, err
	}
	next, err := n.certificates.Renewal(r.Context(), has, time.Now())
	return Fresh{Authorities: string(next.Bundle), Due: next.Due}, err
}

// renewOwn issues a client the certificate that follows its present one. The history has those that are issued, of which
// there is a bounded number; what is refused is in the log.
func (n routes) renewOwn(r *http.Request) (any, error) {
	has, err := shownCertificate(r)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	next, err := n.issued.Renew(r.Context(), has, began, func(most time.Duration) (pki.Renewal, error) {
		return n.certificates.Renew(r.Context(), has, most, began)
	})
	name, by := has.Subject.CommonName, control.WhoAsks(r)
	if err != nil {
		n.lg.Warn("client certificate refused", zap.String("name", name), zap.String("by", by), zap.Error(err))
		return nil, fmt.Errorf("renew the certificate of %s: %w", name, err)
	}
	until := next.Leaf.NotAfter.UTC().Format(time.RFC3339)
	n.lg.Info("client certificate renewed", zap.String("name", name), zap.String("by", by), zap.String("until", until),
		zap.String("fingerprint", pki.Fingerprint(next.Leaf)))
	n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryCommand, By: by, Outcome: coordinator.Done,
		Why:     fmt.Sprintf("tls/client %s, %s until %s", name, pki.Fingerprint(next.Leaf), until),
		Seconds: time.Since(began).Seconds()})
	return Fresh{Authorities: string(next.Bundle), Due: true, Certificate: string(next.Certificate)}, nil
}
