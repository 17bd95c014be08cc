package snapshot

import (
	"errors"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// skew is how far the clocks of two nodes may differ before one takes the other's backups for backups from the future.
	skew = time.Minute
	// maxBackoff is the longest wait after a failure, unless Config.Retry is longer. A daily backup must not wait half a
	// day for a store that is back.
	maxBackoff = time.Hour
)

// schedule says when backups are due. It is pure, and knows no clock.
type schedule struct {
	every time.Duration // 0 for none
	cron  cron.Schedule // instead of every, nil for none
	retry time.Duration
}

// schedule returns the schedule of a configuration that Validate accepts. An invalid cron line is ignored.
func (c Config) schedule() schedule {
	s := schedule{every: c.Every, retry: c.Retry}
	if parsed, err := parseCron(c.Cron); err == nil && c.Cron != "" {
		s.cron = parsed
	}
	return s
}

// off reports whether no backup is ever due.
func (s schedule) off() bool { return s.cron == nil && s.every == 0 }

// next returns when the next backup is due after one made at t.
func (s schedule) next(t time.Time) time.Time {
	if s.cron != nil {
		return s.cron.Next(t.UTC())
	}
	return t.Add(s.every)
}

// retryAt returns when to try again after a number of consecutive failures, the last attempt begun at t. The delay is
// retry, doubled for each failure but the first. It ends at the latest when a backup made at t would be due again.
func (s schedule) retryAt(t time.Time, failures int) time.Time {
	at := t.Add(backoff(s.retry, failures))
	if next := s.next(t); next.Before(at) {
		return next
	}
	return at
}

// overdue reports whether the second backup after one made at t should have been made by now.
func (s schedule) overdue(t, now time.Time) bool { return now.After(s.next(s.next(t))) }

// backoff returns the delay after a number of consecutive failures.
func backoff(retry time.Duration, failures int) time.Duration {
	longest := max(retry, maxBackoff)
	for i := 1; i < failures && retry < longest; i++ {
		retry *= 2
	}
	return min(retry, longest)
}

// parseCron parses a cron(5) line of five fields, or one of @hourly, @daily, @weekly, @monthly and @yearly.
func parseCron(line string) (cron.Schedule, error) {
	switch {
	case strings.Contains(line, "TZ="): // the parser accepts a zone, and panics at some (github.com/robfig/cron v3.0.1)
		return nil, errors.New("the time is always UTC, no other zone can be named")
	case strings.HasPrefix(line, "@every"):
		return nil, errors.New("set snapshot.every instead of @every")
	}
	s, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor).Parse(line)
	if err != nil {
		return nil, err
	}
	if s.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("no such time within five years")
	}
	return s, nil
}
