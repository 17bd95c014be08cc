package backups

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/cmd/config"
	"holdfast/snapshot"
)

// mute answers after a while.
type mute time.Duration

func (m mute) wait()                                             { time.Sleep(time.Duration(m)) }
func (m mute) Put(context.Context, string, io.Reader) error      { return nil }
func (m mute) PutIfAbsent(context.Context, string, []byte) error { m.wait(); return nil }
func (m mute) Get(context.Context, string) (io.ReadCloser, error) {
	m.wait()
	return nil, snapshot.ErrNotFound
}
func (m mute) List(context.Context, string) (all []snapshot.Object, _ error) {
	m.wait()
	return nil, nil
}
func (m mute) Delete(context.Context, string) error { return nil }

// Who waits for a store that is silent is told so once, and by its name.
func TestSilenceOfAStore(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, s snapshot.Store) error{
		"list":          func(ctx context.Context, s snapshot.Store) error { _, err := s.List(ctx, ""); return err },
		"get":           func(ctx context.Context, s snapshot.Store) error { s.Get(ctx, "a"); return nil },
		"put if absent": func(ctx context.Context, s snapshot.Store) error { return s.PutIfAbsent(ctx, "a", nil) },
	} {
		for silent, want := range map[time.Duration]string{
			silence - 1: "",
			silence + 1: "waiting for the store s3://b, which has not answered for 5s; Ctrl-C ends the command\n",
		} {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				a := &patient{Store: mute(silent), at: "s3://b", said: &said}
				for range 2 {
					if err := ask(t.Context(), a); err != nil {
						t.Error(err)
					}
				}
				synctest.Wait() // for the timer that has just spoken
				if said.String() != want {
					t.Errorf("%s, silent for %s: said %q, want %q", name, silent, said.String(), want)
				}
			})
		}
	}
}

// dead is a store that answers no request before its context ends, and lets nothing be read of an object but what slow
// gives.
type dead struct{ slow io.Reader }

func end(ctx context.Context) error                                    { <-ctx.Done(); return context.Cause(ctx) }
func (dead) Put(ctx context.Context, _ string, _ io.Reader) error      { return end(ctx) }
func (dead) PutIfAbsent(ctx context.Context, _ string, _ []byte) error { return end(ctx) }
func (dead) Delete(ctx context.Context, _ string) error                { return end(ctx) }
func (dead) List(ctx context.Context, _ string) ([]snapshot.Object, error) {
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
	read := func(ctx context.Context, s snapshot.Store) error {
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
	for name, c := range map[string]struct {
		slow io.Reader
		ask  func(ctx context.Context, s snapshot.Store) error
		good bool
	}{
		"list": {ask: func(ctx context.Context, s snapshot.Store) error { _, err := s.List(ctx, ""); return err }},
		"get":  {ask: read},
		"put": {ask: func(ctx context.Context, s snapshot.Store) error {
			return s.Put(ctx, "a", bytes.NewReader(nil))
		}},
		"put if absent": {ask: func(ctx context.Context, s snapshot.Store) error { return s.PutIfAbsent(ctx, "a", nil) }},
		"delete":        {ask: func(ctx context.Context, s snapshot.Store) error { return s.Delete(ctx, "a") }},
		"trickle":       {ask: read, slow: &trickle{size: part, some: 1, pause: time.Second}},
		"slow":          {ask: read, slow: &trickle{size: 10 * part, some: part, pause: patience - 1}, good: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			err := c.ask(t.Context(), &patient{Store: dead{c.slow}, said: io.Discard})
			if c.good != (err == nil) || err != nil && err != errSilent {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
}

// Each place with backups has that limit: the store, the spool, and a store that a command names.
func TestPlacesAreLimited(t *testing.T) {
	cfg := config.Default()
	cfg.Snapshot.Store, cfg.Snapshot.Spool = t.TempDir(), t.TempDir()
	b, err := Open(t.Context(), cfg, "me", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.At(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for where, s := range map[string]snapshot.Store{"store": b.Store, "spool": b.spool, "other": other.Store} {
		if p, limited := s.(*patient); !limited || !strings.HasPrefix(p.at, "/") || p.said != io.Discard {
			t.Errorf("%s: got %#v", where, s)
		}
	}
}
