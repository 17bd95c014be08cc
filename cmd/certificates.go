package cmd

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/plan"
)

// newCertificates makes the keeper of the node's certificates, whatever tls.mode is. Nothing is read yet.
func (n *process) newCertificates(lg *zap.Logger, reg prometheus.Registerer) (*pki.Keeper, error) {
	source := authoritySource(n.cfg, n.store)
	if n.editions != nil { // which a command only reads
		source = n.editions
	}
	return pki.New(n.cfg.TLS, tlsIdentity(n.cfg), source, lg, reg)
}

// zone is what the members' host names end in, and peerName is borne by every member's certificate.
func zone(cfg config.Config) string     { return cfg.Cluster.Name + "." + cfg.Cluster.Domain }
func peerName(cfg config.Config) string { return "peer." + zone(cfg) }

// tlsIdentity is whom this node's certificates name. tls.names is the keeper's to add.
func tlsIdentity(cfg config.Config) pki.Identity {
	id := pki.Identity{Cluster: cfg.Cluster.Name, Zone: zone(cfg), PeerName: peerName(cfg)}
	add := func(name string) {
		ip, err := netip.ParseAddr(name)
		if name != "" && !slices.Contains(id.Names, name) && !(err == nil && ip.IsUnspecified()) {
			id.Names = append(id.Names, name)
		}
	}
	add(cfg.Node.Address)
	for _, text := range slices.Concat(cfg.Etcd.AdvertiseClientURLs, cfg.Etcd.ListenClientURLs, cfg.Etcd.ListenClientHTTPURLs) {
		if u, err := url.Parse(text); err == nil {
			add(u.Hostname())
		}
	}
	if host, _, err := net.SplitHostPort(cfg.Control.Listen); err == nil {
		add(host)
	}
	add(cfg.Node.Name)
	if cfg.TLS.Mode == pki.ModeFiles {
		id.Watched = watchedFiles(cfg)
	}
	return id
}

// watchedFiles are the operator's certificates, which the keeper only watches.
func watchedFiles(cfg config.Config) []pki.File {
	var all []pki.File
	for _, f := range []pki.File{
		{Name: "server", Path: cfg.Etcd.CertFile, Key: cfg.Etcd.KeyFile}, {Name: "clients-ca", Path: cfg.Etcd.TrustedCAFile},
		{Name: "peer", Path: cfg.Etcd.PeerCertFile, Key: cfg.Etcd.PeerKeyFile}, {Name: "peers-ca", Path: cfg.Etcd.PeerTrustedCAFile},
	} {
		if f.Path != "" {
			all = append(all, f)
		}
	}
	return all
}

// stances are what the members of the cluster trust and present, as far as it is known here: complete says that whoever
// holds a member's slot is live, and has said what it trusts if it runs etcd.
//
// A node that is lost counts as long as nobody else holds its slot: its etcd may run on, unheard of.
func stances(o plan.Observation) (own pki.Stance, others []pki.Stance, complete bool) {
	said := authorities.Stances(o)
	held := map[string]bool{}
	for i, s := range said {
		if i == 0 && o.Claim.Held || i > 0 && s.Known {
			held[s.Slot] = true
		}
	}
	complete = o.Member.Running && len(o.Member.Members) > 0
	for _, m := range o.Member.Members {
		complete = complete && held[m.Slot]
	}
	for _, p := range o.Peers {
		complete = complete && (p.Facts != nil || !p.Live)
	}
	for _, s := range said[1:] {
		if s.Running && (s.Known || !held[s.Slot]) {
			others = append(others, s.Stance)
			complete = complete && s.Known && s.Trusts != nil
		}
	}
	return said[0].Stance, others, complete
}

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
