package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"holdfast/cmd/config"
	"holdfast/cmd/observer"
	"holdfast/gossip"
	"holdfast/gossip/discover"
	"holdfast/metrics"
	"holdfast/volume"
)

// observerPort is where an observer gossips: a node of the same machine has the port before it.
const observerPort = gossip.DefaultPort + 1

// discoverOptions are the flags of `holdfast discover`.
type discoverOptions struct {
	hosts, endpoints, format, dns string
	once                          bool
	wait                          time.Duration
}

func (o discoverOptions) validate() error {
	var errs []error
	if o.hosts == "" && o.endpoints == "" && o.dns == "" {
		errs = append(errs, errors.New("nothing to keep up to date: give --hosts, --endpoints or --dns"))
	}
	if o.format != discover.Lines && o.format != discover.JSON {
		errs = append(errs, fmt.Errorf("--format: must be %s or %s, got %q", discover.Lines, discover.JSON, o.format))
	}
	if _, err := netip.ParseAddrPort(o.dns); o.dns != "" && err != nil {
		errs = append(errs, fmt.Errorf("--dns: must be an IP address and port, got %q", o.dns))
	}
	if o.once && o.dns != "" {
		errs = append(errs, errors.New("--once ends when the files are written: it cannot serve --dns"))
	}
	if o.wait <= 0 {
		errs = append(errs, fmt.Errorf("--wait: must be above 0s, got %s", o.wait))
	}
	return errors.Join(errs...)
}

// checkDiscover says what is wrong with the flags of `holdfast discover`.
func checkDiscover(o observer.Options) error {
	var errs []error
	if o.Hosts == "" && o.Endpoints == "" && o.DNS == "" {
		errs = append(errs, errors.New("nothing to keep up to date: give --hosts, --endpoints or --dns"))
	}
	if o.Format != discover.Lines && o.Format != discover.JSON {
		errs = append(errs, fmt.Errorf("--format: must be %s or %s, got %q", discover.Lines, discover.JSON, o.Format))
	}
	if _, err := netip.ParseAddrPort(o.DNS); o.DNS != "" && err != nil {
		errs = append(errs, fmt.Errorf("--dns: must be an IP address and port, got %q", o.DNS))
	}
	if o.Once && o.DNS != "" {
		errs = append(errs, errors.New("--once ends when the files are written: it cannot serve --dns"))
	}
	if o.Wait <= 0 {
		errs = append(errs, fmt.Errorf("--wait: must be above 0s, got %s", o.Wait))
	}
	return errors.Join(errs...)
}

func newDiscoverCommand() *cobra.Command {
	var o observer.Options
	c := &cobra.Command{
		Use:   "discover",
		Short: "Keep this machine told where the members are: /etc/hosts, a file of endpoints, DNS",
		Long: "Keep this machine told where the members are, as they move: a block in /etc/hosts, a file of endpoints, a small\n" +
			"DNS server, or several of these. It joins the gossip as an observer, which counts for nothing there: no slot, no\n" +
			"volume, no etcd. The last known addresses stay when the cluster is not heard of.\n\n" +
			"Of the configuration it uses cluster.name, cluster.domain, node.…, gossip.…, volume.… (to find seeds) and log.…. It\n" +
			"gossips on port 7947, or a free one if that is taken, unless --gossip.listen says otherwise; /metrics and /readyz\n" +
			"are there with --metrics.listen. SIGHUP reads the configuration again and looks at the files.\n\n" +
			"Exit code: 0 after SIGTERM, and with --once when all was written; 1 when something went wrong, or nothing was\n" +
			"heard within --wait.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkDiscover(o); err != nil {
				return err
			}
			load := func() (*config.Loaded, error) { return config.Load("", c.Flags(), os.Environ()) }
			loaded, err := load()
			if err != nil {
				return err
			}
			return observer.Run(c.Context(), Version(), loaded, load, o)
		},
	}
	config.AddFlags(c.Flags())
	c.Flags().StringVar(&o.Hosts, "hosts", "", "keep a block in this `file`, as /etc/hosts")
	c.Flags().StringVar(&o.Endpoints, "endpoints", "", "keep the endpoints in this `file`")
	c.Flags().StringVar(&o.Format, "format", discover.Lines, "of the endpoints: `lines` of client URLs, or json")
	c.Flags().StringVar(&o.DNS, "dns", "", "answer DNS, UDP and TCP, on this `address:port`")
	c.Flags().BoolVar(&o.Once, "once", false, "write when every member was heard of, and end")
	c.Flags().DurationVar(&o.Wait, "wait", 30*time.Second, "with --once, how long to wait for that")
	return c
}

// runDiscover wires an observer and lives its life.
func runDiscover(ctx context.Context, loaded *config.Loaded, load func() (*config.Loaded, error), o discoverOptions) error {
	lg, level, err := newLogger(loaded.Config.Log)
	if err != nil {
		return err
	}
	defer lg.Sync() //nolint:errcheck // standard error cannot be synced on a terminal
	cfg := loaded.Config
	registry := prometheus.NewRegistry()
	mesh, err := newObserver(ctx, loaded, registry, lg)
	if err != nil {
		return err
	}
	w := newWatcher(cfg, o, mesh, registry, lg)
	if o.dns != "" {
		if w.server, err = discover.Listen(ctx, o.dns, lg.Named("dns")); err != nil {
			return err
		}
		lg.Info("answering DNS", zap.Stringer("address", w.server.Address()), zap.String("zone", w.zone))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return mesh.Run(ctx) })
	if w.server != nil {
		group.Go(func() error { return w.server.Run(ctx) })
	}
	if setHere(loaded, "metrics.listen") {
		server := metrics.NewServer(cfg.Metrics, registry, w.livez, w.readyz, w.status, lg.Named("http"))
		group.Go(func() error { return server.Run(ctx) })
	}
	group.Go(func() error {
		return config.Watch(ctx, loaded.File, lg, func() {
			_, _, _ = loaded.Reload(load, level, lg) // what is wrong is logged
			w.look()
		})
	})
	group.Go(func() error {
		defer cancel()
		return w.run(ctx)
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// setHere reports whether a key was set for this command. What stands in the file is meant for the node of the machine.
func setHere(l *config.Loaded, key string) bool {
	return strings.HasPrefix(l.Origin[key], "flag ") || strings.HasPrefix(l.Origin[key], "env ")
}

// newObserver makes this process's part in the gossip.
func newObserver(ctx context.Context, loaded *config.Loaded, reg prometheus.Registerer, lg *zap.Logger) (*gossip.Mesh, error) {
	cfg := loaded.Config
	address, err := netip.ParseAddr(cfg.Node.Address)
	if err != nil {
		return nil, fmt.Errorf("node.address: %w", err)
	}
	nodes, err := netip.ParseAddrPort(cfg.Gossip.Listen)
	if err != nil {
		return nil, fmt.Errorf("gossip.listen: %w", err)
	}
	seedPort := nodes.Port()
	if setHere(loaded, "gossip.listen") {
		seedPort = gossip.DefaultPort
	} else {
		at := netip.AddrPortFrom(nodes.Addr(), observerPort)
		if err := free(ctx, at); errors.Is(err, syscall.EADDRINUSE) {
			lg.Warn("gossiping on a free port, for the usual one is taken: nodes must reach it", zap.Stringer("taken", at))
			at = netip.AddrPortFrom(at.Addr(), 0)
		}
		cfg.Gossip.Listen = at.String()
	}
	self := gossip.Meta{Node: cfg.Node.Name, Boot: uint64(time.Now().UnixNano()), Address: address, Version: Version(), Observer: true}
	mute := func(context.Context, []byte) ([]byte, error) {
		return nil, errors.New("an observer answers no questions")
	}
	mesh, err := gossip.New(cfg.Gossip, cfg.Cluster.Name, self, mute, lg.Named("gossip"), reg)
	if err != nil {
		return nil, err
	}
	ring, err := observerRing(cfg)
	if err != nil {
		return nil, err
	}
	if ring != nil {
		mesh.UseRing(ring)
	}
	mesh.SeedPort(seedPort)
	if cfg.Volume.Provider == volume.ProviderEBS {
		_, cloud, err := openProvider(ctx, loaded.Config, reg, func(string) {}, lg.Named("volume"))
		if err != nil {
			return nil, err
		}
		cloud.Observe()
		mesh.AddSeeds(cloud.Seeds)
	}
	return mesh, nil
}

// free returns why the gossip could not listen there.
func free(ctx context.Context, at netip.AddrPort) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	p, err := lc.ListenPacket(ctx, "udp", at.String())
	if err == nil {
		err = p.Close()
	}
	return errors.Join(err, l.Close())
}
