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
	"holdfast/metrics"
)

const (
	// roomEvery is how often a file system is asked, at most: a fast disk has 50 MB more on it by the next answer
	// but one.
	roomEvery = 200 * time.Millisecond
	// roomRest is how often a volume is asked at least, and roomSpeed how many bytes a second are written to one at most.
	roomRest  = 2 * time.Second
	roomSpeed = 10 << 30
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

// all is what the coordinator observes.
func (r *rooms) all(volume string) (all coordinator.Rooms) {
	r.mu.Lock()
	r.volume = volume
	r.mu.Unlock()
	for to, path := range map[*plan.Room]string{&all.Volume: volume, &all.Spool: r.spool, &all.Scratch: r.scratch} {
		if path != "" {
			f, _ := r.on(path) // what is not known has no size
			*to = f.Room
		}
	}
	return all
}

// untilRoom is when to ask again: long before the reserve can be reached, for the next answer is used only after the
// one that is under way.
func untilRoom(r plan.Room) time.Duration {
	spare := time.Duration((r.Free-r.Reserve())/(2*roomSpeed/1000)) * time.Millisecond
	return min(max(spare, roomEvery), roomRest)
}

// watch asks about the held volume until ctx ends, and calls look as soon as less than its reserve is free: at the
// speed of a fast disk etcd uses that up in seconds.
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
		room, _ := r.on(volume) // what is not known changes nothing
		timer.Reset(untilRoom(room.Room))
		before := short
		if short = room.Short(before); short && !before {
			look()
		}
	}
}

// tell adds to a checkup what is judged of the file systems: each of them once, and the volume's first.
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
		} else { // as it was decided upon
			decided := s.Rooms.Volume
			c.Room = &health.VolumeRoom{Room: *room, Reserve: decided.Reserve(), Enough: decided.Enough(),
				Short: s.Observation.Claim.Short}
		}
	}
	if r.spool != "" {
		c.Spool, _ = look(r.spool) // where it does not answer, backups fail and say why
	}
	if r.scratch != "" {
		c.Scratch, _ = look(r.scratch)
	}
}

// roomSample adds what is exported of the file systems.
func roomSample(to *metrics.Sample, s coordinator.Situation) {
	disk := func(r plan.Room) metrics.Disk { return metrics.Disk{Free: r.Free, Size: r.Size} }
	to.Disks = metrics.Disks{Volume: disk(s.Rooms.Volume), Spool: disk(s.Rooms.Spool), Scratch: disk(s.Rooms.Scratch)}
	to.Disks.Volume.Reserve = s.Rooms.Volume.Reserve()
}
