package node

import (
	"context"

	"go.uber.org/zap"

	"holdfast/cmd/config"
	"holdfast/embedded/generations"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/snapshot"
)

// AuthoritySource is where a command finds the authorities; nil where none are needed.
func AuthoritySource(cfg config.Config, store snapshot.Store) pki.Source {
	switch cfg.TLS.Mode {
	case pki.ModeCA:
		return pki.FileSource(cfg.TLS)
	case pki.ModeAuto:
		return shown{authorities.New(EditionOptions(cfg), store, zap.NewNop())}
	}
	return nil
}

// orderNames say whose certificates sign orders: a member's, and an operator's. Where not all are issued by holdfast, a
// member is who embedded.peerTLS lets in.
func orderNames(cfg config.Config, issued bool) pki.Names {
	n := pki.Names{Zone: cfg.Zone(), Members: []string{peerName(cfg)}}
	if issued {
		return n
	}
	if cns, names := cfg.Etcd.PeerCertAllowedCN, cfg.Etcd.PeerCertAllowedHostname; len(cns)+len(names) > 0 {
		n.CommonNames, n.Members = cns, names
	} else {
		n.Members = append(n.Members, foreignHosts(cfg)...)
	}
	return n
}

// OrderSigner signs and checks, for a command, what the store holds as orders to the cluster; nil where TLS is off.
// Without a key to sign with, or anything to check with, only what needs it fails.
func OrderSigner(cfg config.Config, store snapshot.Store) generations.Signer {
	var o *pki.Orders
	switch source := AuthoritySource(cfg, store); {
	// what the nodes sign with follows from their tls.mode, which this machine need not know
	case cfg.TLS.OperatorFile != "":
		o = pki.OperatorOrders(cfg.TLS.OperatorFile, orderNames(cfg, false))
	case source != nil:
		o = pki.SourceOrders(source, orderNames(cfg, true), cfg.TLS.Files().Peer)
	case cfg.TLS.Mode == pki.ModeFiles:
		o = pki.FileOrders(cfg.Etcd.PeerCertFile, cfg.Etcd.PeerKeyFile, cfg.Etcd.PeerTrustedCAFile, orderNames(cfg, false))
	}
	if o == nil {
		return nil
	}
	return beside{o}
}

// beside checks for a command: what it has nothing to check with is not proven, and it goes by what it knows itself.
type beside struct{ *pki.Orders }

// Able implements [generations.Signer].
func (beside) Able() error { return nil }

// shown are editions for a command: it makes none, and keeps no copy, which the node might not be allowed to read.
type shown struct{ *authorities.Keeper }

// Authorities implements [pki.Source].
func (s shown) Authorities(ctx context.Context) (pki.Authorities, error) {
	e, _, err := s.Show(ctx)
	if err != nil {
		return pki.Authorities{}, err
	}
	return e.Authorities(), nil
}

// EditionOptions say how the authorities of tls.mode auto are kept.
func EditionOptions(cfg config.Config) authorities.Options {
	return authorities.Options{Cluster: cfg.Cluster.Name, Life: cfg.TLS.CALife, Dir: cfg.TLS.Dir,
		Recipients: len(cfg.Snapshot.Recipients),
		Options:    func() (snapshot.Options, error) { return BackupOptions(cfg) }}
}
