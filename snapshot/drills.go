package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

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
