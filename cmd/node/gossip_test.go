package node

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
	"holdfast/gossip"
)

// Who has which place in the gossip follows from the names in a certificate.
func TestMeshRole(t *testing.T) {
	cfg := config.Default()
	cfg.Cluster.Name, cfg.Cluster.Domain, cfg.TLS.Mode = "main", "internal", pki.ModeAuto
	files, named := cfg, cfg
	files.TLS.Mode, named.TLS.Mode = pki.ModeFiles, pki.ModeFiles
	named.Etcd.PeerCertAllowedCN = []string{"member"}
	for name, c := range map[string]struct {
		cfg   config.Config
		cn    string
		names []string
		want  gossip.Role
	}{
		"a node":                  {cfg, "n1", []string{"node.gossip.main.internal"}, gossip.RoleNode},
		"a member":                {cfg, "", []string{"peer.main.internal", "a.main.internal"}, gossip.RoleNode},
		"an observer":             {cfg, "n1", []string{"observer.gossip.main.internal"}, gossip.RoleObserver},
		"both is the lesser":      {cfg, "", []string{"node.gossip.main.internal", "observer.gossip.main.internal"}, gossip.RoleObserver},
		"another cluster's":       {cfg, "n1", []string{"node.gossip.events.internal", "peer.events.internal"}, 0},
		"a slot's name alone":     {cfg, "", []string{"a.main.internal"}, 0},
		"nobody":                  {cfg, "peer.main.internal", nil, 0},
		"files: a member":         {files, "", []string{"peer.main.internal"}, gossip.RoleNode},
		"files: a name of theirs": {named, "member", []string{"x"}, gossip.RoleNode},
		"files: not that name":    {named, "other", []string{"peer.main.internal"}, 0},
		"files: an observer":      {named, "member", []string{"observer.gossip.main.internal"}, gossip.RoleObserver},
	} {
		got, err := meshRole(c.cfg)(&x509.Certificate{Subject: pkix.Name{CommonName: c.cn}, DNSNames: c.names})
		if got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}
