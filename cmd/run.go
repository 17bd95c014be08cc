package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"holdfast/cmd/config"
	"holdfast/cmd/node"
	"holdfast/embedded"
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/plan"
	"holdfast/gossip"
	"holdfast/metrics"
	"holdfast/snapshot"
	"holdfast/volume"
	"holdfast/volume/ebs"
)

func newRunCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run",
		Short: "Run a node until SIGTERM",
		Long: "Run a node until SIGTERM.\n\n" +
			"Without any configuration it is a cluster of one member: data below ./holdfast-data, etcd's API on\n" +
			"127.0.0.1:2379, a verified backup every 15 minutes. See `holdfast config default` for every key.\n\n" +
			"SIGTERM waits at most stop.wait until no other member is down, hands the leadership over and stops; another\n" +
			"one, more than a second later, ends the process at once. SIGHUP, or a change of the file, reloads the\n" +
			"configuration. The exit code is 0 after SIGTERM and 1 when something went wrong that a restart may cure.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := config.Load("", c.Flags(), os.Environ())
			if err != nil {
				return err
			}
			return run(c.Context(), loaded, func() (*config.Loaded, error) { return config.Load("", c.Flags(), os.Environ()) })
		},
	}
	config.AddFlags(c.Flags())
	return c
}

// run wires a node and lives its life. Everything starts in this order and ends in the reverse one.
func run(ctx context.Context, loaded *config.Loaded, reload func() (*config.Loaded, error)) error {
	cfg := loaded.Config
	// To the end: it kills by default, before the watch of the file begins and after that has ended.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	lg, level, err := node.NewLogger(cfg.Log)
	if err != nil {
		return err
	}
	defer lg.Sync() //nolint:errcheck // standard error cannot be synced on a terminal
	if err := node.Run(ctx, Version(), loaded, reload, lg, level); err != nil {
		if cfg.Log.Format == config.LogConsole {
			return err // as people read it
		}
		lg.Error("the node ends", zap.Error(err))
		return exitCode(codeOf(err))
	}
	lg.Info("stopped")
	return nil
}

// live starts all parts of the node, and returns when all have ended.
func live(ctx context.Context, loaded *config.Loaded, reload func() (*config.Loaded, error), lg *zap.Logger, level zap.AtomicLevel) error {
	cfg := loaded.Config
	lg.Info("starting", zap.String("version", Version()), zap.String("etcd", etcdversion.Version), zap.String("node", cfg.Node.Name),
		zap.String("cluster", cfg.Cluster.Name), zap.Strings("slots", cfg.Cluster.Slots), zap.String("config", loaded.File))
	for _, w := range loaded.Warnings {
		lg.Warn("configuration", zap.String("warning", w))
	}
	if err := refused(loaded); err != nil {
		return fmt.Errorf("the node does not start: %d wrong\n%w", len(config.Errors(err)), err)
	}
	if err := closeDataDir(cfg); err != nil {
		return err
	}
	n, err := newNode(ctx, cfg, lg)
	if err != nil {
		return err
	}
	previous := net.DefaultResolver
	net.DefaultResolver = n.names.Resolver() // etcd's dialers know no other way to be given a resolver
	defer func() { net.DefaultResolver = previous }()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	outer, end := context.WithCancel(context.WithoutCancel(ctx)) // of what must outlive the member
	defer end()
	server := metrics.NewServer(cfg.Metrics, prometheus.DefaultGatherer, n.livez, n.readyz, n.clusterStatus, lg.Named("http"))
	group.Go(func() error { return server.Run(outer) })
	group.Go(func() error { return metrics.Profile(outer, cfg.Metrics.Pprof, lg.Named("pprof"), nil) })
	group.Go(func() error { return n.serveControl(outer) })
	group.Go(func() error { return n.mesh.Run(outer) })
	group.Go(func() error { return n.followAuthority(ctx) })
	group.Go(func() error { return n.keeper.Run(ctx) })
	group.Go(func() error { return n.rooms.watch(ctx, n.coord.Look) })
	group.Go(func() error { return n.auth.Run(ctx) })
	group.Go(func() error { return n.certificates.Run(ctx) })
	group.Go(func() error { return n.rotateAuthorities(ctx) })
	if cfg.TLS.Issues() {
		group.Go(func() error { return n.issued.Run(ctx) })
	}
	group.Go(func() error {
		return config.Watch(ctx, loaded.File, lg, func() { n.reload(loaded, reload, level) })
	})
	if _, err := daemon.SdNotify(true, daemon.SdNotifyReady); err != nil { // not when it serves: a node may have to wait for others
		lg.Warn("systemd was not told that the node runs", zap.Error(err))
	}
	n.tellEnd()
	n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryStart, Why: fmt.Sprintf("holdfast %s with etcd %s, as %s, slots %s",
		Version(), etcdversion.Version, cfg.Cluster.Name, strings.Join(cfg.Cluster.Slots, ","))})
	err = n.coord.Run(ctx)
	if errors.Is(err, coordinator.ErrVolumeLost) {
		return err // not waiting for anybody: what holds the dead volume may hang
	}
	cancel()
	end()
	if e := waitFor(group, lg); err == nil {
		err = e
	}
	return err
}

// endWait is how long the parts beside the member may take to end. A backup store that hangs, on a dead
// NFS server say, must not keep the process.
const endWait = 5 * time.Second

func waitFor(group *errgroup.Group, lg *zap.Logger) error {
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	select {
	case err := <-done:
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	case <-time.After(endWait):
		lg.Error("the member has stopped, but something beside it hangs, most likely the backup store; not waiting for it", zap.Duration("waited", endWait))
		return nil
	}
}

// newNode makes all parts of a node. Nothing runs yet.
func newNode(ctx context.Context, cfg config.Config, lg *zap.Logger) (*process, error) {
	address, err := netip.ParseAddr(cfg.Node.Address)
	if err != nil {
		return nil, fmt.Errorf("node.address: %w", err)
	}
	if err := os.MkdirAll(cfg.Node.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make node.data-dir: %w", err)
	}
	if err := makeBackupDirectories(cfg); err != nil {
		return nil, err
	}
	store, err := openStore(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("snapshot.store: %w", err)
	}
	// A key that cannot be read, of which the warnings have told, keeps no member from serving. Recipients would.
	options, err := backupOptions(cfg)
	options.By = cfg.Node.Name
	if len(options.Recipients) < len(cfg.Snapshot.Recipients) {
		return nil, err
	}
	cfg.Etcd.Names = embedded.Names{Member: cfg.Cluster.MemberName, PeerURL: peerURL(cfg), Peer: peerName(cfg)}
	n := &process{cfg: cfg, lg: lg, address: address, store: store,
		records: &generations.Records{Store: store, Cluster: cfg.Cluster.Name},
		issued:  &authorities.Issued{Store: store, Cluster: cfg.Cluster.Name},
		rooms:   newRooms(cfg.Snapshot.Spool, cfg.Snapshot.Scratch)}
	if cfg.TLS.Mode == pki.ModeAuto {
		n.editions = authorities.New(editionOptions(cfg), store, lg.Named("tls"))
	}
	if n.certificates, err = n.newCertificates(lg.Named("tls"), prometheus.DefaultRegisterer); err != nil {
		return nil, err
	}
	n.names = gossip.NewResolver(zone(cfg), "", lg.Named("names"))
	self := gossip.Meta{Node: cfg.Node.Name, Boot: uint64(time.Now().UnixNano()), Address: address, Version: Version()}
	if n.mesh, err = gossip.New(cfg.Gossip, cfg.Cluster.Name, self, n.answer, lg.Named("gossip"), prometheus.DefaultRegisterer); err != nil {
		return nil, err
	}
	n.mesh.UseEvidence(coordinator.Evidence)
	ring, err := derivedRing(cfg, func() [][]byte { return n.certificates.Secrets("gossip") })
	if err != nil {
		return nil, err
	}
	if ring != nil {
		n.mesh.UseRing(ring)
	}
	wanted := plan.Config{
		Cluster:   cfg.Cluster.Name,
		Slots:     slices.Sorted(slices.Values(cfg.Cluster.Slots)),
		PeerURL:   peerURL(cfg),
		Clients:   cfg.Etcd.AdvertiseClientURLs,
		Seeded:    len(cfg.Gossip.Seeds) > 0 || cfg.Gossip.SeedsFile != "" || cfg.Volume.Provider == volume.ProviderEBS,
		Never:     cfg.Cluster.Founding == config.FoundingNever,
		Automatic: cfg.Restore.Automatic,
		Foreign:   cfg.Restore.ForeignCommands,
		Recovery:  cfg.Cluster.Recovery == config.RecoveryAutomatic,
		Etcd:      etcdversion.Version,
		Yields:    cfg.Volume.Provider == volume.ProviderLocal && cfg.Volume.Local.Scope == volume.ScopeHost && cfg.Volume.Local.Slot == "",
		Upkeep:    upkeepOf(cfg.Upkeep),
	}
	step := killAt(os.Getenv(killVariable))
	provider, cloud, err := openProvider(ctx, cfg, prometheus.DefaultRegisterer, step, lg.Named("volume"))
	if err != nil {
		return nil, err
	}
	n.volumes = provider
	if n.ebs = cloud; cloud != nil {
		n.mesh.AddSeeds(cloud.Seeds)
	}
	n.etcd = embedded.New(cfg.Etcd, lg, noteEnd(cfg))
	if n.editions != nil {
		n.etcd.Tell(n.editions.Clients.See)
	}
	n.auth = auth.NewKeeper(cfg.Auth.File, n.authWorld(), lg.Named("auth"))
	n.metrics = metrics.New(prometheus.DefaultRegisterer, metrics.Names{
		Version: Version(), EtcdVersion: etcdversion.Version, States: health.States, Actions: actions(), Claims: claims(n.ebs),
	})
	n.keeper = snapshot.NewKeeper(cfg.Snapshot.Config, cfg.Cluster.Name, snapshot.Stores{Main: store, Spool: openSpool(cfg)}, n, options,
		func(ctx context.Context, name string) (snapshot.Drill, error) {
			opt, err := backupOptions(cfg) // the key may be readable by now
			if err != nil {
				return snapshot.Drill{}, err
			}
			return runDrill(ctx, store, name, opt)
		},
		lg.Named("backup"), prometheus.DefaultRegisterer)
	n.coord = coordinator.New(
		coordinator.Config{Node: cfg.Node.Name, Address: address, Plan: wanted,
			RevisionBump: cfg.Restore.RevisionBump, ReclaimAfter: cfg.Restore.ReclaimAfter, StopWait: cfg.Stop.Wait, Hold: cfg.Stop.Hold},
		coordinator.World{
			Volumes: volumes{provider, cfg.Cluster.Name},
			Mesh:    mesh{n.mesh},
			Names:   n.names,
			Etcd:    etcd{n.etcd, embedded.Disk{Names: cfg.Etcd.Names}, n.certificates},
			Store:   n.records,
			Backups: archive{store: n.store, cluster: cfg.Cluster.Name, keeper: n.keeper, options: options,
				skipped: func(lines []string) { lg.Warn("skipped the newest backup", zap.Strings("why", lines)) }},
			Decided: func(a plan.Action) { n.metrics.Decided(string(a.Kind)) },
			Failed:  func(a plan.Action, _ error) { n.metrics.Failed(string(a.Kind)) },
			Looked:  n.observed,
			Ending:  noteEnd(cfg),
			Step:    step,
			Rooms:   n.rooms.all,
		}, lg)
	metrics.Findings(prometheus.DefaultRegisterer, exportedKinds(), n.exported)
	return n, nil
}

// peerURL is the pattern of the members' peer URLs: names that never change, on the port etcd listens on.
func peerURL(cfg config.Config) string {
	scheme, rest, _ := strings.Cut(cfg.Etcd.ListenPeerURLs[0], "://")
	_, port, _ := net.SplitHostPort(rest)
	return fmt.Sprintf("%s://{slot}.%s.%s:%s", scheme, cfg.Cluster.Name, cfg.Cluster.Domain, port)
}

// claims are the states of a claim that are exported.
func claims(p *ebs.Provider) []string {
	if p == nil {
		return nil
	}
	return ebs.States
}

func actions() []string {
	kinds := []plan.Kind{plan.Wait, plan.Acquire, plan.Yield, plan.Repair, plan.SetAside, plan.Promise, plan.Commit, plan.Vacate,
		plan.Accept, plan.Start, plan.Replace, plan.Promote, plan.Renounce, plan.Mirror, plan.Propose, plan.Dismiss, plan.Prepare, plan.Discard,
		plan.Conclude, plan.Enter, plan.Swap, plan.Leave, plan.Stay, plan.Note, plan.Resize, plan.Remove, plan.HandOver, plan.Retire, plan.Unlock,
		plan.Defrag, plan.Reload, plan.Compact, plan.Raise, plan.Disarm}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return names
}

// killVariable names the step of an action before which the process kills itself. The stories use it to
// crash a node at every line of the protocol; it is of no use to anybody else.
const killVariable = "HOLDFAST_TEST_KILL_AT"

func killAt(step string) func(string) {
	return func(name string) {
		if name == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way; nothing more may happen
		}
	}
}

// newLogger logs to standard error. The level can be changed while the process runs.
func newLogger(cfg config.Log) (*zap.Logger, zap.AtomicLevel, error) {
	c := zap.NewProductionConfig()
	c.Sampling, c.DisableStacktrace, c.DisableCaller = nil, true, true
	c.EncoderConfig.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	if cfg.Format == config.LogConsole {
		c.Encoding = "console"
		c.EncoderConfig.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z0700")
		c.EncoderConfig.EncodeLevel = zapcore.CapitalLevelEncoder
	}
	level, err := zapcore.ParseLevel(cfg.Level)
	if err != nil {
		return nil, c.Level, fmt.Errorf("log.level: %w", err)
	}
	c.Level.SetLevel(level)
	lg, err := c.Build()
	return lg, c.Level, err
}

// reload takes over what can be taken over while the node runs, and says what needs a restart.
func (n *process) reload(now *config.Loaded, load func() (*config.Loaded, error), level zap.AtomicLevel) {
	taken, restart, err := now.Reload(load, level, n.lg)
	if err != nil {
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryReload, Why: "not taken over", Outcome: coordinator.Failed, Error: err.Error()})
		return
	}
	for _, c := range taken {
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryReload, Why: fmt.Sprintf("%s: from %s to %s", c.Key, c.Old, c.New), Outcome: coordinator.Done})
	}
	for _, c := range restart {
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryReload, Why: c.Key + " has changed and needs a restart"})
	}
	n.coord.Reconfigure(slices.Sorted(slices.Values(now.Config.Cluster.Slots)))
	n.keeper.Reconfigure(now.Config.Snapshot.Config)
	n.auth.Look()
}
