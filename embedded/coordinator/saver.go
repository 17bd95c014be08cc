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
	retry   time.Time // when the next attempt may be made
}

// problem is why no backup could be made before the last change, "" if one was.
func (s *saver) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.unsaved = ""
	if err != nil {
		s.unsaved = fmt.Sprintf("no backup could be made before the last %s: %v", before, err)
		s.retry = time.Now().Add(freshMember)
	}
	s.mu.Unlock()
	if err != nil {
		s.lg.Error("could not make a backup; continued without one", zap.String("before", before), zap.Error(err))
	}
}
