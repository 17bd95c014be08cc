package node

import (
	"context"
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
	// roomEvery is the shortest time between two questions to a file system. Within two of them, a cloud's usual disk
	// (125 MB/s) gets 50 MB more, less than half of the smallest reserve.
	roomEvery = 200 * time.Millisecond
	// roomRest is the longest time between two questions about the volume. It is taken only where even roomSpeed, in
	// bytes a second, would not use up what is free beyond the reserve: no disk writes as fast.
	roomRest  = 2 * time.Second
	roomSpeed = 10 << 30
	// roomAge is how long an answer counts.
	roomAge = 10 * time.Second
)

// errRoomUnasked is the error until a file system has answered the first time.
var errRoomUnasked = errors.New("it has not answered yet")

// rooms keeps how much room is on the file systems that this node writes to. A disk that hangs does not answer. So each
// file system is asked in the background, one question at a time, and nothing waits for the answer.
type rooms struct {
	spool, scratch string
	statfs         func(path string) (fileSystem, error)

	mu     sync.Mutex
	volume string // path of the held volume
	seen   map[string]*sampled
}

// fileSystem is the answer of a file system.
type fileSystem struct {
	plan.Room
	id unix.Fsid
}

// sampled is the last answer of a file system.
type sampled struct {
	fileSystem
	err    error
	at     time.Time // of the last answer
	asked  time.Time // of the last question
	asking bool      // the last question has no answer yet
}

func newRooms(spool, scratch string) *rooms {
	return &rooms{spool: spool, scratch: scratch, statfs: roomAt, seen: map[string]*sampled{}}
}

// roomAt asks the file system at path.
func roomAt(path string) (fileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fileSystem{}, err
	}
	block := int64(st.Bsize)
	return fileSystem{plan.Room{Free: int64(st.Bavail) * block, Size: int64(st.Blocks) * block}, st.Fsid}, nil
}

// on returns the last answer of the file system at path, and asks again in the background.
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

// all returns the rooms that the coordinator observes. volume is the path of the held volume.
func (r *rooms) all(volume string) (all coordinator.Rooms) {
	r.mu.Lock()
	r.volume = volume
	r.mu.Unlock()
	for to, path := range map[*plan.Room]string{&all.Volume: volume, &all.Spool: r.spool, &all.Scratch: r.scratch} {
		if path != "" {
			f, _ := r.on(path) // on an error the size is 0, which means unknown
			*to = f.Room
		}
	}
	return all
}

// untilRoom returns when to ask again. At roomSpeed, the reserve must not be reached before two more answers, because
// watch reads the answer to the question before.
func untilRoom(r plan.Room) time.Duration {
	spare := time.Duration((r.Free-r.Reserve())/(2*roomSpeed/1000)) * time.Millisecond
	return min(max(spare, roomEvery), roomRest)
}

// watch asks about the held volume until ctx ends, and calls look as soon as less than the reserve is free. On a fast
// disk, etcd can use up the reserve in seconds.
func (r *rooms) watch(ctx context.Context, look func()) error {
	timer := time.NewTimer(roomEvery)
	defer timer.Stop()
	for short := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		r.mu.Lock()
		volume := r.volume
		r.mu.Unlock()
		if volume == "" {
			timer.Reset(roomEvery)
			continue
		}
		room, _ := r.on(volume) // an unknown room is not short
		timer.Reset(untilRoom(room.Room))
		before := short
		if short = room.Short(before); short && !before {
			look()
		}
	}
}

// tell adds the file systems to a checkup: the volume's first, and each file system only once.
func (r *rooms) tell(c *health.Checkup, s coordinator.Situation) {
	told := map[unix.Fsid]bool{}
	look := func(path string) (*plan.Room, error) {
		f, err := r.on(path)
		if err != nil || told[f.id] {
			return nil, err
		}
		told[f.id] = true
		return &f.Room, nil
	}
	if s.Observation.Claim.Held {
		room, err := look(s.Volume.Path)
		if err != nil {
			c.RoomErr = err.Error()
		} else { // with the reserve on which the coordinator decided
			decided := s.Rooms.Volume
			c.Room = &health.VolumeRoom{Room: *room, Reserve: decided.Reserve(), Enough: decided.Enough(),
				Short: s.Observation.Claim.Short}
		}
	}
	if r.spool != "" {
		c.Spool, _ = look(r.spool) // if the spool does not answer, the backups fail and say why
	}
	if r.scratch != "" {
		c.Scratch, _ = look(r.scratch)
	}
}
