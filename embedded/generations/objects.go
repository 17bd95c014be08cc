package generations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// objects are what the store holds of a cluster: how each is put, signed, read and checked.
type objects struct {
	names
	Store  snapshot.Store
	Signer Signer
	cache
	proofs
}

// outcome is what became of a proposal: one of both.
type outcome struct {
	Record *plan.Record `json:"record,omitempty"`
	Abort  *plan.Abort  `json:"abort,omitempty"`
}

// MaxRecord bounds an object of the generations, in bytes.
const MaxRecord = 64 << 10

// put stores an object that is never written again, signed where there is who signs. The error is a
// [snapshot.ErrExists] where one is.
func (r *objects) put(ctx context.Context, name string, v any) error {
	data, err := r.sealed(name, v)
	if err != nil {
		return err
	}
	return r.Store.PutIfAbsent(ctx, name, data)
}

// sealed encodes an object, signed where there is who signs.
func (r *objects) sealed(name string, v any) ([]byte, error) {
	data, err := encoded(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	if r.Signer == nil {
		return data, nil
	}
	if data, err = signed(r.Signer, name, data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsigned, err)
	}
	return data, nil
}

// encoded is the text of an object without its signature.
func encoded(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}

// cache is what was read of objects that are whole. It is fetched once.
type cache struct {
	mu    sync.Mutex
	known map[snapshot.Version][]byte
}

// object is one that was read.
type object[T any] struct {
	is T
	seal
	text []byte    // that counts
	when time.Time // the store got it
}

func (r *objects) readRecord(ctx context.Context, o snapshot.Object) (got object[plan.Record], err error) {
	got.when = o.Modified
	got.text, got.seal, err = r.readOrder(ctx, o, &got.is, func() error {
		return cmp.Or(got.is.Valid(), named(o, r.recordName(got.is.Generation)))
	})
	return got, err
}

// named refuses what is about another number than its object's name says: whatever is judged by a number is judged by
// the right one.
func named(o snapshot.Object, name string) error {
	if o.Name == name {
		return nil
	}
	return fmt.Errorf("it is what belongs into %s", name)
}

func (r *objects) readRestore(ctx context.Context, o snapshot.Object) (got object[plan.Restore], err error) {
	got.when = o.Modified
	got.text, got.seal, err = r.readOrder(ctx, o, &got.is, func() error {
		return cmp.Or(got.is.Valid(), named(o, r.restoreName(got.is.Generation, got.is.Attempt)))
	})
	return got, err
}

func (r *objects) readOutcome(ctx context.Context, o snapshot.Object) (got object[outcome], err error) {
	got.when = o.Modified
	got.text, got.seal, err = r.readOrder(ctx, o, &got.is, func() error {
		done := got.is
		switch {
		case (done.Record == nil) == (done.Abort == nil):
			return errors.New("it must hold a record or an abort, and not both")
		case done.Record != nil:
			if p := done.Record.Restore; p != nil {
				return cmp.Or(done.Record.Valid(), named(o, r.outcomeName(p.Generation, p.Attempt)))
			}
			return done.Record.Valid()
		}
		return done.Abort.Valid()
	})
	return got, err
}

// readOrder reads an object that is signed. What cannot be checked at present was not read: it is no answer of the
// store.
func (r *objects) readOrder(ctx context.Context, o snapshot.Object, v any, valid func() error) (text []byte, s seal,
	err error) {
	if r.Signer != nil {
		if err := r.Signer.Able(); err != nil {
			return nil, s, fmt.Errorf("check %s in the store: %w", o.Name, err)
		}
	}
	return r.read(ctx, o, v, valid)
}

// read decodes an object, which is fetched only if its name, size and time are new. valid says what is not whole about
// it. The error wraps [coordinator.ErrUnread] when the store has answered. What is signed counts, and nothing beside
// it.
func (r *objects) read(ctx context.Context, o snapshot.Object, v any, valid func() error) (text []byte, s seal,
	err error) {
	data, err := r.fetch(ctx, r.Store, o)
	if err != nil {
		return nil, s, fmt.Errorf("read %s in the store: %w", o.Name, err)
	}
	if int64(len(data)) < o.Size { // else it would be damaged, or unsigned
		return nil, s, fmt.Errorf("read %s in the store: it gave %d bytes of an object of %d", o.Name, len(data), o.Size)
	}
	text, s = r.checked(o, data)
	switch err := cmp.Or(json.Unmarshal(text, v), valid()); {
	case errors.Is(err, plan.ErrUnsupported):
		return nil, s, fmt.Errorf("%w: %s in the store is unsupported here: %w: run that version, or a newer one, on this "+
			"node",
			coordinator.ErrUnread, o.Name, err)
	case err != nil:
		return nil, s, fmt.Errorf("%w: %s in the store is damaged: %w; bring it back from another copy of the store",
			coordinator.ErrUnread, o.Name, err)
	}
	if !o.Modified.IsZero() {
		r.cache.keep(o.Version(), data)
	}
	return text, s, nil
}

// fetch returns the bytes of an object.
func (c *cache) fetch(ctx context.Context, store snapshot.Store, o snapshot.Object) ([]byte, error) {
	c.mu.Lock()
	data, cached := c.known[o.Version()]
	c.mu.Unlock()
	if cached {
		return data, nil
	}
	return snapshot.ReadObject(ctx, store, o.Name, MaxRecord)
}

func (c *cache) keep(at snapshot.Version, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[snapshot.Version][]byte{}
	}
	c.known[at] = data
}

// only forgets what a listing does not show: anyone who can write the store could fill the memory.
func (c *cache) only(listed map[snapshot.Version]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(at snapshot.Version, _ []byte) bool { return !listed[at] })
}

// ages are how long this process has known objects.
type ages struct {
	mu    sync.Mutex
	first map[string]time.Time // when one was read first here
	asked map[string]bool      // since the last look ended
}

// ended forgets what the look that has ended did not ask for.
func (a *ages) ended() {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.first, func(key string, _ time.Time) bool { return !a.asked[key] })
	a.asked = nil
}

// older reports whether an object that the store got at a time is older than d, as expired says; newest is the store's
// time of what it got last. key names the object for good.
func (a *ages) older(key string, when time.Time, d time.Duration, newest time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil {
		a.first = map[string]time.Time{}
	}
	if a.asked == nil {
		a.asked = map[string]bool{}
	}
	a.asked[key] = true
	first, seen := a.first[key]
	if !seen {
		first = time.Now()
		a.first[key] = first
	}
	return newest.Sub(when) > d || time.Since(first) > d
}
