package node

import (
	"context"
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
	"holdfast/embedded/pki/authorities"
)

// Fresh is the answer to GET and POST /tls/client. It is for the certificate with which the caller authenticated.
type Fresh struct {
	Authorities string `json:"authorities"`           // PEM: the clients'; for an observer or an operator the peers'
	Due         bool   `json:"due"`                   // the certificate should be renewed
	Certificate string `json:"certificate,omitempty"` // PEM, of a POST: the next one, for the same name and key
}

// controlAt returns the address where other machines reach the control server, or "".
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

// holder returns the kind of the caller, and the certificate with which it authenticated.
func (n routes) holder(r *http.Request) (h pki.Holder, has *x509.Certificate, err error) {
	has, mesh, err := control.Shown(r)
	if err != nil || !mesh {
		return pki.Client, has, err
	}
	h, err = pki.HolderOf(has, n.cfg.Zone())
	return h, has, err
}

// lookAtOwn answers GET /tls/client: the current authorities, and whether the caller's certificate is due.
func (n routes) lookAtOwn(r *http.Request) (any, error) {
	h, has, err := n.holder(r)
	if err != nil {
		return nil, err
	}
	next, err := n.certificates.Renewal(r.Context(), h, has, time.Now())
	return Fresh{Authorities: string(next.Bundle), Due: next.Due}, err
}

// renewOwn answers POST /tls/client: it issues the next certificate to the caller. The history gets an entry only for
// an issued certificate, so that callers cannot flood it. Refusals are logged.
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

// Rotated is the answer to POST /tls/rotate.
type Rotated struct {
	Meaning string   `json:"meaning"`
	Refuses []string `json:"refuses,omitempty"` // of a dry run: who will be refused, by whom and when
}

// rotateAuthorities takes the step of a rotation that an operator asks for. Any node can do it: if two nodes do, the
// store decides.
func (n routes) rotateAuthorities(r *http.Request) (any, error) {
	if n.editions == nil {
		return nil, fmt.Errorf("tls.mode is %s here: only the authorities of tls.mode "+
			"%s are holdfast's to rotate", n.cfg.TLS.Mode, pki.ModeAuto)
	}
	order := authorities.Order{By: control.WhoAsks(r), Now: r.FormValue("now") == "true",
		DropOld: r.FormValue("drop-old") == "true"}
	order.Begin = !order.Now && !order.DropOld
	if order.Now && order.DropOld {
		return nil, errors.New("now and drop-old are two steps: ask for one")
	}
	var a Rotated
	var err error
	v := authorities.ViewOf(n.coord.Now().Observation, n.records.Clock())
	if a.Meaning, err = n.editions.Advance(r.Context(), v, order, control.Dry(r)); err == nil && control.Dry(r) {
		looking, cancel := context.WithTimeout(r.Context(), authorities.StorePatience)
		defer cancel()
		issued, _ := n.issued.Look(looking) // on an error, the known ones are shown
		a.Refuses = n.editions.Refuses(v, order, n.statusOfAll(r.Context()), issued, time.Now())
	}
	return a, err
}
