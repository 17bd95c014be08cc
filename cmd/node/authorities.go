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

// AuthoritySource returns the source from which a command reads the authorities, or nil if holdfast issues nothing.
func AuthoritySource(cfg config.Config, store snapshot.Store) pki.Source {
	switch cfg.TLS.Mode {
	case pki.ModeCA:
		return pki.FileSource(cfg.TLS)
	case pki.ModeAuto:
		return shown{authorities.New(EditionOptions(cfg), store, zap.NewNop())}
	}
	return nil
}

// orderNames returns the names in the certificates that may sign orders: a member's and an operator's. issued means
// that holdfast issues the members' certificates. Otherwise a member is anyone that embedded.peerTLS accepts.
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

// OrderSigner returns what signs and checks, for a command, the orders in the store. It is nil if TLS is off. A missing
// key or authority is no error until something must be signed.
func OrderSigner(cfg config.Config, store snapshot.Store) generations.Signer {
	var o *pki.Orders
	switch source := AuthoritySource(cfg, store); {
	// This machine need not know the nodes' tls.mode, so any certificate that a member may have counts.
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

// beside checks orders for a command. Without authorities to check with, it proves nothing, and the command must rely
// on what it knows otherwise.
type beside struct{ *pki.Orders }

func (beside) Able() error { return nil }

// ShowEdition reads the authorities of tls.mode auto for a command: from the store or, if it does not answer, from the
// node's copy, which is the problem then.
func ShowEdition(ctx context.Context, cfg config.Config) (e *authorities.Edition, problem, err error) {
	store, err := OpenStore(ctx, cfg)
	if err == nil {
		e, problem, err = authorities.New(EditionOptions(cfg), store, zap.NewNop()).Show(ctx)
	}
	return e, problem, err
}

// OpenIssued returns the certificates that were issued by hand, as the store knows them.
func OpenIssued(ctx context.Context, cfg config.Config) (*authorities.Issued, error) {
	store, err := OpenStore(ctx, cfg)
	return &authorities.Issued{Store: store, Cluster: cfg.Cluster.Name}, err
}

// shown reads the editions for a command. It makes no edition, and writes no copy: the node might not be allowed to
// read a copy that a command has written.
type shown struct{ *authorities.Keeper }

func (s shown) Authorities(ctx context.Context) (pki.Authorities, error) {
	e, _, err := s.Show(ctx)
	if err != nil {
		return pki.Authorities{}, err
	}
	return e.Authorities(), nil
}

// EditionOptions returns the options for the authorities of tls.mode auto.
func EditionOptions(cfg config.Config) authorities.Options {
	return authorities.Options{Cluster: cfg.Cluster.Name, Life: cfg.TLS.CALife, Dir: cfg.TLS.Dir,
		Recipients: len(cfg.Snapshot.Recipients),
		Options:    func() (snapshot.Options, error) { return BackupOptions(cfg) }}
}
