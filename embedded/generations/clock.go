package generations

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"holdfast/embedded/health"
)

// This file measures how far this process's clock differs from the store's (R21). Nothing is decided by it. But a clock
// that is far off makes certificates invalid and misleads readers of logs and backups. Most often it means that nothing
// sets the clock.
//
// The measurement uses objects that are put anyway: the next listing shows the store's time of them. For it, each
// process puts its nonce again every hour, and every minute while its clock is off, so that a correction is noticed.
// That costs one PUT, and one GET by every other node. The leader's beacon, put every ten seconds, is measured as well.
// It proves nothing, because another leader may have overwritten it. If it contradicts the last measurement, the nonce
// is put again.

const (
	measureEvery = time.Hour
	measureAgain = time.Minute
	// clockResolution is the resolution of the store's times; S3 uses whole seconds.
	clockResolution = time.Second
	// clockTolerance is how far a clock may be off beyond the uncertainty.
	clockTolerance = 5 * time.Second
)

// sent says when this process put an object.
type sent struct {
	name  string
	began time.Time
	took  time.Duration
}

// drift is how far this process's clock differs from the store's.
type drift struct {
	difference  time.Duration // positive: this process is ahead of the store
	uncertainty time.Duration
}

// against compares the time at which an object was put with the store's time of it.
func (s sent) against(stored time.Time) drift {
	return drift{s.began.Add(s.took / 2).Round(0).Sub(stored), s.took + clockResolution}
}

// off reports whether the difference is larger than the measurement can explain.
func (s drift) off() bool { return s.difference.Abs() > s.uncertainty+clockTolerance }

// clockwork is what is known of the clock. The lock of encounters guards it.
type clockwork struct {
	here, beacon *sent     // put, but not compared with a listing yet
	measured     time.Time // when that was last compared
	wall         time.Time // the same by the wall clock alone
	was          *drift    // what it showed; nil: not measured yet
	again        bool      // measure at the next opportunity
}

// now returns how far this process's clock differs from the store's, nil if that was not measured. If the clock was set
// since, it has left the monotonic one by as much.
func (c *clockwork) now() *drift {
	if c.was == nil {
		return nil
	}
	set := time.Now().Round(0).Sub(c.wall) - time.Since(c.measured)
	return &drift{c.was.difference + set, c.was.uncertainty}
}

// due reports whether the nonce must be put again.
func (c *clockwork) due() bool {
	every := measureEvery
	if now := c.now(); now != nil && now.off() {
		every = measureAgain
	}
	return c.again || c.here == nil && time.Since(c.measured) >= every
}

// listed compares what was put with a listing. Only a listing that began after the put shows the store's time of it.
// ours means that the nonce there is the one that this process put.
func (c *clockwork) listed(l listing, ours bool) {
	if s := c.here; s != nil && l.asked.After(s.began.Add(s.took)) {
		for _, o := range l.here {
			if o.Name == s.name && ours && !o.Modified.IsZero() {
				c.was, c.measured, c.wall = new(s.against(o.Modified)), s.began, s.began.Round(0)
			}
		}
		c.here = nil
	}
	if s := c.beacon; s != nil && l.asked.After(s.began.Add(s.took)) {
		if now := c.now(); l.beacon.Name == s.name && now != nil && s.against(l.beacon.Modified).off() != now.off() {
			c.again = true
		}
		c.beacon = nil
	}
}

// overwrite puts an object that arbitrates nothing, and records when it did so.
func (r *objects) overwrite(ctx context.Context, name string, v any) (*sent, error) {
	data, err := json.Marshal(v)
	began := time.Now()
	if err == nil {
		err = r.Store.Put(ctx, name, bytes.NewReader(data))
	}
	return &sent{name, began, time.Since(began)}, err
}

// ClockFinding returns a finding if this node's clock differs from the store's, otherwise nil.
func ClockFinding(c *health.ClockStatus) []health.Finding {
	if c == nil || !c.Off {
		return nil
	}
	way, by := "ahead of", time.Duration(c.Difference*float64(time.Second)).Round(time.Second)
	if by < 0 {
		way, by = "behind", -by
	}
	return []health.Finding{health.New(health.ClockStore, "", "the clock of this node is %s %s the backup store's", by,
		way)}
}
