package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// Silence is how long a Timely store may take to answer before that is told.
	Silence = 5 * time.Second
	// part is how many bytes of an object must come within the limit of a Timely store; the last part is shorter.
	part = 64 << 10
	// unmoved is how long a Timely store may neither take more of an object's data nor finish the object. An S3 store
	// gives up earlier, with a better error. It may hold back two parts of 8 MiB, so 28 KiB/s are always enough.
	unmoved = 10 * time.Minute
)

var errUnmoved = fmt.Errorf("it has taken no data for %s", unmoved)

// Timely is a store whose requests fail if it does not answer in time.
type Timely struct {
	Store
	// Limit is how long the store may take to answer a request, or to send the next part of an object.
	Limit time.Duration
	// Slow, if set, is called when a request has no answer for Silence. Requests may be concurrent.
	Slow func()
}

// await starts the timers of one request. The caller calls answered when the store has answered.
func (t *Timely) await(cancel context.CancelCauseFunc) (answered func()) {
	slow := time.AfterFunc(Silence, func() {
		if t.Slow != nil {
			t.Slow()
		}
	})
	late := time.AfterFunc(t.Limit, func() { cancel(unanswered(t.Limit)) })
	return func() {
		slow.Stop()
		late.Stop()
	}
}

// limited makes one request.
func (t *Timely) limited(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer t.await(cancel)()
	return request(ctx)
}

// List implements Store.
func (t *Timely) List(ctx context.Context, prefix string) (all []Object, err error) {
	err = t.limited(ctx, func(ctx context.Context) error {
		all, err = t.Store.List(ctx, prefix)
		return err
	})
	return all, err
}

// Get implements Store.
func (t *Timely) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	answered := t.await(cancel)
	r, err := t.Store.Get(ctx, name)
	answered()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return &timelyBody{ReadCloser: r, cancel: cancel, limit: t.Limit, left: t.Limit}, nil
}

// timelyBody is an object that is being read.
type timelyBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	limit  time.Duration
	left   time.Duration // for the rest of this part
	got    int           // bytes of this part
}

func (b *timelyBody) Read(to []byte) (int, error) {
	began := time.Now()
	late := time.AfterFunc(b.left, func() { b.cancel(unanswered(b.limit)) })
	n, err := b.ReadCloser.Read(to)
	late.Stop()
	b.left -= time.Since(began)
	if b.got += n; b.got >= part {
		b.got, b.left = 0, b.limit
	}
	return n, err
}

func (b *timelyBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// Put implements Store. Only an object that is in memory must be stored within the limit.
func (t *Timely) Put(ctx context.Context, name string, r io.Reader) error {
	if _, small := r.(*bytes.Reader); small {
		return t.limited(ctx, func(ctx context.Context) error { return t.Store.Put(ctx, name, r) })
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(unmoved, func() { cancel(errUnmoved) })
	defer late.Stop()
	return t.Store.Put(ctx, name, taken{r, late})
}

// taken is data that a store is to take. While the store waits for it, no time passes for the store.
type taken struct {
	r    io.Reader
	late *time.Timer
}

func (d taken) Read(p []byte) (int, error) {
	d.late.Stop()
	defer d.late.Reset(unmoved)
	return d.r.Read(p)
}

// PutIfAbsent implements Store.
func (t *Timely) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return t.limited(ctx, func(ctx context.Context) error { return t.Store.PutIfAbsent(ctx, name, data) })
}

// Delete implements Store.
func (t *Timely) Delete(ctx context.Context, name string) error {
	return t.limited(ctx, func(ctx context.Context) error { return t.Store.Delete(ctx, name) })
}
