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

// The changes of the cluster before which there must be a recent backup.
const (
	beforeRestore = "restore"
	beforeMember  = "change of the members"
)

// saver makes sure that there is a recent backup before a change of the cluster.
type saver struct {
	env

	mu      sync.Mutex
	unsaved string    // why no backup was made before the last change
	tried   time.Time // when that was found; zero for a restore, before which no later backup leads back
	retry   time.Time // when the next attempt may be made
}

// problem is why no backup could be made before the last change, "" if one was. A later backup makes up for one that is
// missing before a change of the members.
func (s *saver) problem() string {
	made := s.world.Backups.Made()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried.IsZero() && made.After(s.tried) {
		return ""
	}
	return s.unsaved
}

// fresh makes sure that there is a recent backup before something that changes the cluster. A failure is shown, but
// stops nothing: a store that does not answer must not keep a slot from its disk, and a restore deletes nothing.
func (s *saver) fresh(ctx context.Context, before string, within, wait time.Duration) {
	s.mu.Lock()
	again := time.Now().After(s.retry)
	s.mu.Unlock()
	if !again {
		return
	}
	bound, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := s.world.Backups.Fresh(bound, within)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	s.unsaved, s.tried = "", time.Time{}
	if err != nil {
		now := time.Now()
		s.unsaved, s.retry = fmt.Sprintf("no backup could be made before the last %s: %v", before, err), now.Add(freshMember)
		if before != beforeRestore {
			s.tried = now
		}
	}
	s.mu.Unlock()
	if err != nil {
		s.lg.Error("could not make a backup; continued without one", zap.String("before", before), zap.Error(err))
	}
}
