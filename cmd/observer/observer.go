package observer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"holdfast/cmd/certificates"
	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded/pki"
	"holdfast/embedded/settings"
	"holdfast/gossip"
	"holdfast/gossip/discover"
	"holdfast/metrics"
	"holdfast/volume"
)

// Options are what an observer keeps up to date.
type Options struct {
	discover.Outputs
	DNS     string               // IP address and port to answer DNS on; "": none
	Clients []certificates.Files // clients' certificates to keep fresh
}

// Run wires an observer of this version and lives its life, until ctx ends or, with Once, all was written. load reads
// the configuration again.
func Run(ctx context.Context, version string, loaded *config.Loaded, load func() (*config.Loaded, error),
	o Options) error {
	lg, level, err := node.NewLogger(loaded.Config.Log)
	if err != nil {
		return err
	}
	defer lg.Sync() //nolint:errcheck // standard error cannot be synced on a terminal
	cfg := loaded.Config
	if err := o.seeded(cfg); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	mesh, keep, err := join(ctx, version, loaded, registry, lg)
	if err != nil {
		return err
	}
	names := discover.Names{Zone: cfg.Zone(), Hosts: settings.PeerHost(cfg.Etcd.PeerURL)}
	if o.DNS != "" {
		if o.Server, err = discover.Listen(ctx, o.DNS, lg.Named("dns")); err != nil {
			return err
		}
		lg.Info("answering DNS", zap.Stringer("address", o.Server.Address()), zap.String("zone", names.Zone))
	}
	w := discover.NewWatcher(cfg.Cluster.Name, names, o.Outputs, &members{Observer: mesh}, registry, lg)
	// A node that is named is asked first: a machine that hears of none may still reach one.
	kept := newClients(o.kept(cfg), func() []string {
		all := membersControl(w.State())
		if at := cfg.Control.Remote.Address; at != "" {
			all = append([]string{at}, all...)
		}
		return all
	}, registry, lg.Named("tls"))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return mesh.Run(ctx) })
	if keep != nil {
		group.Go(func() error { return keep(ctx) })
	}
	if o.Server != nil {
		group.Go(func() error { return o.Server.Run(ctx) })
	}
	if setHere(loaded, "metrics.listen") {
		told := answers{cfg.Cluster.Name, mesh, w, kept}
		server := metrics.NewServer(cfg.Metrics, registry, told.livez, told.readyz, told.status, lg.Named("http"))
		group.Go(func() error { return server.Run(ctx) })
	}
	group.Go(func() error {
		return config.Watch(ctx, loaded.File, lg, func() {
			_, _, _ = loaded.Reload(load, level, lg) // what is wrong is logged
			w.Look()
			kept.look()
		})
	})
	if len(kept.files) > 0 {
		group.Go(func() error { return kept.run(ctx) })
	}
	group.Go(func() error {
		defer cancel()
		return w.Run(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// seeded returns an error if nothing says which node to ask: an observer would wait in silence. control.remote is only
// asked for clients' certificates.
func (o Options) seeded(cfg config.Config) error {
	certificates := o.Hosts == "" && o.Endpoints == "" && o.DNS == "" && cfg.Control.Remote.Address != ""
	if g := cfg.Gossip; len(g.Seeds) > 0 || g.SeedsFile != "" || cfg.Volume.Provider == volume.ProviderEBS || certificates {
		return nil
	}
	return config.Invalid{errors.New("gossip.seeds: must name a node to ask, unless gossip.seeds-file does, got none")}
}

// kept are the certificates to keep fresh: clients', and where it stays what this machine has of the peers' authority.
func (o Options) kept(cfg config.Config) []certificates.Files {
	files := o.Clients
	if o.Once {
		return files
	}
	for _, p := range []certificates.Files{certificates.PaperOf(pki.Observer, cfg.Gossip.ObserverFile, cfg.Zone()),
		certificates.PaperOf(pki.Operator, cfg.TLS.OperatorFile, cfg.Zone())} {
		if p.Certificate != "" {
			files = append(files, p)
		}
	}
	return files
}

// setHere reports whether a key was set for this command. What stands in the file is meant for the node of the machine.
func setHere(l *config.Loaded, key string) bool {
	return strings.HasPrefix(l.Origin[key], "flag ") || strings.HasPrefix(l.Origin[key], "env ")
}

// join creates the observer and the keeper of its certificate. It starts nothing.
func join(ctx context.Context, version string, loaded *config.Loaded, reg prometheus.Registerer,
	lg *zap.Logger) (mesh *gossip.Observer, keep func(context.Context) error, err error) {
	cfg := loaded.Config
	address, err := netip.ParseAddr(cfg.Node.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("node.address: %w", err)
	}
	self := gossip.Meta{Node: cfg.Node.Name, Boot: uint64(time.Now().UnixNano()), Address: address, Version: version}
	mesh, err = gossip.NewObserver(cfg.Gossip, cfg.Cluster.Name, self, lg.Named("gossip"), reg)
	if err != nil {
		return nil, nil, err
	}
	if keep, err = node.Observe(ctx, cfg, mesh, lg.Named("tls"), reg); err != nil {
		return nil, nil, err
	}
	if cfg.Volume.Provider == volume.ProviderEBS {
		_, cloud, err := node.OpenProvider(ctx, cfg, reg, func(string) {}, lg.Named("volume"))
		if err != nil {
			return nil, nil, err
		}
		cloud.Observe()
		mesh.UseSeeds(cloud.Seeds)
	}
	return mesh, keep, nil
}
