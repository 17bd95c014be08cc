package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/cmd/node"
	"holdfast/cmd/show"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

// Look reads every certificate that the configuration names, the state of an open rotation of the authorities, and the
// list of certificates issued to clients.
func Look(ctx context.Context, cfg config.Config, now time.Time) show.TLS {
	s := show.TLS{Mode: cfg.TLS.Mode, Certificates: readCertificates(cfg, now)}
	if s.Mode == pki.ModeAuto {
		lookAtRotation(ctx, &s, cfg, now)
	}
	if cfg.TLS.Issues() {
		lookAtIssued(ctx, &s, cfg)
	}
	return s
}

// lookAtRotation asks the node on this machine for the open rotation. If the node does not answer, the edition in the
// store or in the node's copy shows all except what the rotation waits for.
func lookAtRotation(ctx context.Context, s *show.TLS, cfg config.Config, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, authorities.StorePatience)
	defer cancel()
	client, err := control.Open(cfg.Control)
	if err == nil {
		var status health.ClusterStatus
		if err = client.Get(ctx, "GET /status", &status); err == nil {
			s.Rotation, s.Asked = status.Rotation, true
			return
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("what a rotation waits for is not known: %v", err))
	e, _, err := node.ShowEdition(ctx, cfg)
	if err != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("whether a rotation is open is not known: %v", err))
		return
	}
	if s.Rotation = e.Rotation(authorities.View{}, now); s.Rotation != nil {
		s.Rotation.Waits = "is not known here: no node answers"
	}
}

// lookAtIssued reads from the store which certificates were issued to clients.
func lookAtIssued(ctx context.Context, s *show.TLS, cfg config.Config) {
	ctx, cancel := context.WithTimeout(ctx, authorities.StorePatience)
	defer cancel()
	known, err := node.OpenIssued(ctx, cfg)
	if err == nil {
		s.Issued, err = known.Look(ctx)
	}
	if err != nil {
		s.Notes = append(s.Notes, fmt.Sprintf("not all certificates that were issued to clients are known: %v", err))
	}
}

// readCertificates reads the certificates in the order of [node.CertificateFiles].
func readCertificates(cfg config.Config, now time.Time) []show.Certificate {
	all := []show.Certificate{}
	for _, f := range node.CertificateFiles(cfg) {
		if f.Kind == health.Secret {
			continue
		}
		text, err := os.ReadFile(f.Path)
		var certs []*x509.Certificate
		if err == nil {
			certs, err = pki.CertificatesIn(text)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist) && cfg.TLS.Issues():
			all = append(all, show.Certificate{Key: f.Key, File: f.Path, Missing: true})
		case err != nil:
			all = append(all, show.Certificate{Key: f.Key, File: f.Path, Error: err.Error()})
		}
		for _, cert := range certs {
			names := append([]string(nil), cert.DNSNames...)
			for _, ip := range cert.IPAddresses {
				names = append(names, ip.String())
			}
			all = append(all, show.Certificate{
				Key: f.Key, File: f.Path, Subject: cert.Subject.String(), Names: names,
				Issuer: cert.Issuer.String(), Fingerprint: pki.Fingerprint(cert),
				NotBefore: cert.NotBefore, NotAfter: cert.NotAfter, Expired: now.After(cert.NotAfter),
			})
		}
	}
	return all
}
