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

// drills is what a Keeper knows of its drills. Its lock may be taken under the Keeper's, never the other way round.
type drills struct {
	store   Store
	cluster string
	series  drillSeries
	lg      *zap.Logger

	mu        sync.Mutex
	known     bool // last is the store's, as far as we can know
	last      Drill
	attempted time.Time
	tries     int // drills that could not be tried, in a row
	lastError string
	urgent    int                     // who waits for the turn and does not wait for a drill
	running   string                  // the backup that is being drilled
	giveWay   context.CancelCauseFunc // ends that drill
}

// lead starts the count again, on a node that leads from now on.
func (d *drills) lead() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.tries = false, 0
}

// next returns when the next drill is to be attempted, the past if that is not known.
func (d *drills) next(every, retry time.Duration, now time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tries > 0 {
		return d.attempted.Add(backoff(retry, d.tries))
	}
	return d.due(every, now)
}

// due returns when the next drill is due, the past if that is not known. The caller has mu.
func (d *drills) due(every time.Duration, now time.Time) time.Time {
	switch {
	case !d.known || d.last.Name == "" || d.last.Time.After(now.Add(skew)):
		return time.Time{}
	case d.last.Error != "":
		return d.last.Time.Add(min(every, drillAgain))
	}
	return d.last.Time.Add(every)
}

// made reports whether the drill that is due at start was made meanwhile, by another node: then the failures are over.
func (d *drills) made(every time.Duration, start time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !start.Before(d.due(every, start)) {
		return false
	}
	d.tries, d.lastError = 0, ""
	return true
}

// begin notes the drill of a backup, which ends at once where somebody waits for the turn, and end its end.
func (d *drills) begin(name string, giveWay context.CancelCauseFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.urgent > 0 {
		giveWay(errGiveWay)
	}
	d.running, d.giveWay = name, giveWay
}

func (d *drills) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running, d.giveWay = "", nil
}

// hurry has a drill give way until the function that it returns is called.
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

// failed records that a drill of the schedule could not be tried. One that gave way is simply repeated.
func (d *drills) failed(ctx context.Context, start time.Time, err error) {
	if ctx.Err() != nil || errors.Is(err, errGiveWay) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attempted, d.tries = start, d.tries+1; d.lastError != err.Error() {
		d.lastError = err.Error()
		d.lg.Error("restore drill could not be tried", zap.Error(err))
	}
}

// proofTime is how long storing the proof of a drill may take, whose own time may be over.
const proofTime = 30 * time.Second

// prove stores what a drill found beside the backup. A bad one does not count any more from now on.
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
	d.last, d.known, d.tries, d.lastError = drill, true, 0, ""
	d.series.know(drill)
	if err != nil { // another leader would only drill once more
		d.lastError = fmt.Sprintf("store the result of the drill: %v", err)
		d.lg.Warn("result of the restore drill was not stored", zap.Error(err))
	}
}

// read reads the last drill from the store. What cannot be understood, or was another cluster's of our name, proves
// nothing of our backups and is as if there were none: it is replaced.
func (d *drills) read(ctx context.Context, id Identity) error {
	var last Drill
	text, err := readSmall(ctx, d.store, drillObject(d.cluster))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("read the result of the last drill: %w", err)
	}
	if err == nil && (json.Unmarshal(text, &last) != nil || id.foreign(Meta{Cluster: d.cluster, Lineage: last.Lineage})) {
		last = Drill{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if last.Time.After(d.last.Time) || !d.known {
		d.last = last
	}
	d.known = true
	d.series.know(d.last)
	return nil
}

// status is the account of the drills but for their schedule.
func (d *drills) status() DrillStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return DrillStatus{Last: d.last, Running: d.running, Error: d.lastError}
}
