package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	freshRestore = time.Minute      // how old the last backup may be before a restore
	freshMember  = 5 * time.Minute  // and before a change of the members
	saveRestore  = 2 * time.Minute  // how long making a backup may take before a restore
	saveMember   = 30 * time.Second // and before a change of the members
)

// saver makes sure that there is a recent backup before a change of the cluster.
type saver struct {
	env

	mu      sync.Mutex
	unsaved string    // why no backup was made before the last change
	tried   time.Time // when that was found; zero for a restore, before which no later backup leads back
	failed  string    // the restore before which none was made, "" for a change of the members
	retry   time.Time // when the next attempt before it may be made
}

// problem is why no backup could be made before the last change, "" if one was. A later backup makes up for one that is
// missing before a change of the members.
func (s *saver) problem() string {
	s.mu.Lock()
	unsaved, tried := s.unsaved, s.tried
	s.mu.Unlock()
	if unsaved != "" && !tried.IsZero() && s.world.Backups.Made().After(tried) {
		return ""
	}
	return unsaved
}

// fresh makes sure that there is a recent backup before something that changes the cluster: the restore with this ID,
// or with "" a change of the members. A failure is shown, but stops nothing: a store that does not answer must not keep
// a slot from its disk, and a restore deletes nothing.
func (s *saver) fresh(ctx context.Context, restore string, within, wait time.Duration) {
	s.mu.Lock()
	again := restore != s.failed || time.Now().After(s.retry)
	s.mu.Unlock()
	if !again {
		return
	}
	before := "change of the members"
	if restore != "" {
		before = "restore"
	}
	bound, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := s.world.Backups.Fresh(bound, within)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	s.unsaved, s.tried, s.failed, s.retry = "", time.Time{}, restore, time.Time{}
	if err != nil {
		now := time.Now()
		s.unsaved, s.retry = fmt.Sprintf("no backup could be made before the last %s: %v", before, err), now.Add(freshMember)
		if restore == "" {
			s.tried = now
		}
	}
	s.mu.Unlock()
	if err != nil {
		s.lg.Error("could not make a backup; continued without one", zap.String("before", before), zap.Error(err))
	}
}
