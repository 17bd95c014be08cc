package generations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// outcome is what became of a proposal: one of both.
type outcome struct {
	Record *plan.Record `json:"record,omitempty"`
	Abort  *plan.Abort  `json:"abort,omitempty"`
}

// MaxRecord bounds an object of the generations, in bytes.
const MaxRecord = 64 << 10

// put stores an object that is never written again. The error is a [snapshot.ErrExists] where one is.
func put(ctx context.Context, store snapshot.Store, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return store.PutIfAbsent(ctx, name, append(data, '\n'))
}

// cache is what was read of objects that are whole. It is fetched once.
type cache struct {
	mu    sync.Mutex
	known map[snapshot.Version][]byte
}

func (c *cache) readRecord(ctx context.Context, store snapshot.Store, o snapshot.Object) (*plan.Record, error) {
	var record plan.Record
	return &record, c.read(ctx, store, o, &record, func() error { return record.Valid() })
}

func (c *cache) readRestore(ctx context.Context, store snapshot.Store, o snapshot.Object) (*plan.Restore, error) {
	var p plan.Restore
	return &p, c.read(ctx, store, o, &p, func() error { return p.Valid() })
}

func (c *cache) readOutcome(ctx context.Context, store snapshot.Store, o snapshot.Object) (done outcome, err error) {
	err = c.read(ctx, store, o, &done, func() error {
		switch {
		case (done.Record == nil) == (done.Abort == nil):
			return errors.New("it must hold a record or an abort, and not both")
		case done.Record != nil:
			return done.Record.Valid()
		}
		return done.Abort.Valid()
	})
	return done, err
}

// read decodes an object, which is fetched only if its name, size and time are new. valid says what is not whole about
// it. The error wraps [coordinator.ErrUnread] when the store has answered.
func (c *cache) read(ctx context.Context, store snapshot.Store, o snapshot.Object, v any, valid func() error) error {
	at := o.Version()
	c.mu.Lock()
	data, cached := c.known[at]
	c.mu.Unlock()
	if !cached {
		var err error
		if data, err = snapshot.ReadObject(ctx, store, o.Name, MaxRecord); err != nil {
			return fmt.Errorf("read %s in the store: %w", o.Name, err)
		}
	}
	switch err := cmp.Or(json.Unmarshal(data, v), valid()); {
	case errors.Is(err, plan.ErrUnsupported):
		return fmt.Errorf("%w: %s in the store is unsupported here: %w: run that version, or a newer one, on this node",
			coordinator.ErrUnread, o.Name, err)
	case err != nil:
		return fmt.Errorf("%w: %s in the store is damaged: %w; bring it back from another copy of the store",
			coordinator.ErrUnread, o.Name, err)
	}
	if !cached && !o.Modified.IsZero() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.known == nil {
			c.known = map[snapshot.Version][]byte{}
		}
		c.known[at] = data
	}
	return nil
}

// ages are how long this process has known objects.
type ages struct {
	mu    sync.Mutex
	first map[string]time.Time // when one was read first here
}

// older reports whether an object that the store got at a time is older than d, as expired says; newest is the store's
// time of what it got last. key names the object for good.
func (a *ages) older(key string, when time.Time, d time.Duration, newest time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		a.first = map[string]time.Time{}
	}
	first, seen := a.first[key]
	if !seen {
		first = time.Now()
		a.first[key] = first
	}
	return newest.Sub(when) > d || time.Since(first) > d
}
