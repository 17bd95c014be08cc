package snapshot

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// dead is a store that answers no request before its context ends, and lets nothing be read of an object but what slow
// gives.
type dead struct{ slow io.Reader }

func end(ctx context.Context) error                                    { <-ctx.Done(); return context.Cause(ctx) }
func (dead) Put(ctx context.Context, _ string, _ io.Reader) error      { return end(ctx) }
func (dead) PutIfAbsent(ctx context.Context, _ string, _ []byte) error { return end(ctx) }
func (dead) Delete(ctx context.Context, _ string) error                { return end(ctx) }
func (dead) List(ctx context.Context, _ string) ([]Object, error) {
	return nil, end(ctx)
}
func (d dead) Get(ctx context.Context, _ string) (io.ReadCloser, error) {
	if d.slow == nil {
		return nil, end(ctx)
	}
	return io.NopCloser(reading{ctx, d.slow}), nil
}

// reading fails when ctx ends.
type reading struct {
	ctx context.Context
	r   io.Reader
}

func (r reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return n, err
}

// trickle gives size bytes, some at a time, each after a pause.
type trickle struct {
	size, some int
	pause      time.Duration
}

func (t *trickle) Read(p []byte) (int, error) {
	time.Sleep(t.pause)
	n := min(len(p), t.some, t.size)
	if t.size -= n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// A request to a store that does not answer, or that trickles, fails after a while. An object that comes slowly does
// not, nor does one whose reader is slow.
func TestStoreThatIsSilent(t *testing.T) {
	read := func(ctx context.Context, s Store) error {
		r, err := s.Get(ctx, "a")
		if err != nil {
			return err
		}
		defer r.Close()
		buffer := make([]byte, part)
		for err == nil {
			_, err = r.Read(buffer)
			time.Sleep(time.Hour) // as long as the reader likes
		}
		if err == io.EOF {
			return nil
		}
		return err
	}
	const limit = 30 * time.Second
	for name, c := range map[string]struct {
		slow io.Reader
		ask  func(ctx context.Context, s Store) error
		good bool
	}{
		"list": {ask: func(ctx context.Context, s Store) error { _, err := s.List(ctx, ""); return err }},
		"get":  {ask: read},
		"put": {ask: func(ctx context.Context, s Store) error {
			return s.Put(ctx, "a", bytes.NewReader(nil))
		}},
		"put if absent": {ask: func(ctx context.Context, s Store) error { return s.PutIfAbsent(ctx, "a", nil) }},
		"delete":        {ask: func(ctx context.Context, s Store) error { return s.Delete(ctx, "a") }},
		"trickle":       {ask: read, slow: &trickle{size: part, some: 1, pause: time.Second}},
		"slow":          {ask: read, slow: &trickle{size: 10 * part, some: part, pause: limit - 1}, good: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := c.ask(t.Context(), &Timely{Store: dead{c.slow}, Limit: limit})
			if c.good != (err == nil) || err != nil && err.Error() != "no answer within 30s" {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

// takes is a store that takes the data of an object in pieces, each after a pause, and finishes after another one.
type takes struct {
	dead
	pause, finish time.Duration
}

func (s takes) Put(ctx context.Context, _ string, r io.Reader) error {
	for piece := make([]byte, part); ; {
		if !pass(ctx, s.pause) {
			return context.Cause(ctx)
		}
		if _, err := r.Read(piece); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	if !pass(ctx, s.finish) {
		return context.Cause(ctx)
	}
	return nil
}

// pass waits, and reports whether ctx has not ended meanwhile.
func pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// The data of an object may take as long as it moves, and as long as its reader likes. A store that takes nothing more,
// or never finishes, is an error.
func TestDataThatDoesNotMove(t *testing.T) {
	const more = unmoved + time.Second
	for name, c := range map[string]struct {
		store takes
		pause time.Duration // of the reader
		good  bool
	}{
		"slow":            {store: takes{pause: unmoved - 1, finish: unmoved - 1}, good: true},
		"a slow reader":   {pause: more, good: true},
		"takes nothing":   {store: takes{pause: more}},
		"does not finish": {store: takes{finish: more}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &trickle{size: 3 * part, some: part, pause: c.pause}
			err := (&Timely{Store: c.store, Limit: time.Minute}).Put(t.Context(), "a", r)
			if c.good != (err == nil) || err != nil && err != errUnmoved {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}
