package cmd

import (
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki/authorities"
)

// tlsStatus is how clients and members reach this node.
func (n *process) tlsStatus() *health.TLSStatus {
	s := &health.TLSStatus{Mode: n.cfg.TLS.Mode, Insecure: n.cfg.Insecure()}
	for i, e := range n.certificates.Expiries() {
		if i == 0 {
			s.Expires = &e.NotAfter
		}
		s.Certificates = append(s.Certificates, health.CertificateStatus{Name: e.Name, NotAfter: e.NotAfter, File: e.File})
	}
	if n.editions != nil {
		if e := n.editions.Current(); e != nil {
			s.Edition = e.Serial
		}
		s.Rotation = n.editions.Rotation(authorities.ViewOf(n.coord.Now().Observation), time.Now())
	}
	s.Issued = n.issued.Last()
	return s
}
