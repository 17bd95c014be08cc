package snapshot

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tidyTime is how long a call may continue after its context has ended, to remove what it has begun.
	tidyTime = 500 * time.Millisecond
	// mostBehind limits the calls that may be left behind. Each may occupy a thread of the process.
	mostBehind = 16
)

// patience counts the calls that hang in the file system at path, which may be a network mount.
type patience struct {
	what   string // that is at path
	path   string
	behind atomic.Int32 // calls that were left behind and have not ended
}

// answeredSoon is answered with a limit of its own, for callers that have no other.
func answeredSoon[T any](ctx context.Context, p *patience, f func() (T, error)) (result T, err error) {
	ctx, cancel := Within(ctx, answerTime)
	defer cancel()
	return answered(ctx, p, f)
}

// answered runs f, which uses the file system. It returns soon after ctx ends, even if the file system hangs. Then f is
// left behind, and its result is lost. While mostBehind calls are left behind, answered begins no other.
func answered[T any](ctx context.Context, p *patience, f func() (T, error)) (result T, err error) {
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	if n := p.behind.Load(); n >= mostBehind {
		return result, fmt.Errorf("the %s %s does not answer: %d calls have not ended", p.what, p.path, n)
	}
	type answer struct {
		result T
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		result, err := f()
		done <- answer{result, err}
	}()
	select {
	case a := <-done:
		return a.result, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-done:
		return a.result, a.err
	case <-time.After(tidyTime):
		p.behind.Add(1)
		go func() {
			<-done
			p.behind.Add(-1)
		}()
		return result, fmt.Errorf("the %s %s does not answer: %w", p.what, p.path, context.Cause(ctx))
	}
}

// lent is a reader for a call that may be left behind.
type lent struct {
	mu   sync.Mutex
	r    io.Reader
	back bool
}

func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back {
		return 0, os.ErrClosed
	}
	return l.r.Read(p)
}

// takeBack waits for a read in progress. Any later read fails.
func (l *lent) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = true
}

// patient reads a file until ctx ends. It reads into its own buffer, because a read may be left behind.
type patient struct {
	ctx  context.Context
	p    *patience
	f    io.ReadCloser
	buf  []byte
	rest []byte // of buf, read and not handed out yet
	err  error  // after rest
}

func (r *patient) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	if len(r.rest) == 0 && r.err == nil && len(p) > 0 {
		if len(r.buf) < len(p) && len(r.buf) < chunkSize {
			r.buf = make([]byte, min(len(p), chunkSize))
		}
		var n int
		n, r.err = answered(r.ctx, r.p, func() (int, error) { return r.f.Read(r.buf) })
		r.rest = r.buf[:n]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	if n > 0 {
		return n, nil
	}
	return 0, r.err
}

func (r *patient) Close() error { return r.f.Close() }
