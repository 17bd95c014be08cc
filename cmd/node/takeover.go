package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"holdfast/cmd/control"
	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// released keeps the answer of the release of this node's member. The member stays drained until `holdfast undrain`.
type released struct {
	busy sync.Mutex // is held during a release
	last atomic.Pointer[health.Release]
}

// again answers a release of a member that is already drained. The versions of its data are not known while it is
// drained. So the answer is the same as before, and a release to another version is refused.
func (r *released) again(to string) (health.Release, error) {
	last := r.last.Load()
	switch {
	case last == nil:
		return health.Release{}, errors.New("the member is drained, and its versions are not known " +
			"then: `holdfast undrain` first")
	case to != "" && to != last.To:
		return health.Release{}, fmt.Errorf("the member was released to etcd %s, and whether etcd %s can "+
			"run on its data shows only "+
			"while it runs: `holdfast undrain`, wait until it serves, and release it again with --to-etcd %[2]s", last.To, to)
	}
	return *last, nil
}

// takeoverOf returns the state of the takeover of another program's cluster, from the status of all nodes.
func (n routes) takeoverOf(s health.ClusterStatus) health.Takeover {
	o := n.coord.Now().Observation
	record := o.Disk.Ledger.Record
	if record == nil {
		record = s.Record
	}
	returned := record != nil && o.Store.Returned && o.Store.Record.Lineage() == record.Lineage()
	if returned || n.given.last.Load() != nil {
		stillReturning(&s, &o)
	}
	return health.AssessTakeover(s, record, o.Foreign(), o.Mixed())
}

// stillReturning completes the view of a cluster that was given back. The pause that says so is only known while a
// member runs here.
func stillReturning(s *health.ClusterStatus, o *plan.Observation) {
	if !slices.ContainsFunc(s.Nodes, func(n health.NodeStatus) bool { return n.Reached && n.Etcd != nil }) {
		s.Paused = &plan.Pause{Return: true}
		o.Member.Paused = s.Paused
	}
}

// undrain starts the member again, also after a release.
func (n routes) undrain(dry bool) error {
	err := n.coord.Undrain(dry)
	if err == nil && !dry {
		n.given.last.Store(nil)
	}
	return err
}

// giveBack releases this node's member to the program that the cluster was taken over from. It can be repeated, and
// does only the steps that are left. After each step, either program can start the member, because the data stays
// where both find it.
func (n routes) giveBack(r *http.Request) (any, error) {
	if !n.given.busy.TryLock() {
		return nil, errors.New("another command releases this member just now")
	}
	defer n.given.busy.Unlock()
	ctx, how := r.Context(), coordinator.DrainOptions{Force: r.FormValue("force") == "true", Dry: true}
	if n.coord.Now().Observation.Drained {
		return n.given.again(r.FormValue("to"))
	}
	rel := n.mayRelease(ctx, r.FormValue("to"))
	if len(rel.Why) > 0 {
		return rel, nil
	}
	report, err := n.leave(ctx, how)
	if err != nil {
		return nil, err
	}
	if rel.Risk = report.Risk; control.Dry(r) || rel.Risk != "" && !how.Force {
		return rel, nil
	}
	if err := n.prepareRelease(ctx, &rel, r.FormValue("by")); err != nil {
		return nil, err
	}
	n.step("release-handed")
	// The release must not stop half-way if the caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	how.Dry = false
	if report, err = n.leave(ctx, how); err != nil {
		return nil, err
	}
	rel.Risk, rel.Released = report.Risk, report.Drained
	if rel.Released {
		n.step("release-drained")
		n.given.last.Store(&rel)
	}
	return rel, nil
}

// leave drains the member or, with how.Dry, checks whether it may be drained. Beside the checks of every drain, it asks
// the members that another program runs whether they reach each other, because no node knows that.
func (n routes) leave(ctx context.Context, how coordinator.DrainOptions) (coordinator.DrainReport, error) {
	severed := n.severed(ctx)
	if severed != "" && !how.Force {
		return coordinator.DrainReport{Risk: severed}, nil
	}
	report, err := n.coord.Drain(ctx, how)
	report.Risk = cmp.Or(report.Risk, severed)
	return report, err
}

// prepareRelease does everything that comes before the drain. The pause comes before the file state, because no node
// may change the cluster by itself once another program may run the member.
func (n routes) prepareRelease(ctx context.Context, rel *health.Release, by string) error {
	meta, err := n.backupFor(ctx, rel.To)
	if err != nil {
		return fmt.Errorf("not released without a backup: %w", err)
	}
	rel.Backup = meta.Name
	n.step("release-saved")
	manager := rel.Program == plan.EtcdManager
	if manager && n.cfg.Snapshot.Format == snapshot.FormatManager {
		spec := snapshot.ManagerSpec{Members: n.voters(), EtcdVersion: rel.To}
		if err := snapshot.KeepControl(ctx, n.store, spec); err != nil {
			return fmt.Errorf("not released without etcd-manager's mark in %s: %w", n.cfg.Snapshot.Store, err)
		}
	}
	n.step("release-marked")
	if p := n.coord.Now().Observation.Member.Paused; p == nil || !p.Return {
		p := plan.Pause{Return: true, By: by, Why: fmt.Sprintf("the cluster goes back to %s", rel.Program),
			Since: time.Now().UTC().Truncate(time.Second)}
		if err := n.coord.Pause(ctx, p, false); err != nil {
			return fmt.Errorf("not released, for the cluster could not be paused: %w", err)
		}
	}
	n.step("release-paused")
	// Before the last member is released, the store records that the cluster was given back.
	if o := n.coord.Now().Observation; o.Disk.Ledger.Record != nil && len(o.Foreign()) == n.voters()-1 {
		if err := n.records.Return(ctx, *o.Disk.Ledger.Record, by); err != nil {
			return fmt.Errorf("not released: %w", err)
		}
	}
	n.step("release-returned")
	if !manager {
		return nil
	}
	state, err := embedded.ReadManagerState(rel.Path)
	if err != nil {
		return err
	}
	state.Version, state.NewCluster, state.Quarantined = rel.To, false, false
	return embedded.Disk{Names: MemberNames(n.cfg)}.HandBack(rel.Path, state)
}

// resume ends the pause of the cluster. If the pause was for giving the cluster back, the store records that holdfast
// keeps it.
func (n routes) resume(r *http.Request) (any, error) {
	p, err := n.coord.Resume(r.Context(), true)
	if err != nil || control.Dry(r) {
		return p, err
	}
	if record := n.coord.Now().Observation.Disk.Ledger.Record; p.Return && record != nil {
		if err := n.records.Keep(r.Context(), *record); err != nil {
			return nil, fmt.Errorf("not resumed: %w", err)
		}
	}
	return n.coord.Resume(r.Context(), false)
}

// backupFor returns a recent backup that etcd of this version can open, and saves one if needed.
func (n routes) backupFor(ctx context.Context, to string) (snapshot.Meta, error) {
	meta, err := n.keeper.Fresh(ctx, DowngradeBackup)
	if err == nil && plan.Older(to, meta.StorageVersion) { // the backup was made before the downgrade
		meta, err = n.keeper.Save(ctx, nil)
	}
	if err == nil && plan.Older(to, meta.StorageVersion) {
		err = fmt.Errorf("%s has the data of etcd %s, which etcd %s cannot open", meta.Name, meta.StorageVersion, to)
	}
	return meta, err
}

// voters returns the number of the cluster's voters.
func (n routes) voters() int { return len(plan.Voters(n.etcd.Members())) }

// mayRelease judges whether this node's member may be released to etcd of this version.
func (n routes) mayRelease(ctx context.Context, to string) health.Release {
	now, s := n.coord.Now(), n.statusOfAll(ctx)
	in := health.Releasing{To: to, Manager: n.cfg.Snapshot.Format == snapshot.FormatManager, Voters: n.voters()}
	if e := n.etcd.Status(); e.Running {
		in.Etcd = etcdStatus(e, nil)
		in.Own = n.etcd.MemberNames()[e.ID]
	}
	for _, m := range n.takeoverOf(s).Members {
		if m.Connected && !m.Ours {
			in.Foreign++
		}
	}
	var err error
	if now.Volume.Path == "" {
		err = errors.New("this node holds no volume")
	} else if in.Origin, err = (embedded.Disk{Names: MemberNames(n.cfg)}).Left(now.Volume.Path); err == nil {
		in.Path, in.Data = now.Volume.Path, filepath.Join(now.Volume.Path, coordinator.EtcdDir)
		in.Was, in.Token, in.Names, in.Problem = managersWord(now.Volume.Path)
	}
	if l := now.Observation.Disk.Ledger; l.Record != nil {
		in.Adopted = l.Record.Adopted
		if l.Secured != nil {
			in.Secured = l.Secured.PeerURL
		}
	}
	if err == nil && in.Manager {
		control, err := snapshot.ReadControl(ctx, n.store)
		if err != nil {
			in.StoreProblem = err.Error()
		}
		in.Commands = control.Commands
		if c := control.Spec; c != nil {
			in.Spec, in.SpecMembers = c.EtcdVersion, c.Members
		}
	}
	r := health.AssessRelease(s, in)
	if err != nil {
		r.Why = []string{err.Error()}
	}
	r.Slot, r.Path = now.Volume.Slot, now.Volume.Path
	return r
}

// managersWord reads etcd-manager's file state on a volume: the version of its etcd, the cluster's token, and the names
// of the members.
func managersWord(path string) (version, token string, names []string, problem string) {
	state, err := embedded.ReadManagerState(path)
	if err != nil {
		return "", "", nil, err.Error()
	}
	for _, m := range state.Nodes {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return state.Version, state.Token, names, ""
}

const (
	// markEvery is how often the store is checked for etcd-manager's mark. etcd-manager itself checks every 10 s.
	markEvery = 2 * time.Second
	markWait  = 10 * time.Second // for the store
)

// marker keeps etcd-manager's mark in the backup store while etcd-manager may run members of this cluster. If the store
// has a spec but no mark, etcd-manager stops its members and founds an empty cluster in their place.
type marker struct {
	wanted func() bool
	keep   func(context.Context) (missing bool, err error)
	lg     *zap.Logger
}

// follow keeps the mark until ctx ends.
func (m *marker) follow(ctx context.Context) error {
	ticker := time.NewTicker(markEvery)
	defer ticker.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !m.wanted() {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, markWait)
		missing, err := m.keep(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failed:
			m.lg.Warn("could not check whether the backup store has etcd-manager's mark of this cluster", zap.Error(err))
		case err == nil && missing:
			m.lg.Warn("etcd-manager's mark of this cluster was missing in the backup store, and was written again: without it " +
				"etcd-manager founds an empty cluster over this one")
		}
		failed = err != nil
	}
}

// marker returns the marker of this node's cluster.
func (n *node) marker() *marker {
	return &marker{
		wanted: func() bool { return managed(n.coord.Now()) },
		keep:   func(ctx context.Context) (bool, error) { return snapshot.KeepMark(ctx, n.store) },
		lg:     n.lg.Named("takeover"),
	}
}

// managed reports whether etcd-manager may run members of the cluster. The record of a later generation does not say
// which program it was taken over from; without etcd-manager's spec in the store, there is no mark to keep.
func managed(s coordinator.Situation) bool {
	o := s.Observation
	r := o.Disk.Ledger.Record
	return r != nil && (r.Adopted == nil || r.Adopted.From() == plan.EtcdManager) && o.Mixed() != ""
}
