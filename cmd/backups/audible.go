package backups

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"holdfast/snapshot"
)

// silence is how long a store may take to answer before the user is told.
const silence = 5 * time.Second

// audible is a store that reports, once, that it does not answer.
type audible struct {
	snapshot.Store
	at   string // the store, as it is configured
	said io.Writer
	once sync.Once
}

// await starts the timer of one request. The caller calls answered when the store has answered.
func (a *audible) await() (answered func() bool) {
	return time.AfterFunc(silence, func() {
		a.once.Do(func() {
			fmt.Fprintf(a.said, "waiting for the store %s, which has not answered for %s; Ctrl-C ends the command\n", a.at,
				silence)
		})
	}).Stop
}

// List implements [snapshot.Store].
func (a *audible) List(ctx context.Context, prefix string) ([]snapshot.Object, error) {
	defer a.await()()
	return a.Store.List(ctx, prefix)
}

// Get implements [snapshot.Store].
func (a *audible) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	defer a.await()()
	return a.Store.Get(ctx, name)
}

// PutIfAbsent implements [snapshot.Store].
func (a *audible) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	defer a.await()()
	return a.Store.PutIfAbsent(ctx, name, data)
}
