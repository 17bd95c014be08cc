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
	"time"

	"go.uber.org/zap"

	"holdfast/embedded/plan"
)

// builtPrefix begins the name of the directory, beside etcd's, in which a restore or a recovery is prepared; its ID
// follows.
const builtPrefix = "restore-"

// propose verifies the backup of a request and proposes its restore. A request that cannot be carried out is
// remembered with the reason for a while: until it is worth another try, the cluster does not go on about it.
func (c *Coordinator) propose(ctx context.Context, o plan.Observation, a plan.Action) error {
	q, parent := *a.Request, o.Store.Record
	if parent == nil {
		return errors.New("the store knows no record to go on from")
	}
	if q.Survivor != "" {
		r := NewRecovery(*parent, o.Store.Attempts, q, o.Member.Revision, c.cfg.RevisionBump)
		return c.put(ctx, r)
	}
	b, err := c.world.Backups.Check(ctx, q.Backup, parent.Lineage(), c.progress)
	c.progress(Progress{})
	if ctx.Err() != nil {
		return errNotYet
	}
	if err != nil {
		c.refuse(q, err)
		return fmt.Errorf("restore for %s: %w", q.By, err)
	}
	last := c.world.Etcd.Revision()
	if last == 0 {
		if last, err = c.world.Backups.Revision(ctx, parent.Lineage()); err != nil {
			return fmt.Errorf("find the last known revision: %w", err)
		}
	}
	r := NewRestore(*parent, o.Store.Attempts, b, last, c.cfg.RevisionBump)
	r.By, r.Command, r.Lost = q.By, q.Command, q.Lost
	r.Slots = o.Founders(parent)
	if o, _ = c.observe(); o.Member.Leader && o.Member.Confirmed { // the configuration asks for it: that is an operator's word
		r.Led = new(c.stand(o))
		// Before it is proposed: else a leader that dies in between leaves a proposal that waits for an operator.
		if err := c.consent(ctx, plan.Consent{Record: parent.ID, Proposal: r.ID, By: q.By}); err != nil {
			return err
		}
	}
	return c.put(ctx, r)
}

// put puts a proposal into the store.
func (c *Coordinator) put(ctx context.Context, r plan.Restore) error {
	defer c.AskStore()
	c.world.Step("before-propose")
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := c.world.Store.Propose(ctx, r); errors.Is(err, ErrConflict) {
		c.lg.Info("another one was proposed first", zap.Error(err))
		return errNotYet
	} else if err != nil {
		return fmt.Errorf("propose the %s: %w", r.Title(), err)
	}
	c.world.Step("after-propose")
	c.lg.Warn("proposed a "+r.Title(), zap.Int64("revision", r.Revision), zap.String("for", r.By))
	return nil
}

// prepare builds, beside etcd's directory, the one that this slot begins the new generation with. The old generation
// serves meanwhile, on the same disk: a failed attempt gives back the room that it has taken, and the next one begins anew.
func (c *Coordinator) prepare(ctx context.Context, o plan.Observation, a plan.Action) error {
	r := *a.Restore
	err := c.build(ctx, o, &r)
	c.progress(Progress{})
	a.Restore = &r
	if err == nil {
		err = c.record(a)
	} else {
		err = errors.Join(err, c.discard(plan.Action{Kind: plan.Discard}))
	}
	if err != nil && ctx.Err() != nil {
		return errNotYet // overtaken, or the end of the process
	}
	c.mu.Lock()
	c.restoring.unable = unable{}
	if err != nil {
		c.restoring.unable = unable{a.Restore.ID, err.Error()}
	}
	c.mu.Unlock()
	return err
}

func (c *Coordinator) build(ctx context.Context, o plan.Observation, r *plan.Restore) error {
	charter := charterOf(o, *r)
	if charter == nil {
		return fmt.Errorf("prepare the %s: generation %d, which it would end, is not known here", r.Title(), r.Generation-1)
	}
	if r.Survivor == "" && o.Member.Leader {
		c.fresh(ctx, "restore", freshRestore, saveRestore)
	}
	if err := c.discard(plan.Action{Kind: plan.Discard}); err != nil {
		return err
	}
	path := c.root()
	dir, err := c.makeBuilt(path, r.ID)
	if err != nil {
		return err
	}
	if r.Survivor != "" {
		return c.buildFromDisk(ctx, o, r, path, dir, charter)
	}
	return c.buildFromBackup(ctx, o, r, path, dir, charter)
}

// buildFromBackup builds a member of a backup.
func (c *Coordinator) buildFromBackup(ctx context.Context, o plan.Observation, r *plan.Restore, path, dir string, charter *plan.Charter) error {
	c.world.Step("before-fetch")
	b, err := c.fetch(ctx, path, r.Backup, c.world.Etcd.Database(dir))
	if err != nil {
		return fmt.Errorf("fetch the backup %s: %w", r.Backup, err)
	}
	c.world.Step("after-fetch")
	if b.Digest != r.Digest {
		return fmt.Errorf("the backup %s has the digest %s, but the restore was proposed for one with %s: the store holds another backup by that name", r.Backup, b.Digest, r.Digest)
	}
	c.progress(Progress{Phase: "building", Total: b.Bytes})
	return c.rebuild(ctx, o, r, dir, foundersOf(*charter, *r))
}

// makeBuilt makes the directory in which a generation's data is built.
func (c *Coordinator) makeBuilt(path, id string) (dir string, err error) {
	dir = filepath.Join(path, builtPrefix+id)
	if err := os.MkdirAll(filepath.Dir(c.world.Etcd.Database(dir)), 0o700); err != nil {
		return "", fmt.Errorf("make room for a restore: %w", err)
	}
	c.built(id)
	return dir, nil
}

// rebuild makes the directory with the database that of a founder of the new generation.
func (c *Coordinator) rebuild(ctx context.Context, o plan.Observation, r *plan.Restore, dir string, peers map[string]string) error {
	born := plan.Record{Cluster: r.Cluster, Generation: r.Generation, ID: r.ID}
	slot := o.Claim.Slot
	err := c.world.Etcd.Rebuild(ctx, dir, Spec{Slot: slot, DataDir: dir, Token: born.Token(), PeerURL: peers[slot], Peers: peers}, r.Bump)
	if err != nil {
		return fmt.Errorf("build the member of slot %s from %s: %w", slot, r.Source(), err)
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("make what was built durable: %w", err)
	}
	c.world.Step("after-build")
	return nil
}

// charterOf returns the charter of the generation that a restore ends, or of the one that it has begun: of both the
// slots and the peer URLs are the same. nil: neither is known.
func charterOf(o plan.Observation, r plan.Restore) *plan.Charter {
	for _, known := range []*plan.Record{o.Disk.Ledger.Record, o.Store.Record} {
		if known != nil && (known.ID == r.Parent() || known.ID == r.ID) {
			return &known.Charter
		}
	}
	return nil
}

// foundersOf returns the peer URLs of the members that a restore begins with.
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

// fetch fetches a backup, unless there is no room for it on the volume.
func (c *Coordinator) fetch(ctx context.Context, volume, name, database string) (b Backup, err error) {
	err = c.whereRoom(ctx, volume, func(ctx context.Context, progress func(Progress)) error {
		b, err = c.world.Backups.Fetch(ctx, name, database, progress)
		return err
	})
	return b, err
}

// whereRoom lets write bring a database to the volume, and ends it when there is no room for the size that it tells with
// its progress.
func (c *Coordinator) whereRoom(ctx context.Context, volume string, write func(context.Context, func(Progress)) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var full error
	checked := false
	err := write(ctx, func(p Progress) {
		if p.Total > 0 && !checked {
			checked = true
			if full = c.world.Etcd.Room(volume, p.Total); full != nil {
				cancel(full)
			}
		}
		c.progress(p)
	})
	return cmp.Or(full, err)
}

// discard makes the disk forget what it has prepared, and removes what was built: in this order, for a disk that says
// it has prepared a restore is counted on.
func (c *Coordinator) discard(a plan.Action) error {
	c.mu.Lock()
	path, prepared := c.path, c.ledger.Prepared != nil
	c.mu.Unlock()
	if prepared {
		if err := c.record(a); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("look for what was built: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), builtPrefix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return fmt.Errorf("remove what was built: %w", err)
		}
	}
	c.built("")
	return syncDir(path)
}

// findBuilt returns the ID of the proposal whose directory lies on the volume: of several, one that is not prepared.
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

// conclude makes the new generation's record the outcome of its proposal: the point of no return.
func (c *Coordinator) conclude(ctx context.Context, a plan.Action) error {
	defer c.AskStore()
	c.world.Step("before-conclude")
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := c.world.Store.Conclude(ctx, *a.Record); errors.Is(err, ErrConflict) {
		c.lg.Warn("the "+a.Record.Restore.Title()+" was not concluded", zap.Error(err))
		return errNotYet // the next look at the store tells what became of it
	} else if err != nil {
		return fmt.Errorf("conclude the %s: %w", a.Record.Restore.Title(), err)
	}
	c.world.Step("after-conclude")
	c.lg.Warn("concluded the "+a.Record.Restore.Title(), zap.String("record", a.Record.Token()))
	return nil
}

// mirror puts our own record into a store that does not have it.
func (c *Coordinator) mirror(ctx context.Context, a plan.Action) error {
	defer c.AskStore()
	ctx, cancel := context.WithTimeout(ctx, storeAge)
	defer cancel()
	if err := c.world.Store.Put(ctx, *a.Record); err != nil {
		return fmt.Errorf("put the record into the store: %w", err)
	}
	return nil
}

// enter leaves the old generation: a disk that is in a record votes in no older one. Nothing is handed over, for all others
// leave it as well, and what it would still acknowledge would not be in the next one.
func (c *Coordinator) enter(ctx context.Context, a plan.Action) error {
	c.world.Step("before-enter-stop")
	if err := c.world.Etcd.Leave(ctx, 0); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	c.world.Step("after-enter-stop")
	return c.record(a)
}

// swap puts what was built in the place of the old generation's data. After a crash at any line it is done again: what
// is renamed already is known by the cluster ID in its log.
func (c *Coordinator) swap(a plan.Action) error {
	path, r := c.root(), a.Record
	built, etcd := filepath.Join(path, builtPrefix+r.ID), filepath.Join(path, EtcdDir)
	c.world.Step("before-swap-aside")
	data, err := c.world.Etcd.Inspect(etcd)
	if err != nil {
		return fmt.Errorf("look whose data is in use: %w", err)
	}
	_, id, err := c.world.Etcd.FounderIDs(*r)
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
		if err := c.asideEtcd(reason); err != nil {
			return err
		}
		c.world.Step("before-swap-rename")
		if err := os.Rename(built, etcd); err != nil {
			return fmt.Errorf("put what was built in its place: %w", err)
		}
	}
	if err := syncDir(path); err != nil {
		return fmt.Errorf("put what was built in its place: %w", err)
	}
	c.built("")
	c.world.Step("after-swap-rename")
	return c.record(a)
}

// fresh makes sure of a backup before something that changes the cluster. That there is none is shown, and stops
// nothing: a store that does not answer must not keep a slot from its disk, and a restore deletes nothing.
func (c *Coordinator) fresh(ctx context.Context, before string, within, wait time.Duration) {
	c.mu.Lock()
	again := time.Now().After(c.restoring.retry)
	c.mu.Unlock()
	if !again {
		return
	}
	bound, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := c.world.Backups.Fresh(bound, within)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	c.restoring.unsaved = ""
	if err != nil {
		c.restoring.unsaved = fmt.Sprintf("no backup could be made before the last %s: %v", before, err)
		c.restoring.retry = time.Now().Add(freshMember)
	}
	c.mu.Unlock()
	if err != nil {
		c.lg.Error("no backup could be made; going on without", zap.String("before", before), zap.Error(err))
	}
}

func (c *Coordinator) root() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.path
}
