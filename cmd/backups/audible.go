package backups

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"holdfast/snapshot"
)

// silence is for how long a store may be silent before someone who waits for it is told.
const silence = 5 * time.Second

// audible is a store whose silence is told, once.
type audible struct {
	snapshot.Store
	at   string // as the configuration has it
	said io.Writer
	once sync.Once
}

// await begins to wait for an answer.
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
