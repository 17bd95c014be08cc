package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/durable"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki"
	"holdfast/embedded/plan"
	"holdfast/gossip"
)

// meshTLS is what a node shows and accepts in the gossip, nil where that does not go over TLS.
func meshTLS(cfg config.Config, k *pki.Keeper) *gossip.TLS {
	switch {
	case cfg.TLS.IssuesPeers():
		return new(meshPapers(cfg, true, k.MeshCertificate, k.MeshAuthorities))
	case cfg.GossipTLS():
		t := meshPapers(cfg, false,
			func() (*tls.Certificate, error) {
				pair, err := tls.LoadX509KeyPair(cfg.Etcd.PeerCertFile, cfg.Etcd.PeerKeyFile)
				return &pair, err
			},
			func() (*x509.CertPool, error) {
				pool, err := config.ReadPool(cfg.Etcd.PeerTrustedCAFile)
				if err != nil {
					return nil, fmt.Errorf("etcd.peer-trusted-ca-file: %w", err)
				}
				return pool, nil
			})
		return &t
	}
	return nil
}

// meshPapers are what a process shows in the gossip, and what it makes of those of others. issued says that all nodes
// show what holdfast issued.
func meshPapers(cfg config.Config, issued bool, own func() (*tls.Certificate, error),
	known func() (*x509.CertPool, error)) gossip.TLS {
	return gossip.TLS{Certificate: own, Authorities: known, Speaker: meshSpeaker(cfg, issued), Sign: pki.Sign,
		Check: pki.Check}
}

// meshSpeaker tells a node's certificate from an observer's, and whose it is. What holdfast issues names its node.
// With certificates of the operator's a node is who may be a member (embedded.peerTLS): they name slots or hosts, so
// that one speaks for any node, unless it bears the names of an issued one.
func meshSpeaker(cfg config.Config, issued bool) func(*x509.Certificate) (gossip.Speaker, error) {
	zone, names := cfg.Zone(), orderNames(cfg, issued)
	return func(c *x509.Certificate) (gossip.Speaker, error) {
		switch {
		case slices.Contains(c.DNSNames, pki.OrderName(zone)): // an operator's, whatever else it is
		case slices.Contains(c.DNSNames, pki.WatchName(zone)):
			return gossip.Speaker{Role: gossip.RoleObserver}, nil
		case slices.Contains(c.DNSNames, pki.MeshName(zone)) && c.Subject.CommonName != "":
			return gossip.Speaker{Role: gossip.RoleNode, Node: c.Subject.CommonName}, nil
		case !issued && names.Member(c):
			return gossip.Speaker{Role: gossip.RoleNode}, nil
		}
		return gossip.Speaker{}, fmt.Errorf("it is for %q (%s), and not for a node of %s", c.DNSNames, c.Subject, zone)
	}
}

// Observe has an observer gossip as the cluster does, and returns what must run with it; nil if nothing must. It has a
// file for that, or issues its own certificate where this machine knows the authorities.
func Observe(ctx context.Context, cfg config.Config, mesh *gossip.Observer, lg *zap.Logger,
	reg prometheus.Registerer) (run func(context.Context) error, err error) {
	if path := cfg.Gossip.ObserverFile; path != "" {
		if _, err := pki.ReadPaper(path); err != nil {
			return nil, fmt.Errorf("gossip.observer-file: %w", err)
		}
		// What the nodes show follows from their tls.mode, which this machine need not know.
		mesh.UseTLS(meshPapers(cfg, false,
			func() (*tls.Certificate, error) { p, err := pki.ReadPaper(path); return &p.Certificate, err },
			func() (*x509.CertPool, error) { p, err := pki.ReadPaper(path); return p.Pool(), err }))
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
		return nil, err
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
	done, err := n.mesh.Forget(ctx, r.FormValue("node"), control.Dry(r))
	done.Witness = witness(done.State)
	return done, err
}

// bootName is the file in node.data-dir with the number of the node's last process.
const bootName = "boot"

// nextBoot returns the number of this process among those of its node: the time at which it begins, and more than the
// last one's in any case. That may have begun while the clock was far ahead, and the others would listen to no process
// at its address until the clock is there. An error leaves it at the time.
func nextBoot(dir string, now time.Time) (boot uint64, err error) {
	path := filepath.Join(dir, bootName)
	boot = uint64(now.UnixNano())
	data, err := durable.Read(path, 64)
	if err == nil {
		// what is no number of ours, after a crash of the disk say, counts for nothing
		if last, err := strconv.ParseUint(string(data), 10, 63); err == nil && last < math.MaxInt64 {
			boot = max(boot, last+1)
		}
	}
	return boot, durable.WriteFile(path, strconv.AppendUint(nil, boot, 10))
}

// mesh is the gossip as the coordinator knows it.
type mesh struct{ *gossip.Mesh }

func (m mesh) Nodes(accepted bool) []coordinator.Node {
	m.Settle(accepted)
	nodes := m.Mesh.Nodes()
	out := make([]coordinator.Node, len(nodes))
	for i, n := range nodes {
		out[i] = coordinator.Node{Name: n.Node, Address: n.Address, Live: n.Live, State: n.State,
			Stamp: [2]uint64{n.Boot, n.Seq}}
	}
	return out
}
