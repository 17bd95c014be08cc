package node

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.uber.org/zap"

	"holdfast/cmd/child"
	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/auth"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/pki"
	"holdfast/embedded/pki/authorities"
	"holdfast/embedded/plan"
	"holdfast/embedded/settings"
	"holdfast/gossip"
	"holdfast/metrics"
	"holdfast/snapshot"
	"holdfast/volume"
)

// newNode makes all parts of a node. Nothing runs yet.
func newNode(ctx context.Context, version string, cfg config.Config, lg *zap.Logger) (*node, error) {
	address, err := netip.ParseAddr(cfg.Node.Address)
	if err != nil {
		return nil, fmt.Errorf("node.address: %w", err)
	}
	if err := os.MkdirAll(cfg.Node.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make node.data-dir: %w", err)
	}
	if err := makeBackupDirectories(cfg); err != nil { // backups fail and say so, and the member serves all the same
		lg.Warn("a directory for backups could not be made", zap.Error(err))
	}
	store, err := OpenStore(ctx, cfg)
	if err != nil {
		return nil, err
	}
	// Without a readable identity file the member serves all the same; config.Lacking has warned of it. Without valid
	// recipients the node does not start.
	options, err := BackupOptions(cfg)
	options.By = cfg.Node.Name
	if len(options.Recipients) < len(cfg.Snapshot.Recipients) {
		return nil, err
	}
	n := &node{cfg: cfg, lg: lg, version: version, address: address, store: store,
		records: generations.New(store, cfg.Cluster.Name, nil),
		issued:  &authorities.Issued{Store: store, Cluster: cfg.Cluster.Name},
		rooms:   newRooms(cfg.Snapshot.Spool, cfg.Snapshot.Scratch)}
	source := AuthoritySource(cfg, store)
	if cfg.TLS.Mode == pki.ModeAuto { // unlike a command, a node also makes editions
		n.editions = authorities.New(EditionOptions(cfg), store, lg.Named("tls"))
		source = n.editions
	}
	n.certificates, err = pki.New(cfg.TLS, TLSIdentity(cfg), source, lg.Named("tls"), prometheus.DefaultRegisterer)
	if err != nil {
		return nil, err
	}
	if o := n.certificates.Orders(); o != nil {
		n.records.Signer = o
	}
	if err := n.makeMesh(); err != nil {
		return nil, err
	}
	n.step = killAt(os.Getenv(killVariable))
	n.volumes, n.ebs, err = OpenProvider(ctx, cfg, prometheus.DefaultRegisterer, n.step, lg.Named("volume"))
	if err != nil {
		return nil, err
	}
	if n.ebs != nil {
		n.mesh.UseSeeds(n.ebs.Seeds)
	}
	n.makeMember(options)
	n.makeCoordinator(options)
	metrics.Collect(prometheus.DefaultRegisterer, n.series)
	metrics.Collect(prometheus.DefaultRegisterer, n.findingSeries)
	return n, nil
}

// makeMesh makes the gossip and the resolver of the members' names.
func (n *node) makeMesh() (err error) {
	n.names = gossip.NewResolver(n.cfg.Zone(), settings.PeerHost(n.cfg.Etcd.PeerURL), n.lg.Named("names"))
	if n.cfg.Cluster.Adopt {
		n.names.Tolerate()
	}
	cfg := n.cfg
	boot, err := nextBoot(cfg.Node.DataDir, time.Now())
	if err != nil { // a full disk must not keep the member down
		n.lg.Warn("could not remember the number of this process", zap.Error(err))
	}
	self := gossip.Meta{Node: cfg.Node.Name, Boot: boot, Address: n.address, Version: n.version}
	n.mesh, err = gossip.New(cfg.Gossip, cfg.Cluster.Name, self, n.answer, n.lg.Named("gossip"),
		prometheus.DefaultRegisterer)
	if err != nil {
		return err
	}
	n.mesh.UseEvidence(coordinator.Evidence)
	if t := meshTLS(cfg, n.certificates); t != nil {
		n.mesh.UseTLS(*t)
	}
	return nil
}

// makeMember makes the member, and the keepers of its users, backups and metrics.
func (n *node) makeMember(options snapshot.Options) {
	cfg, reg := n.cfg, prometheus.DefaultRegisterer
	n.etcd = embedded.New(embedded.Config{Config: cfg.Etcd, Names: MemberNames(cfg)}, n.lg, noteEnd(cfg))
	if n.editions != nil {
		n.etcd.Tell(n.editions.Clients.See)
	}
	n.auth = auth.NewKeeper(cfg.Auth.File, users{n}.world(), n.lg.Named("auth"))
	n.counted = metrics.NewCounters(reg, actions(), reasons())
	stores := snapshot.Stores{Main: n.store, Spool: OpenSpool(cfg)}
	drill := func(ctx context.Context, name string) (snapshot.Drill, error) {
		opt, err := BackupOptions(cfg) // again: the identity file may be readable by now
		if err != nil {
			return snapshot.Drill{}, err
		}
		return child.Drill(ctx, n.store, name, opt)
	}
	n.keeper = snapshot.NewKeeper(cfg.Snapshot.Config, cfg.Cluster.Name, stores, source{n}, options, drill,
		n.lg.Named("backup"), reg)
}

// makeCoordinator makes the coordinator, which drives all other parts.
func (n *node) makeCoordinator(options snapshot.Options) {
	cfg := n.cfg
	n.elders = &elders{said: cfg.Cluster.Elders(), wanted: func() bool { return strangers(n.coord.Now()) },
		look: func() { n.coord.Look() }, lg: n.lg.Named("names")}
	n.coord = coordinator.New(
		coordinator.Config{Node: cfg.Node.Name, Address: n.address, Plan: Wanted(cfg), Unset: cfg.Cluster.Unset,
			RevisionBump: cfg.Restore.RevisionBump, ReclaimAfter: cfg.Restore.ReclaimAfter,
			StopWait: cfg.Stop.Wait, Hold: cfg.Stop.Hold, EarlyCampaign: cfg.Etcd.EarlyCampaign},
		coordinator.World{
			Volumes: volumes{n.volumes, cfg.Cluster.Name, cfg.Cluster.Adopt},
			Mesh:    mesh{n.mesh},
			Names:   n.names,
			Elders:  n.elders.all,
			Etcd:    etcd{n.etcd, embedded.Disk{Names: MemberNames(cfg)}, n.certificates},
			Store:   n.records,
			Backups: Archive{Store: n.store, Cluster: cfg.Cluster.Name, keeper: n.keeper, Options: options,
				Skipped: func(lines []string) { n.lg.Warn("skipped the newest backup", zap.Strings("why", lines)) }},
			Decided:    func(a plan.Action) { n.counted.Decided(string(a.Kind)) },
			Failed:     func(a plan.Action, _ error) { n.counted.Failed(string(a.Kind)) },
			Looked:     func(s coordinator.Situation) { n.certificates.See(authorities.Around(s.Observation)) },
			Ending:     noteEnd(cfg),
			Campaigned: func(r plan.Reason) { n.counted.Campaigned(string(r)) },
			Step:       n.step,
			Rooms:      n.rooms.all,
			Database:   n.databaseOf,
		}, n.lg)
}

// Wanted returns the part of the configuration on which decisions depend.
func Wanted(cfg config.Config) plan.Config {
	local := cfg.Volume.Provider == volume.ProviderLocal
	return plan.Config{
		Cluster:   cfg.Cluster.Name,
		Slots:     slices.Sorted(slices.Values(cfg.Cluster.Slots)),
		PeerURL:   cfg.Etcd.PeerURL,
		FromHTTP:  httpPort(cfg),
		Clients:   cfg.Etcd.AdvertiseClientURLs,
		Control:   controlAt(cfg),
		Seeded:    len(cfg.Gossip.Seeds) > 0 || cfg.Gossip.SeedsFile != "" || cfg.Volume.Provider == volume.ProviderEBS,
		Never:     cfg.Cluster.Founding == config.FoundingNever,
		Automatic: cfg.Restore.Automatic,
		Foreign:   cfg.Restore.ForeignCommands,
		Recovery:  cfg.Cluster.Recovery == config.RecoveryAutomatic,
		Adopt:     cfg.Cluster.Adopt,
		Etcd:      etcdversion.Version,
		Yields:    local && cfg.Volume.Local.Scope == volume.ScopeHost && cfg.Volume.Local.Slot == "",
		Upkeep: plan.Upkeep{FreePercent: cfg.Upkeep.DefragFreePercent, FreeBytes: cfg.Upkeep.DefragFreeBytes,
			FullPercent: cfg.Upkeep.FullPercent, Cure: cfg.Upkeep.CureNoSpace},
	}
}

// httpPort returns the port where members are served http beside TLS (tls.from-http), or "".
func httpPort(cfg config.Config) string {
	for _, text := range cfg.Etcd.ListenPeerURLs {
		if u, err := url.Parse(text); err == nil && cfg.TLS.FromHTTP && u.Scheme == "http" {
			return u.Port()
		}
	}
	return ""
}

// MemberNames returns how the members' names and peer URLs follow from the configuration.
func MemberNames(cfg config.Config) embedded.Names {
	return embedded.Names{Member: cfg.Cluster.MemberName, PeerURL: cfg.Etcd.PeerURL, Peer: peerName(cfg),
		Hosts: foreignHosts(cfg)}
}

// foreignHosts returns the members' host names if the operator has set etcd.peer-url, or nil if they are holdfast's
// own.
func foreignHosts(cfg config.Config) (all []string) {
	host := settings.PeerHost(cfg.Etcd.PeerURL)
	if host == cfg.OwnPeerHost() {
		return nil
	}
	for _, slot := range cfg.Cluster.Slots {
		all = append(all, plan.PeerURL(host, slot))
	}
	return all
}

// slotsPending returns the change of the slots if members may refuse new ones until they restart: of the operator's
// certificates, one that has only its host name is accepted if the slot was known at the start. Certificates with the
// cluster's name need no restart.
func slotsPending(start, now config.Config) []config.Change {
	etcd, known := start.Etcd, foreignHosts(start)
	isNew := func(host string) bool { return !slices.Contains(known, host) }
	if start.TLS.Mode != pki.ModeFiles || len(etcd.PeerCertAllowedCN)+len(etcd.PeerCertAllowedHostname) > 0 ||
		!slices.ContainsFunc(foreignHosts(now), isNew) {
		return nil
	}
	text, err := os.ReadFile(etcd.PeerCertFile)
	if err != nil {
		return nil // it is reported as such, or members have no TLS
	}
	certs, err := pki.CertificatesIn(text)
	if err != nil || certs[0].VerifyHostname(peerName(start)) == nil {
		return nil
	}
	return []config.Change{{Key: "cluster.slots"}}
}

func actions() []string {
	kinds := []plan.Kind{plan.Wait, plan.Acquire, plan.Yield, plan.Repair, plan.SetAside, plan.Promise, plan.Commit,
		plan.Vacate, plan.Accept, plan.Start, plan.Replace, plan.Promote, plan.Renounce, plan.Mirror, plan.Propose,
		plan.Dismiss, plan.Prepare, plan.Discard, plan.Conclude, plan.Enter, plan.Swap, plan.Leave, plan.Stay, plan.Note,
		plan.Resize, plan.Remove, plan.Update, plan.HandOver, plan.Retire, plan.Unlock, plan.Defrag, plan.Reload,
		plan.Compact, plan.Raise, plan.Disarm}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return names
}

// reasons returns the reasons for an early election that are exported as metrics.
func reasons() (names []string) {
	for _, r := range plan.Reasons() {
		names = append(names, string(r))
	}
	return names
}

// killVariable is an environment variable for tests only. It names the step of an action before which the process kills
// itself. With it, the stories crash a node at every line of the protocol.
const killVariable = "HOLDFAST_TEST_KILL_AT"

func killAt(step string) func(string) {
	return func(name string) {
		if name == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way; nothing more may happen
		}
	}
}
