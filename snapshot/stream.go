package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

const (
	// chunkSize is the number of bytes that pass from one goroutine, and thread, to the next at a time.
	chunkSize = 512 << 10
	// fanChunks is how many chunks are under way in one fan: enough to bridge a sync of the disk.
	fanChunks = 8
)

// fan writes to several writers at once, to each from a goroutine of its own, so that reading, hashing, compressing and
// writing share the cores there are. It copies what it is given into chunks that it recycles; each but the last is one
// Write of chunkSize bytes. When one writer fails the others get nothing more, and Write and Close return its error. A
// writer that waits for another one of its fan must not wait for one that failed: that one gets nothing more. A writer
// that hangs can be left behind, with the chunk that it is at. After Close, a Write blocks for good.
type fan struct {
	lanes []chan *chunk
	free  chan *chunk
	part  *chunk // that is being filled, nil if none is
	wg    sync.WaitGroup

	failed atomic.Pointer[error] // of the first writer that failed
	behind chan struct{}         // closed when a writer is left behind
	left   sync.Once             // closes behind
}

type chunk struct {
	data  []byte
	users atomic.Int32 // writers that have not had it
}

// chunks are those of fans that were closed: the ones that save pass theirs to the ones that read back.
var chunks = sync.Pool{New: func() any { return &chunk{data: make([]byte, 0, chunkSize)} }}

// newFan starts the goroutines, which end with Close and give way to all others meanwhile.
func newFan(writers ...io.Writer) *fan {
	f := &fan{free: make(chan *chunk, fanChunks), behind: make(chan struct{})}
	for range fanChunks {
		f.free <- nil
	}
	for _, w := range writers {
		lane := make(chan *chunk, fanChunks) // never full
		f.lanes = append(f.lanes, lane)
		f.wg.Go(func() {
			giveWay()
			f.drain(lane, w)
		})
	}
	return f
}

// drain writes what comes down one lane. After a failure it only gives the chunks back.
func (f *fan) drain(lane <-chan *chunk, w io.Writer) {
	for c := range lane {
		if f.Err() == nil {
			if _, err := w.Write(c.data); err != nil {
				f.failed.CompareAndSwap(nil, &err)
			}
		}
		if c.users.Add(-1) == 0 {
			f.free <- c
		}
	}
}

// leave leaves behind a writer that hangs. From now on Write and Close fail, with err if no writer failed before.
func (f *fan) leave(err error) {
	f.failed.CompareAndSwap(nil, &err)
	f.left.Do(func() { close(f.behind) })
}

// Err is the error of the first writer that failed.
func (f *fan) Err() error {
	if err := f.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Write implements io.Writer. The error may be that of earlier bytes.
func (f *fan) Write(p []byte) (n int, err error) {
	for n < len(p) {
		room, err := f.room()
		if err != nil {
			return n, err
		}
		n += f.filled(copy(room, p[n:]))
	}
	return n, nil
}

// ReadFrom implements io.ReaderFrom: io.Copy reads straight into the chunks.
func (f *fan) ReadFrom(r io.Reader) (n int64, err error) {
	for {
		room, err := f.room()
		if err != nil {
			return n, err
		}
		got, err := r.Read(room)
		n += int64(f.filled(got))
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// room returns where the next bytes go. It waits until a chunk is free.
func (f *fan) room() ([]byte, error) {
	if err := f.Err(); err != nil {
		return nil, err
	}
	if f.part == nil {
		select {
		case f.part = <-f.free:
		case <-f.behind:
			return nil, f.Err()
		}
		if f.part == nil {
			f.part = chunks.Get().(*chunk)
		}
		f.part.data = f.part.data[:0]
	}
	return f.part.data[len(f.part.data):chunkSize], nil
}

// filled takes in the first n bytes of the room, and hands on the chunk when it is full.
func (f *fan) filled(n int) int {
	f.part.data = f.part.data[:len(f.part.data)+n]
	if len(f.part.data) == chunkSize {
		f.send()
	}
	return n
}

func (f *fan) send() {
	f.part.users.Store(int32(len(f.lanes)))
	for _, lane := range f.lanes {
		lane <- f.part
	}
	f.part = nil
}

// Close waits until every writer has all that was written, or one of them has failed or was left behind. A second Close
// does nothing.
func (f *fan) Close() error {
	if f.part != nil {
		f.send()
	}
	for _, lane := range f.lanes {
		close(lane)
	}
	f.lanes = nil
	ended := make(chan struct{})
	go func() {
		f.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-f.behind: // its chunks may still be in use
		return f.Err()
	}
	for len(f.free) > 0 {
		if c := <-f.free; c != nil {
			chunks.Put(c)
		}
	}
	return f.Err()
}

// digest counts and hashes what is written to it.
type digest struct {
	sum  hash.Hash
	size int64
}

func newDigest() *digest { return &digest{sum: sha256.New()} }

func (d *digest) Write(p []byte) (int, error) {
	d.size += int64(len(p))
	return d.sum.Write(p)
}

// hex is the SHA-256 so far.
func (d *digest) hex() string { return hex.EncodeToString(d.sum.Sum(nil)) }

// limited returns r with its reads spread over time, so that no more than bytesPerSecond come out of it, after what may
// come at once: a tenth of that, but at least 1 MiB of it; 0 is no bound. Reading fails when ctx ends.
func limited(ctx context.Context, r io.Reader, bytesPerSecond int64) io.Reader {
	if bytesPerSecond <= 0 {
		return r
	}
	burst := int(max(min(bytesPerSecond, 1<<20), bytesPerSecond/10))
	return &limiter{ctx, r, rate.NewLimiter(rate.Limit(bytesPerSecond), burst)}
}

// limiter is what limited returns.
type limiter struct {
	ctx   context.Context // of the one stream this reads
	r     io.Reader
	limit *rate.Limiter
}

func (l *limiter) Read(p []byte) (int, error) {
	n, err := l.r.Read(p[:min(len(p), l.limit.Burst())])
	if n > 0 {
		if err := l.limit.WaitN(l.ctx, n); err != nil {
			return n, err
		}
	}
	return n, err
}

// watched is the store's end of a stream: each read of the store tells the watchdog that it lives.
type watched struct {
	io.Reader
	watchdog *time.Timer
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err == nil { // after which the transaction may be open
		w.watchdog.Reset(stall)
	}
	return n, err
}

// meter tells progress of what is written to it.
type meter struct {
	at   Progress
	next int64
	tell func(Progress)
}

func newMeter(phase string, total int64, tell func(Progress)) *meter {
	if tell == nil {
		tell = func(Progress) {}
	}
	return &meter{at: Progress{Phase: phase, Total: total}, tell: tell}
}

func (m *meter) Write(p []byte) (int, error) {
	m.at.Done += int64(len(p))
	if m.at.Done >= m.next {
		m.next = min(m.at.Done+m.at.Total/100+1, m.at.Total)
		m.tell(m.at)
	}
	return len(p), nil
}
