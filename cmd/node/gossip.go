package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
	"holdfast/gossip"
)

// meshTLS is what a node shows and accepts in the gossip, nil where that does not go over TLS.
func meshTLS(cfg config.Config, k *pki.Keeper) *gossip.TLS {
	switch {
	case cfg.TLS.IssuesPeers():
		return &gossip.TLS{Certificate: k.MeshCertificate, Authorities: k.MeshAuthorities, Role: meshRole(cfg)}
	case cfg.GossipTLS():
		return &gossip.TLS{
			Certificate: func() (*tls.Certificate, error) {
				pair, err := tls.LoadX509KeyPair(cfg.Etcd.PeerCertFile, cfg.Etcd.PeerKeyFile)
				return &pair, err
			},
			Authorities: func() (*x509.CertPool, error) {
				text, err := os.ReadFile(cfg.Etcd.PeerTrustedCAFile)
				if err != nil {
					return nil, err
				}
				pool := x509.NewCertPool()
				if !pool.AppendCertsFromPEM(text) {
					return nil, fmt.Errorf("etcd.peer-trusted-ca-file %s: holds no certificate", cfg.Etcd.PeerTrustedCAFile)
				}
				return pool, nil
			},
			Role: meshRole(cfg),
		}
	}
	return nil
}

// meshRole tells a node's certificate from an observer's. With certificates of the operator's a node is who may be a
// member (embedded.peerTLS).
func meshRole(cfg config.Config) func(*x509.Certificate) (gossip.Role, error) {
	zone, names := cfg.Zone(), []string{pki.MeshName(cfg.Zone())}
	cns := cfg.Etcd.PeerCertAllowedCN
	if cfg.TLS.Mode != pki.ModeFiles || len(cns) == 0 && len(cfg.Etcd.PeerCertAllowedHostname) == 0 {
		names = slices.Concat(names, []string{peerName(cfg)}, foreignHosts(cfg))
	}
	names = slices.Concat(names, cfg.Etcd.PeerCertAllowedHostname)
	return func(c *x509.Certificate) (gossip.Role, error) {
		switch {
		case slices.Contains(c.DNSNames, pki.WatchName(zone)):
			return gossip.RoleObserver, nil
		case slices.Contains(cns, c.Subject.CommonName),
			slices.ContainsFunc(names, func(name string) bool { return c.VerifyHostname(name) == nil }):
			return gossip.RoleNode, nil
		}
		return 0, fmt.Errorf("it is for %q (%s), and not for a node of %s", c.DNSNames, c.Subject, zone)
	}
}

// Observe has an observer gossip as the cluster does, and returns what must run with it; nil if nothing must. It has a
// file for that, or issues its own certificate where this machine knows the authorities.
func Observe(ctx context.Context, cfg config.Config, mesh *gossip.Mesh, lg *zap.Logger,
	reg prometheus.Registerer) (run func(context.Context) error, err error) {
	if path := cfg.Gossip.ObserverFile; path != "" {
		if _, _, err := pki.ReadObserver(path); err != nil {
			return nil, fmt.Errorf("gossip.observer-file: %w", err)
		}
		mesh.UseTLS(gossip.TLS{Role: meshRole(cfg),
			Certificate: func() (*tls.Certificate, error) { pair, _, err := pki.ReadObserver(path); return pair, err },
			Authorities: func() (*x509.CertPool, error) { _, pool, err := pki.ReadObserver(path); return pool, err }})
		return nil, nil
	}
	if !cfg.TLS.IssuesPeers() {
		if t := meshTLS(cfg, nil); t != nil {
			mesh.UseTLS(*t)
		}
		return nil, nil
	}
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("snapshot.store: %w", err)
	}
	id := TLSIdentity(cfg)
	id.Observer = true
	k, err := pki.New(cfg.TLS, id, AuthoritySource(cfg, store), lg, reg)
	if err != nil {
		return nil, err
	}
	if err := k.Learn(ctx); err != nil {
		if cfg.Gossip.KeyFile != "" { // of a cluster with tls.mode off
			return nil, nil
		}
		return nil, fmt.Errorf("gossip.observer-file: must be set for an observer with tls.mode %s where the peers' "+
			"authority is not known (%w): `holdfast tls observer NAME --to FILE` on a node writes one", cfg.TLS.Mode, err)
	}
	mesh.UseTLS(*meshTLS(cfg, k))
	return k.Run, nil
}

// witness is what a node was the witness of when it published this.
func witness(state []byte) (w gossip.Witness) {
	var facts plan.Facts
	if json.Unmarshal(state, &facts) == nil {
		w.Slot, w.Disk = facts.Slot, facts.Disk
		if facts.Record != nil {
			w.Record = facts.Record.Token()
		}
	}
	return w
}

// forgetTime bounds an order to all nodes: an answer of a node takes at most 10 s.
const forgetTime = 2 * time.Minute

// forget has all nodes forget a lost one.
func (n routes) forget(r *http.Request) (any, error) {
	// The caller may go away: what was begun is brought to its end.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), forgetTime)
	defer cancel()
	return n.orders.Forget(ctx, r.FormValue("node"), control.Dry(r))
}
