package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/durable"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/pki/authorities"
	"holdfast/metrics"
)

// Run starts all parts of the node, and returns when all have ended.
func Run(ctx context.Context, version string, loaded *config.Loaded, reload func() (*config.Loaded, error),
	lg *zap.Logger, level zap.AtomicLevel) (err error) {
	cfg := loaded.Config
	lg.Info("starting", zap.String("version", version), zap.String("etcd", etcdversion.Version),
		zap.String("node", cfg.Node.Name),
		zap.String("cluster", cfg.Cluster.Name), zap.Strings("slots", cfg.Cluster.Slots), zap.String("config", loaded.File))
	for _, w := range loaded.Warnings {
		lg.Warn("configuration", zap.String("warning", w))
	}
	if err := config.Refused(loaded); err != nil {
		return fmt.Errorf("the node does not start: %d wrong\n%w", len(config.Errors(err)), err)
	}
	// Two processes must not share these directories: the second would tidy the spool while the first saves into it.
	if err := control.Served(cfg.Control.Socket); err != nil {
		return err
	}
	if err := config.CloseDataDir(cfg); err != nil {
		return err
	}
	defer func() { settleEnd(cfg, err) }()
	cfg, err = knownSlots(ctx, cfg, lg)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	loaded.Config = cfg
	reload = keepSlots(loaded, reload)
	n, err := newNode(ctx, version, cfg, lg)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	previous := net.DefaultResolver
	net.DefaultResolver = n.names.Resolver() // etcd's dialers can be given a resolver in no other way
	defer func() { net.DefaultResolver = previous }()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	outer, end := context.WithCancel(context.WithoutCancel(ctx)) // for parts that must outlive the member
	defer end()
	running := func() bool { return n.etcd.Status().Running }
	server := metrics.NewServer(cfg.Metrics, gathering(prometheus.DefaultGatherer, running), n.livez, n.readyz,
		func(ctx context.Context) (any, error) { return n.statusOfAll(ctx), nil }, lg.Named("http"))
	group.Go(func() error { return server.Run(outer) })
	group.Go(func() error { return metrics.Profile(outer, cfg.Metrics.Pprof, lg.Named("pprof")) })
	group.Go(func() error { return routes{n}.serve(outer) })
	group.Go(func() error { return n.mesh.Run(outer) })
	group.Go(func() error { return n.keeper.Run(ctx) })
	group.Go(func() error { return n.rooms.watch(ctx, n.coord.Look) })
	group.Go(func() error { return n.auth.Run(ctx) })
	group.Go(func() error { return n.certificates.Run(ctx) })
	if cfg.Cluster.Adopt {
		group.Go(func() error { return n.marker().follow(ctx) })
	}
	if n.ebs != nil {
		group.Go(func() error { return n.notices().heed(ctx) })
		n.elders.ask = n.ebs.Elsewhere
		group.Go(func() error { return n.elders.follow(ctx) })
	}
	if n.editions != nil {
		group.Go(func() error {
			return n.editions.Follow(ctx, func() authorities.View {
				return authorities.ViewOf(n.coord.Now().Observation, n.records.Clock())
			})
		})
	}
	if cfg.TLS.Issues() {
		group.Go(func() error { return n.issued.Run(ctx) })
	}
	group.Go(func() error {
		return config.Watch(ctx, loaded.File, lg, func() { n.reload(loaded, reload, level) })
	})
	// Ready means started, not serving: a node may have to wait for others.
	if _, err := daemon.SdNotify(true, daemon.SdNotifyReady); err != nil {
		lg.Warn("systemd was not told that the node runs", zap.Error(err))
	}
	n.tellEnd()
	n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryStart,
		Why: fmt.Sprintf("holdfast %s with etcd %s, as %s, slots %s",
			version, etcdversion.Version, cfg.Cluster.Name, strings.Join(cfg.Cluster.Slots, ","))})
	err = n.coord.Run(ctx)
	if errors.Is(err, coordinator.ErrVolumeLost) || errors.Is(err, coordinator.ErrHangs) {
		return err // without waiting: parts that use the dead volume may hang as well
	}
	cancel()
	end()
	if e := waitFor(ctx, group, lg); err == nil {
		err = e
	}
	return err
}

// unlessStopped returns the error of a start, or nil if the process was told to stop meanwhile.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// endWait is how long the other parts may take to end after the member. A backup store that hangs, such as on a dead
// NFS server, must not keep the process from ending.
const endWait = 5 * time.Second

// waitFor returns why a part has failed, nil if none has. ctx is that of the group, which the first failure ends.
func waitFor(ctx context.Context, group *errgroup.Group, lg *zap.Logger) error {
	err, ended := durable.Soon(endWait, group.Wait)
	if !ended {
		lg.Error("the member has stopped, but something beside it hangs, most likely the backup store; not waiting for it",
			zap.Duration("waited", endWait))
		err = context.Cause(ctx)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// NewLogger returns a logger to standard error, and its level, which can be changed while the process runs.
func NewLogger(cfg config.Log) (*zap.Logger, zap.AtomicLevel, error) {
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

// reload applies the changes of the configuration that a running node can apply. The history also gets the keys whose
// changes need a restart. A restart may be refused for other reasons than an error in the file.
func (n *node) reload(now *config.Loaded, load func() (*config.Loaded, error), level zap.AtomicLevel) {
	next, err := load()
	taken, restart, err := now.Reload(func() (*config.Loaded, error) { return next, err }, level, n.lg)
	refused := err
	if err == nil {
		if refused = config.Refused(next); refused != nil {
			n.lg.Error("the process would not start with the changed configuration", zap.Error(refused))
		}
	}
	restart = append(restart, slotsPending(n.cfg, now.Config)...)
	n.pending.Store(pendingOf(restart, refused))
	if err != nil {
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryReload, Why: "not taken over", Outcome: coordinator.Failed,
			Error: err.Error()})
		return
	}
	for _, c := range taken {
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryReload,
			Why: fmt.Sprintf("%s: from %s to %s", c.Key, c.Old, c.New), Outcome: coordinator.Done})
	}
	for _, c := range restart {
		n.coord.Remember(coordinator.Entry{Kind: coordinator.EntryReload, Why: c.Key + " has changed and needs a restart"})
	}
	n.coord.Reconfigure(Wanted(now.Config).Slots, now.Config.Cluster.Unset)
	n.keeper.Reconfigure(now.Config.Snapshot.Config)
	n.auth.Look()
}
