package node

import (
	"crypto/x509"
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
	Authorities string `json:"authorities"`           // the clients', or of an observer or operator the peers', PEM
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

// holder says who asks, and with which certificate.
func (n routes) holder(r *http.Request) (h pki.Holder, has *x509.Certificate, err error) {
	has, mesh, err := control.Shown(r)
	if err != nil || !mesh {
		return pki.Client, has, err
	}
	h, err = pki.HolderOf(has, n.cfg.Zone())
	return h, has, err
}

// lookAtOwn answers what a holder's certificate needs.
func (n routes) lookAtOwn(r *http.Request) (any, error) {
	h, has, err := n.holder(r)
	if err != nil {
		return nil, err
	}
	next, err := n.certificates.Renewal(r.Context(), h, has, time.Now())
	return Fresh{Authorities: string(next.Bundle), Due: next.Due}, err
}

// renewOwn issues a holder the certificate that follows its present one. The history has those that are issued, of
// which there is a bounded number; what is refused is in the log.
func (n routes) renewOwn(r *http.Request) (any, error) {
	h, has, err := n.holder(r)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	next, err := n.issued.Renew(r.Context(), h, has, began, func(most time.Duration) (pki.Renewal, error) {
		return n.certificates.Renew(r.Context(), h, has, most, began)
	})
	name, by := has.Subject.CommonName, control.WhoAsks(r)
	lg := n.lg.With(zap.String("holder", string(h)), zap.String("name", name), zap.String("by", by))
	if err != nil {
		lg.Warn("certificate was not renewed", zap.Error(err))
		return nil, fmt.Errorf("renew the certificate of %s: %w", name, err)
	}
	until := next.Leaf.NotAfter.UTC().Format(time.RFC3339)
	lg.Info("certificate renewed", zap.String("until", until), zap.String("fingerprint", pki.Fingerprint(next.Leaf)))
	n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryCommand, By: by, Outcome: coordinator.Done,
		Why:     fmt.Sprintf("tls/%s %s, %s until %s", h, name, pki.Fingerprint(next.Leaf), until),
		Seconds: time.Since(began).Seconds()})
	return Fresh{Authorities: string(next.Bundle), Due: true, Certificate: string(next.Certificate)}, nil
}
