package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// builtPrefix begins the name of the directory, beside etcd's, in which a restore or a recovery is prepared; the
// proposal's ID follows.
const builtPrefix = "restore-"

// restorer carries out the steps of restores and recoveries.
type restorer struct {
	env
	holding     *holding
	status      *status
	observer    *observer
	generations *generations
	restoring   *restoring
	saver       *saver
	sentinel    *sentinel
	peers       peers
}

// prepare builds this slot's data directory of the new generation beside etcd's. The old generation serves meanwhile,
// on the same disk. So a failed attempt frees its space, and the next one starts over.
func (rs *restorer) prepare(ctx context.Context, o plan.Observation, a plan.Action) error {
	r := *a.Restore
	err := rs.build(ctx, o, &r)
	rs.status.progress(Progress{})
	a.Restore = &r
	if err == nil {
		err = rs.holding.record(a)
	} else {
		err = errors.Join(err, rs.discard(plan.Action{Kind: plan.Discard}))
	}
	if err != nil && ctx.Err() != nil {
		return errNotYet // overtaken, or the process is stopping
	}
	rs.restoring.prepared(a.Restore.ID, err)
	return err
}

func (rs *restorer) build(ctx context.Context, o plan.Observation, r *plan.Restore) error {
	charter := charterOf(o, *r)
	if charter == nil {
		return fmt.Errorf("prepare the %s: generation %d, which it would end, is not known here", r.Title(), r.Generation-1)
	}
	// Its port too, which a command elsewhere may not know.
	if !o.Config.Serves(charter.PeerURL) || r.PeerURL != "" && r.PeerURL != o.Config.PeerURL {
		return fmt.Errorf("prepare the %s: its members are to have the peer URLs %s, and the configuration here says %s: "+
			"set TLS, etcd.peer-url and tls.from-http as on the other nodes, or abort it",
			r.Title(), charter.PeerURL, o.Config.PeerURL)
	}
	if r.Survivor == "" && o.Member.Leader {
		rs.saver.fresh(ctx, r.ID, freshRestore, saveRestore)
	}
	if err := rs.discard(plan.Action{Kind: plan.Discard}); err != nil {
		return err
	}
	path := rs.holding.now().id.Path
	dir := filepath.Join(path, builtPrefix+r.ID)
	if err := os.MkdirAll(filepath.Dir(rs.world.Etcd.Database(dir)), 0o700); err != nil {
		return fmt.Errorf("make room for a restore: %w", err)
	}
	rs.holding.built(r.ID)
	if r.Survivor != "" {
		return rs.buildFromDisk(ctx, o, r, path, dir, charter)
	}
	return rs.buildFromBackup(ctx, o, r, path, dir, charter)
}

// buildFromBackup builds a member from a backup.
func (rs *restorer) buildFromBackup(ctx context.Context, o plan.Observation, r *plan.Restore, path, dir string,
	charter *plan.Charter) error {
	rs.world.Step("before-fetch")
	b, err := whereRoom(ctx, rs, path, func(ctx context.Context, progress func(Progress)) (Backup, error) {
		return rs.world.Backups.Fetch(ctx, r.Backup, rs.world.Etcd.Database(dir), progress)
	})
	if err != nil {
		return fmt.Errorf("fetch the backup %s: %w", r.Backup, err)
	}
	rs.world.Step("after-fetch")
	if b.Digest != r.Digest {
		return fmt.Errorf("the backup %s has the digest %s, but the restore was proposed for one with %s: the store holds "+
			"another backup by that name", r.Backup, b.Digest, r.Digest)
	}
	rs.status.progress(Progress{Phase: "building", Total: b.Bytes})
	return rs.rebuild(ctx, o, r, dir, foundersOf(*charter, *r))
}

// rebuild turns the directory with the database into that of a founder of the new generation.
func (rs *restorer) rebuild(ctx context.Context, o plan.Observation, r *plan.Restore, dir string,
	peers map[string]string) error {
	born := plan.Record{Cluster: r.Cluster, Generation: r.Generation, ID: r.ID}
	slot := o.Claim.Slot
	spec := plan.Spec{Slot: slot, DataDir: dir, Token: born.Token(), PeerURL: peers[slot], Peers: peers}
	err := rs.world.Etcd.Rebuild(ctx, dir, spec, r.Bump)
	if err != nil {
		return fmt.Errorf("build the member of slot %s from %s: %w", slot, r.Source(), err)
	}
	if err := durable.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("make what was built durable: %w", err)
	}
	rs.world.Step("after-build")
	return nil
}

// charterOf returns the charter of the generation that a restore ends, or of the one that it has begun. Both have the
// same slots; the peer URLs are as proposed. nil: neither is known.
func charterOf(o plan.Observation, r plan.Restore) *plan.Charter {
	for _, known := range []*plan.Record{o.Disk.Ledger.Record, o.Store.Record} {
		if known != nil && (known.ID == r.Parent() || known.ID == r.ID) {
			c := known.Charter
			c.PeerURL = r.Pattern(c)
			return &c
		}
	}
	return nil
}

// foundersOf returns the peer URLs of the members with which a restore begins.
func foundersOf(charter plan.Charter, r plan.Restore) map[string]string {
	if len(r.Slots) == 0 {
		return charter.Peers()
	}
	peers := map[string]string{}
	for _, slot := range r.Slots {
		peers[slot] = plan.PeerURL(charter.PeerURL, slot)
	}
	return peers
}

// whereRoom runs write, which brings a database to the volume, and cancels it if there is no room for the size in its
// progress.
func whereRoom[T any](ctx context.Context, rs *restorer, volume string,
	write func(context.Context, func(Progress)) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var full error
	checked := false
	is, err := write(ctx, func(p Progress) {
		if p.Total > 0 && !checked {
			checked = true
			if full = rs.world.Etcd.Room(volume, p.Total); full != nil {
				cancel(full)
			}
		}
		rs.status.progress(p)
	})
	return is, cmp.Or(full, err)
}

// discard makes the disk forget what it has prepared, and then removes the files. The order matters, because others
// rely on a disk that says it has prepared.
func (rs *restorer) discard(a plan.Action) error {
	held := rs.holding.now()
	if held.ledger.Prepared != nil {
		if err := rs.holding.record(a); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(held.id.Path)
	if err != nil {
		return fmt.Errorf("list what was built: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), builtPrefix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(held.id.Path, e.Name())); err != nil {
			return fmt.Errorf("remove what was built: %w", err)
		}
	}
	rs.holding.built("")
	return durable.SyncDir(held.id.Path)
}

// findBuilt returns the ID of the proposal whose directory is on the volume: of several, one that is not prepared.
func findBuilt(path string, prepared *plan.Restore) (id string, err error) {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, e := range entries {
		found, ok := strings.CutPrefix(e.Name(), builtPrefix)
		if ok && (id == "" || prepared == nil || found != prepared.ID) {
			id = found
		}
	}
	return id, err
}

// conclude makes the new generation's record the outcome of its proposal: the point of no return. If the proposal is
// leaderless, it first asks every node that runs a member: voters that were named lost may have elected a leader since
// the last gossip, and it may not have read the proposal yet.
func (rs *restorer) conclude(ctx context.Context, o plan.Observation, a plan.Action) error {
	defer rs.generations.ask()
	rs.world.Step("before-conclude")
	if a.Record.Restore.Led == nil {
		if node := rs.peers.anyLed(ctx, o, a.Record.Parent()); node != "" {
			rs.lg.Warn("not concluding the "+a.Record.Restore.Title()+": a member has a leader", zap.String("node", node))
			return errNotYet
		}
	}
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := rs.world.Store.Conclude(ctx, *a.Record); errors.Is(err, plan.ErrConflict) {
		rs.lg.Warn("the "+a.Record.Restore.Title()+" was not concluded", zap.Error(err))
		return errNotYet // the next look at the store shows what became of it
	} else if err != nil {
		return fmt.Errorf("conclude the %s: %w", a.Record.Restore.Title(), err)
	}
	rs.world.Step("after-conclude")
	rs.lg.Warn("concluded the "+a.Record.Restore.Title(), zap.String("record", a.Record.Token()))
	return nil
}

// enter leaves the old generation: a disk in a record votes in no older one. Nothing is handed over, because all other
// members leave as well, and what this one would still acknowledge would be missing from the next generation.
func (rs *restorer) enter(ctx context.Context, a plan.Action) error {
	rs.world.Step("before-enter-stop")
	if err := rs.world.Etcd.Stop(ctx, 0); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	rs.world.Step("after-enter-stop")
	return rs.holding.record(a)
}

// swap puts what was built in the place of the old generation's data. It can be repeated after a crash at any line:
// data that is renamed already has the new cluster ID in its log.
func (rs *restorer) swap(a plan.Action) error {
	path, r := rs.holding.now().id.Path, a.Record
	built, etcd := filepath.Join(path, builtPrefix+r.ID), filepath.Join(path, EtcdDir)
	rs.world.Step("before-swap-aside")
	data, err := rs.world.Etcd.Inspect(etcd)
	if err != nil {
		return fmt.Errorf("inspect the data in use: %w", err)
	}
	_, id, err := rs.world.Etcd.FounderIDs(*r)
	if err != nil {
		return err
	}
	if !data.WAL || data.ClusterID != id {
		if _, err := os.Stat(built); err != nil {
			return fmt.Errorf("what was built for %s is gone from the volume: %w", r.Token(), err)
		}
		reason := "restored"
		if r.Cause == plan.Recovered {
			reason = "recovered"
		}
		if err := rs.holding.asideEtcd(reason); err != nil {
			return err
		}
		rs.world.Step("before-swap-rename")
		if err := os.Rename(built, etcd); err != nil {
			return fmt.Errorf("put what was built in its place: %w", err)
		}
	}
	if err := durable.SyncDir(path); err != nil {
		return fmt.Errorf("put what was built in its place: %w", err)
	}
	rs.holding.built("")
	rs.world.Step("after-swap-rename")
	return rs.holding.record(a)
}
