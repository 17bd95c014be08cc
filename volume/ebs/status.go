package ebs

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// The states of a claim, in the order in which they follow each other.
const (
	stateIdle      = "idle"      // nothing was tried yet
	stateScanning  = "scanning"  // looks for volumes
	stateStandby   = "standby"   // no volume can be taken; looks again
	stateClaiming  = "claiming"  // has written its claim and lets it settle
	stateAttaching = "attaching" // has requested the attachment, or waits for the device
	statePreparing = "preparing" // checks, formats, mounts and identifies the device
	stateHeld      = "held"
	stateReleasing = "releasing" // unmounts, and detaches if it is given up
	stateLost      = "lost"
)

// States are all states.
var States = []string{stateIdle, stateScanning, stateStandby, stateClaiming, stateAttaching, statePreparing, stateHeld,
	stateReleasing, stateLost}

// Progress is how far a claim is.
type Progress struct {
	State  string
	Volume string
	Why    string
	Since  time.Time
}

// status is shown to people: the progress of the claim, and the problems.
type status struct {
	log *zap.Logger

	mu       sync.Mutex // guards what follows
	progress Progress
	problems map[string]string // by key
}

func newStatus(lg *zap.Logger) *status {
	return &status{log: lg, progress: Progress{State: stateIdle, Since: time.Now()}, problems: map[string]string{}}
}

// at sets the progress of the claim.
func (s *status) at(state, volume, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress.State != state || s.progress.Volume != volume {
		s.progress.Since = time.Now()
	}
	s.progress.State, s.progress.Volume, s.progress.Why = state, volume, why
}

func (s *status) now() Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.progress
}

// problem sets the problem of a key; "" clears it. A new problem is logged.
func (s *status) problem(key, text string) {
	s.mu.Lock()
	before := s.problems[key]
	if text == "" {
		delete(s.problems, key)
	} else {
		s.problems[key] = text
	}
	s.mu.Unlock()
	if text != "" && text != before {
		s.log.Warn(text)
	}
}

// left clears the problems of a volume whose device is not on this machine.
func (s *status) left(vol string) {
	for _, kind := range []string{"unfit ", "second ", "detach ", "delete "} {
		s.problem(kind+vol, "")
	}
}

// failure sets the problem of a key to an error; nil clears it.
func (s *status) failure(key string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.problem(key, text)
}

// wrong returns the problems, ordered by key.
func (s *status) wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, key := range sortedKeys(s.problems) {
		all = append(all, s.problems[key])
	}
	return all
}
