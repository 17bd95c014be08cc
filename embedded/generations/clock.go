package generations

import (
	"time"

	"holdfast/embedded/health"
)

// How far this process's clock differs from the store's (R21). Nothing is decided by it; but a clock that is far off
// makes certificates invalid, misleads anyone who reads logs and backups, and most often means that nothing sets it.
//
// It is measured by what is put into the store anyway: the listing that follows tells the store's time of it. Each
// process puts its nonce again every hour for that, and every minute while its clock is off, so that the cure is seen:
// one PUT, and one GET by every other node. The leader's beacon, put every ten seconds, is measured as well, but is no
// proof, for another leader may have put its own since: where it does not fit with what is known, the nonce is put
// again.

const (
	measureEvery = time.Hour
	measureAgain = time.Minute
	// clockResolution is that of a store's times: S3's are of whole seconds.
	clockResolution = time.Second
	// clockTolerance is how much more than the uncertainty a clock may differ.
	clockTolerance = 5 * time.Second
)

// sent is when this process put an object.
type sent struct {
	name  string
	began time.Time
	took  time.Duration
}

// drift is how far this process's clock differs from the store's.
type drift struct {
	difference  time.Duration // positive: it is ahead of the store's
	uncertainty time.Duration
}

// against compares the time at which an object was put with the one that the store has of it.
func (s sent) against(stored time.Time) drift {
	return drift{s.began.Add(s.took / 2).Round(0).Sub(stored), s.took + clockResolution}
}

// off reports whether the difference is more than can be explained.
func (s drift) off() bool { return s.difference.Abs() > s.uncertainty+clockTolerance }

// clockwork is what is known of the clock. The lock of encounters guards it.
type clockwork struct {
	here, beacon *sent // that no listing was compared with yet
	measured     time.Time
	now          *drift // nil: it was not measured yet
	again        bool   // to be measured at the next look
}

// due reports whether the nonce is to be put again.
func (c *clockwork) due() bool {
	every := measureEvery
	if c.now != nil && c.now.off() {
		every = measureAgain
	}
	return c.again || c.here == nil && time.Since(c.measured) >= every
}

// listed compares what was put with a listing. Only one that began after that tells the store's time of it. ours
// reports whether what lies at a name is what this process has put.
func (c *clockwork) listed(l listing, ours func(name string) bool) {
	if s := c.here; s != nil && l.asked.After(s.began.Add(s.took)) {
		for _, o := range l.here {
			if o.Name == s.name && ours(o.Name) && !o.Modified.IsZero() {
				c.now, c.measured = new(s.against(o.Modified)), time.Now()
			}
		}
		c.here = nil
	}
	if s := c.beacon; s != nil && l.asked.After(s.began.Add(s.took)) {
		if l.beacon.Name == s.name && c.now != nil && s.against(l.beacon.Modified).off() != c.now.off() {
			c.again = true
		}
		c.beacon = nil
	}
}

// timed puts an object and notes when.
func timed(name string, put func() error) (*sent, error) {
	began := time.Now()
	if err := put(); err != nil {
		return nil, err
	}
	return &sent{name, began, time.Since(began)}, nil
}

// ClockFinding says that this node's clock differs from the store's, nil if it does not.
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
