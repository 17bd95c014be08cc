package node

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// A disk that hangs is asked once, and nobody waits for it.
func TestRoomOfHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, asked := make(chan fileSystem), 0
		r := newRooms("", "")
		r.statfs = func(string) (fileSystem, error) { asked++; return <-answers, nil }
		look := func() (fileSystem, error) {
			defer synctest.Wait()
			return r.on("/volume")
		}
		if _, err := look(); err == nil || !strings.Contains(err.Error(), "not answered yet") {
			t.Errorf("before the first answer: %v", err)
		}
		want := fileSystem{Room: plan.Room{Free: 1, Size: 2}}
		answers <- want
		synctest.Wait()
		if got, err := look(); got != want || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
		if asked != 1 {
			t.Errorf("asked %d times at once", asked)
		}
		for range 60 {
			time.Sleep(time.Second)
			look()
		}
		if got, err := look(); err == nil || !strings.Contains(err.Error(), "/volume: no answer for 1m0s") || got.Size != 0 {
			t.Errorf("a disk that hangs: %v, %v", got, err)
		}
		if asked != 2 {
			t.Errorf("asked %d times, want twice", asked)
		}
		want.Free = 0
		answers <- want
		synctest.Wait()
		if got, err := r.on("/volume"); got != want || err != nil {
			t.Errorf("after its answer: %v, %v", got, err)
		}
		synctest.Wait()
		answers <- want
	})
}

func TestRooms(t *testing.T) {
	r, dir := newRooms("", t.TempDir()), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r.all(dir)
		synctest.Wait()
		got := r.all(dir)
		if got.Volume.Size == 0 || got.Volume.Free > got.Volume.Size || got.Scratch.Size == 0 || got.Spool.Size != 0 {
			t.Errorf("got %+v", got)
		}
		if r.all("").Volume.Size != 0 {
			t.Error("without a volume there is room on it")
		}
	})
}

// Each file system is judged once, and the volume's as it was decided upon.
func TestRoomsTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRooms("/spool", "/scratch")
		files := map[string]fileSystem{
			"/volume":  {plan.Room{Free: 41 << 20, Size: 512 << 20}, unix.Fsid{Val: [2]int32{1}}},
			"/spool":   {plan.Room{Free: 1, Size: 2}, unix.Fsid{Val: [2]int32{2}}},
			"/scratch": {plan.Room{Free: 3, Size: 4}, unix.Fsid{Val: [2]int32{3}}},
		}
		r.statfs = func(path string) (fileSystem, error) { return files[path], nil }
		s := coordinator.Situation{Volume: plan.Volume{Path: "/volume"}, Rooms: coordinator.Rooms{Volume: files["/volume"].Room}}
		s.Observation.Claim.Held, s.Observation.Claim.Short = true, true
		tell := func() (c health.Checkup) {
			r.tell(new(health.Checkup), s) // asks
			synctest.Wait()
			r.tell(&c, s)
			time.Sleep(roomEvery)
			return c
		}
		c := tell()
		if want := (health.VolumeRoom{Room: plan.Room{Free: 41 << 20, Size: 512 << 20}, Reserve: 128 << 20, Enough: 192 << 20, Short: true}); c.Room == nil || *c.Room != want {
			t.Errorf("got %+v, want %+v", c.Room, want)
		}
		if c.Spool == nil || c.Scratch == nil || *c.Spool != (plan.Room{Free: 1, Size: 2}) || *c.Scratch != (plan.Room{Free: 3, Size: 4}) {
			t.Errorf("spool %+v, scratch %+v", c.Spool, c.Scratch)
		}
		files["/spool"], files["/scratch"] = files["/volume"], files["/volume"]
		if c = tell(); c.Room == nil || c.Spool != nil || c.Scratch != nil {
			t.Errorf("one file system is told of more than once: %+v", c)
		}
		s.Observation.Claim.Held = false
		if c = tell(); c.Room != nil || c.Spool == nil || c.Scratch != nil {
			t.Errorf("without a volume: %+v", c)
		}
	})
}

// The coordinator is told at once when the reserve is used up, and once.
func TestRoomsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free, looks atomic.Int64
		free.Store(200)
		r := newRooms("", "")
		r.statfs = func(string) (fileSystem, error) {
			return fileSystem{Room: plan.Room{Free: free.Load() << 20, Size: 4 << 30}}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.watch(ctx, func() { looks.Add(1) })
		for _, step := range []struct {
			free  int64 // MiB
			looks int64
		}{{200, 0}, {127, 1}, {20, 1}, {191, 1}, {127, 1}, {192, 1}, {127, 2}} {
			free.Store(step.free)
			r.all("/volume")
			time.Sleep(3 * roomEvery)
			if got := looks.Load(); got != step.looks {
				t.Errorf("%d MiB free: looked %d times, want %d", step.free, got, step.looks)
			}
		}
		cancel()
	})
}

// A volume with much room is asked seldom, and one that fills up often enough to notice it before it is full.
func TestRoomsWatchFilling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const speed = 1 << 30 // bytes a second
		room := plan.Room{Free: 100 << 30, Size: 200 << 30}
		var asked atomic.Int64
		var filling atomic.Pointer[time.Time] // since when
		left := func() plan.Room {
			now := room
			if since := filling.Load(); since != nil {
				now.Free = max(0, room.Free-int64(time.Since(*since).Seconds()*speed))
			}
			return now
		}
		r := newRooms("", "")
		r.statfs = func(string) (fileSystem, error) { asked.Add(1); return fileSystem{Room: left()}, nil }
		r.all("/volume")
		ctx, cancel := context.WithCancel(t.Context())
		noticed := make(chan plan.Room, 1)
		go r.watch(ctx, func() { noticed <- left() })
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, most := asked.Load(), int64(time.Minute/roomRest)+3; got > most {
			t.Errorf("asked %d times a minute, want at most %d", got, most)
		}
		begin := time.Now()
		filling.Store(&begin)
		if now := <-noticed; now.Free < now.Reserve()/2 {
			t.Errorf("noticed when %d MiB were free, of a reserve of %d", now.Free>>20, now.Reserve()>>20)
		}
		cancel()
	})
}
