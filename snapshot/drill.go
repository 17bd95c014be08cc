package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Drill is the proof that a backup can be restored: it was restored in a separate process and served what was saved.
type Drill struct {
	// Name is the name of the backup. Lineage is the founding of the cluster whose leader made the drill, or "" if it is
	// not known.
	Name    string `json:"name"`
	Lineage string `json:"lineage,omitempty"`
	// Time is when the drill began, Took how long it lasted.
	Time time.Time     `json:"time"`
	Took time.Duration `json:"took"`
	// Revision, CompactRevision and HashKV are what the restored member answered.
	Revision        int64  `json:"revision"`
	CompactRevision int64  `json:"compactRevision"`
	HashKV          uint32 `json:"hashKV"`
	// Compared says that the backup records a HashKV and that it is equal.
	Compared bool `json:"compared"`
	// Checked lists what was compared, in words: the revision, the records, and so on. It is empty if the drill did not
	// get that far.
	Checked []string `json:"checked,omitempty"`
	// Unrecorded says that the backup has no sidecar. The answers were then compared with the content of the database in
	// database in the backup holds, not with what was recorded when it was saved.
	Unrecorded bool `json:"unrecorded,omitempty"`
	// Error says why the backup could not be restored or is not what was saved, or is "".
	Error string `json:"error,omitempty"`
}

const (
	// A drill may last until the next backup is due, but at least minDrill and at most maxDrill.
	minDrill = 5 * time.Minute
	maxDrill = 30 * time.Minute
	// drillAgain is the longest time to the next drill after a failed one, so that an alarm ends soon after its cause.
	drillAgain = time.Hour
)

// errGiveWay ends a drill when a backup is requested.
var errGiveWay = errors.New("a backup was asked for meanwhile: repeat the drill")

// drillAt returns when the next drill is due, which is in the past if that is not known. ok is false if none is
// planned. The caller has mu.
func (k *Keeper) drillAt(now time.Time) (at time.Time, ok bool) {
	if k.restore == nil || k.cfg.NoDrill() != "" || !k.state.known || k.state.told.Newest.Name == "" {
		return time.Time{}, false
	}
	return k.drills.next(k.cfg.Drill, k.cfg.Retry, now), true
}

// scheduledDrill drills the newest backup, unless another node has done so meanwhile.
func (k *Keeper) scheduledDrill(ctx context.Context) {
	release, err := k.turn.wait(ctx)
	if err != nil {
		return // shutting down
	}
	defer release()
	start := time.Now()
	h, err := hold(ctx, k.stores.Main, k.source.Identity(), start.Add(skew))
	if err == nil {
		err = k.drills.read(ctx, k.source.Identity())
	}
	if err != nil {
		k.drills.failed(ctx, start, err)
		return
	}
	k.know(h)
	if cfg, _ := k.plan(); k.drills.made(cfg.Drill, start) || h.Newest.Name == "" {
		return
	}
	d, err := k.drill(ctx, h.Newest.Name)
	if err != nil {
		k.drills.failed(ctx, start, err)
		return
	}
	k.drills.record(ctx, d)
}

// drill drills a backup and returns the result. The caller has the turn.
func (k *Keeper) drill(ctx context.Context, name string) (Drill, error) {
	start := time.Now()
	ctx, giveWay := context.WithCancelCause(ctx)
	defer giveWay(nil)
	k.mu.Lock()
	limit := min(maxDrill, max(minDrill, k.schedule.next(k.state.told.made.Created).Sub(start)))
	if k.schedule.off() {
		limit = maxDrill
	}
	k.mu.Unlock()
	k.drills.begin(name, giveWay)
	defer k.drills.end()
	late := fmt.Errorf("it had not ended after %s", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	if err := context.Cause(ctx); err != nil {
		return Drill{}, fmt.Errorf("drill backup %s: %w", name, err)
	}

	d, err := k.restore(ctx, name)
	slow := (err != nil || d.Error != "") && context.Cause(ctx) == late
	if cause := context.Cause(ctx); slow { // a finding
		d.Error, err = cause.Error(), nil
	} else if cause != nil && (err != nil || d.Error != "") { // not a finding
		k.series.drill.total.WithLabelValues(resultInterrupted).Inc()
		return Drill{}, fmt.Errorf("drill backup %s: %w", name, cause)
	}
	if err != nil {
		k.series.drill.total.WithLabelValues(resultUntried).Inc()
		return Drill{}, fmt.Errorf("drill backup %s: %w", name, err)
	}
	d.Name, d.Lineage, d.Time, d.Took = name, k.source.Identity().Lineage, start.UTC(), time.Since(start)
	if !slow { // a slow machine proves nothing against the backup
		k.drills.prove(context.WithoutCancel(ctx), d, k.opt)
	}
	if d.Error != "" {
		k.series.drill.total.WithLabelValues(resultFailed).Inc()
		k.lg.Error("backup failed its restore drill", zap.String("backup", name), zap.String("error", d.Error))
		return d, nil
	}
	k.series.drill.total.WithLabelValues(resultPassed).Inc()
	k.lg.Info("restored backup in a drill", zap.String("backup", name), zap.Int64("revision", d.Revision),
		zap.Bool("hashCompared", d.Compared), zap.Duration("took", d.Took))
	return d, nil
}

// RecordDrill stores the result of a drill that no Keeper made: beside the backup and, if that is the newest of the
// cluster, also as the last drill, from which the schedule counts.
func RecordDrill(ctx context.Context, store Store, id Identity, d Drill, opt Options) error {
	d.Lineage = id.Lineage
	backups, err := List(ctx, store, id)
	if err != nil {
		return err
	}
	err = Record(ctx, store, d.Name, d.proof(opt))
	if newest, ok := newest(backups, time.Now()); ok && newest.Name == d.Name && id.Cluster != "" {
		err = errors.Join(err, putDrill(ctx, store, id.Cluster, d))
	}
	return err
}

// putDrill makes d the last drill in the store.
func putDrill(ctx context.Context, store Store, cluster string, d Drill) error {
	text, err := encodeLine("drill.json", d)
	if err == nil {
		err = store.Put(ctx, drillObject(cluster), bytes.NewReader(text))
	}
	return err
}

// drillObject is the name of the object with the last drill.
func drillObject(cluster string) string { return holdfastDir + "/" + cluster + "/drill.json" }

// urgent waits for the turn as wait does, but also ends a drill in progress.
func (k *Keeper) urgent(ctx context.Context) (release func(), err error) {
	defer k.drills.hurry()()
	return k.turn.wait(ctx)
}
