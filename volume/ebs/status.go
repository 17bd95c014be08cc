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
	stateStandby   = "standby"   // there is none to take; looks again
	stateClaiming  = "claiming"  // has written its claim and lets it settle
	stateAttaching = "attaching" // has asked for the attachment, or waits for the device
	statePreparing = "preparing" // checks, formats, mounts, identifies
	stateHeld      = "held"
	stateReleasing = "releasing" // unmounts, and detaches if it is given up
	stateLost      = "lost"
)

// States are all of them.
var States = []string{stateIdle, stateScanning, stateStandby, stateClaiming, stateAttaching, statePreparing, stateHeld,
	stateReleasing, stateLost}

// Progress is how far the claim is.
type Progress struct {
	State  string    `json:"state"`
	Volume string    `json:"volume,omitempty"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since"`
}

// status is what people are shown: how far the claim is, and what is wrong.
type status struct {
	log *zap.Logger

	mu       sync.Mutex // guards what follows
	progress Progress
	problems map[string]string // by key
}

func newStatus(lg *zap.Logger) *status {
	return &status{log: lg, progress: Progress{State: stateIdle, Since: time.Now()}, problems: map[string]string{}}
}

// at says how far the claim is.
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

// problem shows what is wrong under a key; "" settles it. A new problem is logged.
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

// failure is problem with the text of an error; nil settles it.
func (s *status) failure(key string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.problem(key, text)
}

// wrong is what is wrong, by key.
func (s *status) wrong() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, key := range sortedKeys(s.problems) {
		all = append(all, s.problems[key])
	}
	return all
}
