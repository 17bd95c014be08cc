package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
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
	hangs := errors.Is(err, ErrNotExamined)
	slow := (err != nil || d.Error != "") && context.Cause(ctx) == late && !hangs
	if cause := context.Cause(ctx); slow { // a finding
		d.Error, err = cause.Error(), nil
	} else if cause != nil && (err != nil || d.Error != "") && !(hangs && cause == late) { // not a finding
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

// drills has the state of a Keeper's drills. Its lock may be taken while the Keeper's is held, never the other way
// round.
type drills struct {
	store   Store
	cluster string
	series  drillSeries
	lg      *zap.Logger

	mu        sync.Mutex
	told      DrillStatus // without the schedule
	known     bool        // the last drill is the store's, as far as this node can know
	attempted time.Time
	tries     int                     // consecutive drills that could not be tried
	urgent    int                     // callers that wait for the turn and do not wait for a drill
	giveWay   context.CancelCauseFunc // ends the drill in progress
}

// lead resets the count on a node that begins to lead.
func (d *drills) lead() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.tries = false, 0
}

// next returns when the next drill is to be attempted, which is in the past if that is not known.
func (d *drills) next(every, retry time.Duration, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tries > 0 {
		return d.attempted.Add(backoff(retry, d.tries))
	}
	return d.due(every, now)
}

// due returns when the next drill is due, which is in the past if that is not known. The caller has mu.
func (d *drills) due(every time.Duration, now time.Time) time.Time {
	switch {
	case !d.known || d.told.Last.Name == "" || d.told.Last.Time.After(now.Add(skew)):
		return time.Time{}
	case d.told.Last.Error != "":
		return d.told.Last.Time.Add(min(every, drillAgain))
	}
	return d.told.Last.Time.Add(every)
}

// made reports whether another node has made the drill that is due at start. That also ends a series of failures.
func (d *drills) made(every time.Duration, start time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !start.Before(d.due(every, start)) {
		return false
	}
	d.tries, d.told.Error = 0, ""
	return true
}

// begin records that a backup is being drilled. If someone waits for the turn, the drill ends at once.
func (d *drills) begin(name string, giveWay context.CancelCauseFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.urgent > 0 {
		giveWay(errGiveWay)
	}
	d.told.Running, d.giveWay = name, giveWay
}

func (d *drills) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told.Running, d.giveWay = "", nil
}

// hurry makes drills end at once until over is called.
func (d *drills) hurry() (over func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.urgent++
	if d.giveWay != nil {
		d.giveWay(errGiveWay)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.urgent--
	}
}

// failed records that a scheduled drill could not be tried. A drill that gave way is simply repeated.
func (d *drills) failed(ctx context.Context, start time.Time, err error) {
	if ctx.Err() != nil || errors.Is(err, errGiveWay) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attempted, d.tries = start, d.tries+1; d.told.Error != err.Error() {
		d.told.Error = err.Error()
		d.lg.Error("restore drill could not be tried", zap.Error(err))
	}
}

// proofTime is how long storing the proof of a drill may take. The drill's own time may already be over.
const proofTime = 30 * time.Second

// prove stores the result of a drill beside the backup. If it is bad, the backup no longer counts.
func (d *drills) prove(ctx context.Context, drill Drill, opt Options) {
	ctx, cancel := context.WithTimeout(ctx, proofTime)
	defer cancel()
	if err := Record(ctx, d.store, drill.Name, drill.proof(opt)); err != nil {
		d.lg.Warn("proof of the restore drill was not stored", zap.String("backup", drill.Name), zap.Error(err))
	}
}

// record makes drill the last one, here and in the store.
func (d *drills) record(ctx context.Context, drill Drill) {
	err := putDrill(ctx, d.store, d.cluster, drill)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told.Last, d.known, d.tries, d.told.Error = drill, true, 0, ""
	d.series.know(drill)
	if err != nil { // the worst case is that another leader repeats the drill
		d.told.Error = fmt.Sprintf("store the result of the drill: %v", err)
		d.lg.Warn("result of the restore drill was not stored", zap.Error(err))
	}
}

// read reads the last drill from the store. A result that cannot be decoded, or is that of another cluster of the same
// name, counts as none and is replaced. So does one from the future: the clock of a node was ahead, and it would hide
// that there are no drills any more.
func (d *drills) read(ctx context.Context, id Identity) error {
	var last Drill
	text, err := readSmall(ctx, d.store, drillObject(d.cluster))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read the result of the last drill: %w", err)
	}
	present := time.Now().Add(skew)
	if err == nil && (json.Unmarshal(text, &last) != nil || last.Time.After(present) ||
		id.foreign(Meta{Cluster: d.cluster, Lineage: last.Lineage})) {
		last = Drill{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if last.Time.After(d.told.Last.Time) || !d.known || d.told.Last.Time.After(present) {
		d.told.Last = last
	}
	d.known = true
	d.series.know(d.told.Last)
	return nil
}

// status returns the status of the drills, without their schedule.
func (d *drills) status() DrillStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}
