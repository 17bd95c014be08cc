package show

import (
	"strings"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
)

// A certificate of an authority that was dropped is not shown as good until it ends.
func TestCertificateOfADroppedAuthority(t *testing.T) {
	now := time.Now()
	ends := now.Add(90 * 24 * time.Hour)
	of := func(role pki.Holder, authority string) authorities.Client {
		return authorities.Client{IssuedClient: health.IssuedClient{Role: string(role), Name: "kube", Authority: authority,
			NotBefore: now, NotAfter: ends}}
	}
	trusted := []Certificate{{Key: "etcd.trusted-ca-file", Fingerprint: "new", NotAfter: ends}}
	for name, c := range map[string]struct {
		mode    string
		trusted []Certificate
		issued  authorities.Client
		refused bool
	}{
		"of the new one":   {pki.ModeAuto, trusted, of(pki.Client, "new"), false},
		"of the old one":   {pki.ModeAuto, trusted, of(pki.Client, "old"), true},
		"an operator's":    {pki.ModeAuto, trusted, of(pki.Operator, "x"), false},
		"nothing is known": {pki.ModeAuto, nil, of(pki.Client, "old"), false},
		"mode ca":          {pki.ModeCA, trusted, of(pki.Client, "old"), false},
	} {
		s := TLS{Mode: c.mode, Certificates: c.trusted, Issued: []authorities.Client{c.issued}}
		if got := s.Text(now); strings.Contains(got, "REFUSED") != c.refused {
			t.Errorf("%s: got\n%s", name, got)
		}
	}
}
