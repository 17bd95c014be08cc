package backups

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"holdfast/snapshot"
)

const (
	// silence is how long a store may take to answer before the user is told.
	silence = 5 * time.Second
	// patience is how long a store may take to answer a request, or to send the next part of an object.
	patience = 30 * time.Second
	part     = 64 << 10 // bytes; the last part is shorter
)

var errSilent = fmt.Errorf("no answer within %s", patience)

// patient is a store whose requests fail if it does not answer in time. It first reports, once, that it waits. Only the
// writing of data has no limit here.
type patient struct {
	snapshot.Store
	at   string // the store, as it is configured
	said io.Writer
	once sync.Once
}

// await starts the timer of one request. The caller calls answered when the store has answered.
func (p *patient) await() (answered func() bool) {
	return time.AfterFunc(silence, func() {
		p.once.Do(func() {
			fmt.Fprintf(p.said, "waiting for the store %s, which has not answered for %s; Ctrl-C ends the command\n", p.at,
				silence)
		})
	}).Stop
}

// limited makes one request.
func (p *patient) limited(ctx context.Context, request func(ctx context.Context) error) error {
	defer p.await()()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errSilent)
	defer cancel()
	return request(ctx)
}

// List implements [snapshot.Store].
func (p *patient) List(ctx context.Context, prefix string) (all []snapshot.Object, err error) {
	err = p.limited(ctx, func(ctx context.Context) error {
		all, err = p.Store.List(ctx, prefix)
		return err
	})
	return all, err
}

// Get implements [snapshot.Store].
func (p *patient) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	defer p.await()()
	ctx, cancel := context.WithCancelCause(ctx)
	limit := time.AfterFunc(patience, func() { cancel(errSilent) })
	r, err := p.Store.Get(ctx, name)
	limit.Stop()
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return &body{ReadCloser: r, cancel: cancel, limit: limit, left: patience}, nil
}

// body is an object that is being read.
type body struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	limit  *time.Timer   // runs during a Read
	left   time.Duration // for the rest of this part
	got    int           // bytes of this part
}

// Read implements [io.Reader].
func (b *body) Read(to []byte) (int, error) {
	began := time.Now()
	b.limit.Reset(b.left)
	n, err := b.ReadCloser.Read(to)
	b.limit.Stop()
	b.left -= time.Since(began)
	if b.got += n; b.got >= part {
		b.got, b.left = 0, patience
	}
	return n, err
}

// Close implements [io.Closer].
func (b *body) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// Put implements [snapshot.Store].
func (p *patient) Put(ctx context.Context, name string, r io.Reader) error {
	put := func(ctx context.Context) error { return p.Store.Put(ctx, name, r) }
	if _, small := r.(*bytes.Reader); small {
		return p.limited(ctx, put)
	}
	return put(ctx)
}

// PutIfAbsent implements [snapshot.Store].
func (p *patient) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return p.limited(ctx, func(ctx context.Context) error { return p.Store.PutIfAbsent(ctx, name, data) })
}

// Delete implements [snapshot.Store].
func (p *patient) Delete(ctx context.Context, name string) error {
	return p.limited(ctx, func(ctx context.Context) error { return p.Store.Delete(ctx, name) })
}
