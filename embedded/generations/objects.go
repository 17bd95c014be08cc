package generations

import (
	"cmp"
	"context"
	"crypto/sha256"
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

// objects puts, signs, reads and checks a cluster's objects in the store.
type objects struct {
	names
	Store  snapshot.Store
	Signer Signer
	cache
	proofs
}

// outcome decides a proposal. It has exactly one of its fields.
type outcome struct {
	Record *plan.Record `json:"record,omitempty"`
	Abort  *plan.Abort  `json:"abort,omitempty"`
}

// MaxRecord bounds an object of the generations, in bytes.
const MaxRecord = 64 << 10

// put stores an object that is never written again, signed if there is a Signer. The error is a [snapshot.ErrExists] if
// the object exists.
func (r *objects) put(ctx context.Context, name string, v any) error {
	data, err := r.sealed(name, v)
	if err != nil {
		return err
	}
	return r.Store.PutIfAbsent(ctx, name, data)
}

// place puts an object that is never written again, and returns the one that is there then: this or an earlier one.
func place[T any](ctx context.Context, r *objects, name string, v T,
	read func(context.Context, snapshot.Object) (object[T], error)) (object[T], error) {
	if err := r.put(ctx, name, v); !errors.Is(err, snapshot.ErrExists) {
		return object[T]{value: v}, err
	}
	return read(ctx, snapshot.Object{Name: name})
}

// sealed encodes an object, signed if there is a Signer.
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

// encoded returns the text of an object without its signature.
func encoded(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(data, '\n'), err
}

// cache keeps the content of valid objects, so that each is fetched once.
type cache struct {
	mu    sync.Mutex
	known map[snapshot.Version][]byte
}

// object is an object as read from the store.
type object[T any] struct {
	value T
	seal
	text []byte    // what the signature covers
	when time.Time // when the store received it
}

func (r *objects) readRecord(ctx context.Context, o snapshot.Object) (object[plan.Record], error) {
	return readOrder(ctx, r, o, func(got *plan.Record) error {
		return cmp.Or(got.Valid(), named(o, r.recordName(got.Generation)))
	})
}

// named refuses an object whose content has another number than its name. So whatever is judged by a number is judged
// by the right one.
func named(o snapshot.Object, name string) error {
	if o.Name == name {
		return nil
	}
	return fmt.Errorf("it belongs in %s", name)
}

func (r *objects) readRestore(ctx context.Context, o snapshot.Object) (object[plan.Restore], error) {
	return readOrder(ctx, r, o, func(got *plan.Restore) error {
		return cmp.Or(got.Valid(), named(o, r.restoreName(got.Generation, got.Attempt)))
	})
}

func (r *objects) readOutcome(ctx context.Context, o snapshot.Object) (object[outcome], error) {
	return readOrder(ctx, r, o, func(done *outcome) error {
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
}

// readOrder reads an object that must be signed. While signatures cannot be checked, it fails with an error that is not
// an answer of the store.
func readOrder[T any](ctx context.Context, r *objects, o snapshot.Object, valid func(*T) error) (got object[T], err error) {
	got.when = o.Modified
	if r.Signer != nil {
		if err := r.Signer.Able(); err != nil {
			return got, fmt.Errorf("check %s in the store: %w", o.Name, err)
		}
	}
	got.text, got.seal, err = r.read(ctx, o, &got.value, func() error { return valid(&got.value) })
	return got, err
}

// read decodes an object, which is fetched only if its name, size and time are new. valid says what is wrong with it.
// The error wraps [coordinator.ErrUnread] if the store has answered. Only the signed text counts, and nothing beside
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
			"node", coordinator.ErrUnread, o.Name, err)
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
	c.known[at] = data
}

// only forgets objects that a listing does not show. Otherwise anyone who can write the store could fill the memory.
func (c *cache) only(listed map[snapshot.Version]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(at snapshot.Version, _ []byte) bool { return !listed[at] })
}

// ages tracks how long this process has known objects.
type ages struct {
	mu    sync.Mutex
	first map[string]time.Time // when this process first read an object
	asked map[string]bool      // the objects that were asked for in this pass
}

// ended ends a pass: it forgets objects that the pass did not ask for.
func (a *ages) ended() {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.first, func(key string, _ time.Time) bool { return !a.asked[key] })
	clear(a.asked)
}

// older reports whether an object that the store received at when is older than d (see expired). newest is the store's
// time of its newest object. key names the object uniquely.
func (a *ages) older(key string, when time.Time, d time.Duration, newest time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked[key] = true
	first, seen := a.first[key]
	if !seen {
		first = time.Now()
		a.first[key] = first
	}
	return newest.Sub(when) > d || time.Since(first) > d
}

// names builds the names of a cluster's objects in the store.
type names struct {
	Cluster string // cluster.name
}

func (n names) prefix() string { return "holdfast/" + n.Cluster + "/" }

func (n names) recordName(generation uint64) string {
	return fmt.Sprintf("%srecord-%06d.json", n.prefix(), generation)
}

func (n names) restoreName(generation uint64, attempt int) string {
	return fmt.Sprintf("%srestore-%06d-%02d.json", n.prefix(), generation, attempt)
}

func (n names) outcomeName(generation uint64, attempt int) string {
	return fmt.Sprintf("%soutcome-%06d-%02d.json", n.prefix(), generation, attempt)
}

func (n names) besideName() string { return n.prefix() + "beside.json" }

func (n names) attestationName(generation uint64) string {
	return fmt.Sprintf("%sproof-%06d.json", n.prefix(), generation)
}

// BeaconName returns the name of the beacon in the store.
func (n names) BeaconName() string { return n.prefix() + "beacon.json" }

// HereName returns the name of the object in which a node puts its nonce.
func (n names) HereName(node string) string {
	return fmt.Sprintf("%s%s%x.json", n.prefix(), hereDir, sha256.Sum256([]byte(node)))
}

// returnedName returns the name of the mark that a cluster was given back. Clusters of one name have different marks.
func (n names) returnedName(id string) string { return n.prefix() + returnedPrefix + id + ".json" }
