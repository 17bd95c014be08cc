package takeover

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.uber.org/zap"

	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
	"holdfast/gossip"
)

// plainOrder is the order for a process that runs etcd without holdfast.
type plainOrder struct {
	embedded.Plain
	Pattern string                  `json:"pattern"`
	Names   map[string][]netip.Addr `json:"names"` // by slot
}

// plainEtcd runs etcd. Only this process resolves the host names of its peers.
func plainEtcd(ctx context.Context, o plainOrder, _ *zap.Logger) (any, error) {
	r := gossip.NewResolver("plain."+rehearsalDomain, settings.PeerHost(o.Pattern), zap.NewNop())
	r.Set(o.Names)
	net.DefaultResolver = r.Resolver()
	lg, err := zap.NewProduction()
	if err != nil {
		return nil, err
	}
	return struct{}{}, embedded.RunPlain(ctx, o.Plain, lg)
}

func (s *script) secure() bool          { return strings.HasPrefix(s.Pattern, "https:") }
func (s *script) path(p string) string  { return filepath.Join(s.Dir, p) }
func (s *script) volume(a actor) string { return s.path(a.Slot + "/volume") }
func (s *script) config(a actor) string { return s.path(a.Slot + "/node.yaml") }
func (s *script) socket(a actor) string { return s.path(a.Slot + "/socket") }
func (a actor) client() string          { return "http://" + a.Address + ":2379" }

// data returns the data directory in the layout of the other program.
func (s *script) data(a actor) string {
	if s.Program == plan.PlainEtcd {
		return s.volume(a)
	}
	return filepath.Join(s.volume(a), "data", s.Token)
}

// makeVolumes makes the volumes and the nodes' configurations.
func (s *script) makeVolumes(ctx context.Context) error {
	if err := s.certify(); err != nil {
		return err
	}
	if err := os.Mkdir(s.path("store"), 0o700); err != nil {
		return err
	}
	for _, a := range s.Cast {
		if err := os.MkdirAll(s.data(a), 0o700); err != nil {
			return err
		}
		var err error
		if a.Copy != "" {
			err = s.copyData(a)
		} else {
			err = s.rebuild(ctx, a)
		}
		if err == nil {
			err = s.configure(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyData copies the other program's data from a volume, and nothing else on it.
func (s *script) copyData(a actor) error {
	from, obstacle, err := embedded.ForeignData(a.Copy)
	if err == nil && obstacle != "" {
		err = errors.New(obstacle)
	}
	if err == nil {
		err = os.CopyFS(filepath.Join(s.data(a), "member"), os.DirFS(filepath.Join(from, "member")))
	}
	if err != nil || s.Program == plan.PlainEtcd {
		return err
	}
	state, err := embedded.ReadManagerState(a.Copy)
	if err != nil {
		return err
	}
	return state.Write(s.volume(a))
}

// rebuild makes a founder's data directory from the backup, in etcd-manager's layout.
func (s *script) rebuild(ctx context.Context, a actor) error {
	to := filepath.Dir(embedded.DatabasePath(s.data(a)))
	if err := os.CopyFS(to, os.DirFS(filepath.Dir(s.Database))); err != nil {
		return err
	}
	spec := plan.Spec{Slot: a.Name, Token: s.Token, Peers: map[string]string{}}
	state := embedded.ManagerState{Version: etcdversion.Version, Token: s.Token, Size: uint64(len(s.Cast))}
	for _, b := range s.Cast {
		spec.Peers[b.Name] = b.Peer
		state.Nodes = append(state.Nodes, embedded.ManagerNode{Name: b.Name, PeerURLs: []string{b.Peer},
			ClientURLs: []string{b.client()}})
	}
	if err := (embedded.Disk{}).Rebuild(ctx, s.data(a), spec, 0); err != nil {
		return err
	}
	return state.Write(s.volume(a))
}

// configure writes the configuration of the node that takes a member over.
func (s *script) configure(a actor) error {
	var slots, seeds, elders []string
	for _, b := range s.Cast {
		slots, seeds, elders = append(slots, b.Slot), append(seeds, b.Address), append(elders, b.Slot+"="+b.Address)
	}
	etcd := map[string]any{"peer-url": s.Pattern, "listen-client-urls": []string{a.client()},
		"listen-peer-urls": []string{s.listenPeer(a)}, "quota-backend-bytes": s.Quota}
	keys := map[string]any{
		"cluster": map[string]any{"name": "rehearsal", "slots": slots, "adopt": true, "adopt-addresses": elders,
			"member-name": s.Named},
		"node":   map[string]any{"name": "rehearsal-" + a.Slot, "address": a.Address, "data-dir": s.path(a.Slot + "/node")},
		"gossip": map[string]any{"seeds": seeds}, "control": map[string]any{"socket": s.socket(a)},
		"volume":  map[string]any{"local": map[string]any{"directory": s.volume(a), "slot": a.Slot, "mount": "ignore"}},
		"metrics": map[string]any{"listen": "off"}, "etcd": etcd,
		"snapshot": map[string]any{"store": s.path("store"), "every": "0s", "drill": "0s"},
		"stop":     map[string]any{"hold": s.Hold},
	}
	if s.secure() {
		etcd["peer-cert-file"], etcd["peer-key-file"] = s.certificate(), s.key()
		etcd["peer-trusted-ca-file"] = s.certificate()
		etcd["peer-cert-allowed-hostname"] = s.hosts()
	}
	text, err := json.MarshalIndent(keys, "", "  ") // JSON is YAML
	if err != nil {
		return err
	}
	return os.WriteFile(s.config(a), text, 0o600)
}

func (s *script) listenPeer(a actor) string {
	scheme, _, _ := strings.Cut(s.Pattern, "://")
	_, port, _ := hostOf(a.Peer)
	return scheme + "://" + net.JoinHostPort(a.Address, port)
}

func (s *script) hosts() (all []string) {
	for _, a := range s.Cast {
		host, _, _ := hostOf(a.Peer)
		all = append(all, host)
	}
	return all
}

// certify makes one self-signed certificate for all peers.
func (s *script) certify() error {
	if !s.secure() {
		return nil
	}
	hosts := []string{"127.0.0.1"} // etcd checks that the certificate has the address from which a peer connects
	for _, a := range s.Cast {
		hosts = append(hosts, a.Address)
	}
	hosts = append(hosts, s.hosts()...)
	for i, host := range hosts {
		hosts[i] = net.JoinHostPort(host, "0")
	}
	_, err := transport.SelfCert(zap.NewNop(), s.Dir, hosts, 1, x509.ExtKeyUsageClientAuth)
	return err
}

// certificate and key are the files that certify makes.
func (s *script) certificate() string { return s.path("cert.pem") }
func (s *script) key() string         { return s.path("key.pem") }

// plain returns the order that runs etcd without holdfast for a member.
func (s *script) plain(a actor) plainOrder {
	o := plainOrder{Plain: embedded.Plain{Name: a.Name, Dir: s.data(a), Client: a.client(), ListenPeer: s.listenPeer(a),
		Peer: a.Peer, Quota: s.Quota}, Pattern: s.Pattern, Names: map[string][]netip.Addr{}}
	for _, b := range s.Cast {
		o.Names[b.Slot] = []netip.Addr{netip.MustParseAddr(b.Address)}
	}
	if s.secure() {
		o.Certificate, o.Key, o.CA = s.certificate(), s.key(), s.certificate()
	}
	return o
}

// checkHosts returns an error if /etc/hosts has another address for a member's name. The rehearsal's processes would
// use that address, because /etc/hosts comes before their own resolver.
func (s *script) checkHosts(ctx context.Context) error {
	for i, host := range s.hosts() {
		found, err := net.DefaultResolver.LookupHost(ctx, host) // there is no DNS here
		if err == nil && strings.Join(found, ",") != s.Cast[i].Address {
			return fmt.Errorf("/etc/hosts of this machine says that %s is at %s: rehearse on a machine that does not know "+
				"the members", host, strings.Join(found, ", "))
		}
	}
	return nil
}
