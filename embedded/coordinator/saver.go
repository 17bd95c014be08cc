package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	freshRestore = time.Minute      // how old the backup may be that is made sure of before a restore
	freshMember  = 5 * time.Minute  // and before a member is replaced
	saveRestore  = 2 * time.Minute  // how long that may take before a restore
	saveMember   = 30 * time.Second // and before a member is replaced
)

// saver makes sure of a backup before a change of the cluster.
type saver struct {
	env

	mu      sync.Mutex
	unsaved string    // why no backup was made before the last change
	retry   time.Time // when a backup is tried again before a change
}

// problem is why no backup was made before the last change, "" if one was.
func (s *saver) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved
}

// fresh makes sure of a backup before something that changes the cluster. That there is none is shown, and stops
// nothing: a store that does not answer must not keep a slot from its disk, and a restore deletes nothing.
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
	s.unsaved = ""
	if err != nil {
		s.unsaved = fmt.Sprintf("no backup could be made before the last %s: %v", before, err)
		s.retry = time.Now().Add(freshMember)
	}
	s.mu.Unlock()
	if err != nil {
		s.lg.Error("no backup could be made; going on without", zap.String("before", before), zap.Error(err))
	}
}
