package node

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"holdfast/cmd/config"
	"holdfast/embedded/pki"
	"holdfast/gossip"
)

// Who has which place in the gossip, and for whom he speaks, follows from the names in a certificate.
func TestMeshSpeaker(t *testing.T) {
	cfg := config.Default()
	cfg.Cluster.Name, cfg.Cluster.Domain, cfg.TLS.Mode = "main", "internal", pki.ModeAuto
	files, named := cfg, cfg
	files.TLS.Mode, named.TLS.Mode = pki.ModeFiles, pki.ModeFiles
	named.Etcd.PeerCertAllowedCN = []string{"member"}
	issued := named
	issued.TLS.Mode = pki.ModeCA
	for name, c := range map[string]struct {
		cfg   config.Config
		cn    string
		names []string
		want  gossip.Speaker
	}{
		"a node":                  {cfg, "n1", []string{"node.gossip.main.internal"}, gossip.Speaker{Role: gossip.RoleNode, Node: "n1"}},
		"a node of no name":       {cfg, "", []string{"node.gossip.main.internal"}, gossip.Speaker{}},
		"a member":                {cfg, "a.main.internal", []string{"peer.main.internal", "a.main.internal"}, gossip.Speaker{}},
		"a name of files":         {issued, "member", []string{"x"}, gossip.Speaker{}},
		"an observer":             {cfg, "n1", []string{"observer.gossip.main.internal"}, gossip.Speaker{Role: gossip.RoleObserver}},
		"both is the lesser":      {cfg, "", []string{"node.gossip.main.internal", "observer.gossip.main.internal"}, gossip.Speaker{Role: gossip.RoleObserver}},
		"an operator":             {cfg, "n1", []string{"operator.orders.main.internal"}, gossip.Speaker{}},
		"an operator and a node":  {cfg, "n1", []string{"operator.orders.main.internal", "node.gossip.main.internal"}, gossip.Speaker{}},
		"files: an operator":      {named, "member", []string{"operator.orders.main.internal"}, gossip.Speaker{}},
		"another cluster's":       {cfg, "n1", []string{"node.gossip.events.internal", "peer.events.internal"}, gossip.Speaker{}},
		"a slot's name alone":     {cfg, "", []string{"a.main.internal"}, gossip.Speaker{}},
		"nobody":                  {cfg, "peer.main.internal", nil, gossip.Speaker{}},
		"files: a member":         {files, "a", []string{"peer.main.internal"}, gossip.Speaker{Role: gossip.RoleNode}},
		"files: one that names":   {files, "n1", []string{"peer.main.internal", "node.gossip.main.internal"}, gossip.Speaker{Role: gossip.RoleNode, Node: "n1"}},
		"files: a name of theirs": {named, "member", []string{"x"}, gossip.Speaker{Role: gossip.RoleNode}},
		"files: not that name":    {named, "other", []string{"peer.main.internal"}, gossip.Speaker{}},
		"files: an observer":      {named, "member", []string{"observer.gossip.main.internal"}, gossip.Speaker{Role: gossip.RoleObserver}},
	} {
		got, err := meshSpeaker(c.cfg, c.cfg.TLS.Issues())(&x509.Certificate{Subject: pkix.Name{CommonName: c.cn}, DNSNames: c.names})
		if got != c.want || (err == nil) != (c.want.Role != 0) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
}
