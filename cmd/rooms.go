package cmd

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

const (
	// roomEvery is how often a file system is asked, at most: a fast disk has 50 MB more on it by the next answer
	// but one.
	roomEvery = 200 * time.Millisecond
	// roomAge is how long an answer counts.
	roomAge = 10 * time.Second
)

// errRoomUnasked: a file system has been asked, and had no time to answer yet.
var errRoomUnasked = errors.New("it has not answered yet")

// rooms knows how much room the file systems have that this node writes to. A disk that hangs does not answer at all:
// each is asked one question at a time, and nobody waits for the answer.
type rooms struct {
	spool, scratch string
	statfs         func(path string) (fileSystem, error)

	mu     sync.Mutex
	volume string // of the held volume
	seen   map[string]*sampled
}

// fileSystem is what a file system says of itself.
type fileSystem struct {
	plan.Room
	id unix.Fsid
}

// sampled is what a file system has answered last.
type sampled struct {
	fileSystem
	err    error
	at     time.Time // of the answer
	asked  time.Time // the last question
	asking bool      // it has no answer yet
}

// on is what the file system at path has said lately.
func (r *rooms) on(path string) (fileSystem, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, now := r.seen[path], time.Now()
	if s == nil {
		s = &sampled{err: errRoomUnasked, at: now}
		r.seen[path] = s
	}
	if !s.asking && now.Sub(s.asked) >= roomEvery {
		s.asking, s.asked = true, now
		go r.ask(path, s)
	}
	err := s.err
	if now.Sub(s.at) > roomAge {
		err = fmt.Errorf("no answer for %s", now.Sub(s.at).Round(time.Second))
	}
	if err != nil {
		return fileSystem{}, fmt.Errorf("look for room on %s: %w", path, err)
	}
	return s.fileSystem, nil
}

func (r *rooms) ask(path string, s *sampled) {
	answer, err := r.statfs(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	s.fileSystem, s.err, s.at, s.asking = answer, err, time.Now(), false
}

// tell adds to a checkup what is judged of the file systems: each of them once, and the volume's first.
func (r *rooms) tell(c *health.Checkup, s coordinator.Situation) {
	told := map[unix.Fsid]bool{}
	look := func(path string) (*health.Room, error) {
		f, err := r.on(path)
		if err != nil || told[f.id] {
			return nil, err
		}
		told[f.id] = true
		return &health.Room{Free: f.Free, Total: f.Size}, nil
	}
	if s.Observation.Claim.Held {
		room, err := look(s.Path)
		if err != nil {
			c.RoomErr = err.Error()
		} else { // as it was decided upon
			room.Reserve, room.Enough = s.Rooms.Volume.Reserve(), s.Rooms.Volume.Enough()
			room.Short = s.Observation.Claim.Short
		}
		c.Room = room
	}
	if r.spool != "" {
		c.Spool, _ = look(r.spool) // where it does not answer, backups fail and say why
	}
	if r.scratch != "" {
		c.Scratch, _ = look(r.scratch)
	}
}
