package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// Errors of a Store that callers branch on.
var (
	// ErrNotFound says that the store has answered, and that there is no such object.
	ErrNotFound = errors.New("object not found")
	// ErrExists says that an object of that name already existed.
	ErrExists = errors.New("object exists")
	// ErrTooMany says that there are more than MaxObjects objects.
	ErrTooMany = errors.New("too many objects")
)

// MaxObjects bounds a listing, which is kept in memory: 200 MB at worst, with the longest names. A year of backups,
// pruned as by default, is about 2000 objects.
const MaxObjects = 200_000

// maxObjects is MaxObjects, except in tests.
var maxObjects = MaxObjects

// CheckCount returns an error if a listing of n objects is too long. Implementations of Store use it.
func CheckCount(n int) error {
	if n > maxObjects {
		return fmt.Errorf("more than %d: remove what is not holdfast's, or give the backups a directory or a prefix of "+
			"their own: %w", maxObjects, ErrTooMany)
	}
	return nil
}

// Store is one place that keeps backups: a flat space of named objects.
//
// Names are portable paths: segments of letters, digits and ".-_:", joined by "/", none beginning with a dot, at most
// 200 bytes a segment and 900 in all. Every method refuses other names. No name may be the directory of another one.
//
// An error other than ErrNotFound and ErrExists says nothing about what is stored: a write may have happened, an object
// may exist. A store that is gone or cannot be reached returns such an error, and never looks empty. Methods return
// soon after ctx ends. All are safe for concurrent use, even by several processes.
//
// The suite in snapshottest checks this for every implementation.
type Store interface {
	// Put stores what r returns until EOF, and replaces the object if there is one. Readers see the whole old or the whole
	// new object. If it returns nil, the object is durable. If r returns an error, nothing has changed.
	Put(ctx context.Context, name string, r io.Reader) error
	// PutIfAbsent stores data under a free name. If the name is not free, it returns ErrExists. Of many concurrent callers
	// exactly one gets nil.
	PutIfAbsent(ctx context.Context, name string, data []byte) error
	// Get opens an object, or returns ErrNotFound. Reading fails when ctx ends. The caller closes the object.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the objects whose name begins with prefix, which may be any string, sorted by name. If there are more
	// than MaxObjects, it returns ErrTooMany: a part of a listing must not be taken for all of it.
	List(ctx context.Context, prefix string) ([]Object, error)
	// Delete removes an object, if it exists.
	Delete(ctx context.Context, name string) error
}

// Object describes a stored object.
type Object struct {
	Name string
	// Size is in bytes.
	Size int64
	// Modified is the time of the last Put by the store's clock.
	Modified time.Time
}

// Lengths are checked separately: counted repetition takes 85 KB of memory here, in every node.
var segment = regexp.MustCompile(`^[A-Za-z0-9_:-][A-Za-z0-9._:-]*$`)

func isSegment(s string) bool { return len(s) <= 200 && segment.MatchString(s) }

// CheckName returns an error if a store cannot keep an object of this name. Implementations of Store use it.
func CheckName(name string) error {
	if len(name) > 900 {
		return fmt.Errorf("object name of %d bytes: at most 900 are allowed", len(name))
	}
	for s := range strings.SplitSeq(name, "/") {
		if !isSegment(s) {
			return fmt.Errorf("object name %q: each part must be 1-200 of A-Z a-z 0-9 . _ : - and not begin with a dot", name)
		}
	}
	return nil
}

// StoreID returns the store's identity, 32 hex digits. The first call creates it. Two nodes that get the same identity
// share one store.
func StoreID(ctx context.Context, s Store) (string, error) {
	id, err := readSmall(ctx, s, idObject)
	if errors.Is(err, ErrNotFound) {
		fresh := make([]byte, 16)
		rand.Read(fresh) // never fails: crypto/rand ends the process instead
		err = s.PutIfAbsent(ctx, idObject, fmt.Appendf(nil, "%x\n", fresh))
		if err != nil && !errors.Is(err, ErrExists) {
			return "", fmt.Errorf("give the store an id: %w", err)
		}
		id, err = readSmall(ctx, s, idObject)
	}
	if err != nil {
		return "", fmt.Errorf("read the store's id: %w", err)
	}
	text := string(bytes.TrimSuffix(id, []byte("\n")))
	if b, err := hex.DecodeString(text); err != nil || len(b) != 16 {
		return "", fmt.Errorf("object %s: want 32 hex digits, got %q", idObject, text)
	}
	return text, nil
}

// ErrUnconditional is wrapped by errors that say that a store ignores the condition of a put.
var ErrUnconditional = errors.New("it ignores conditions: a conditional put replaced an existing object; " +
	"use a store that honors If-None-Match")

// Probe returns an error unless the store's PutIfAbsent is conditional: a second put of the same name must be refused.
// An object store that is old or behind a proxy may ignore the condition. Then it cannot decide between two writers. A
// store that allows no deletions can; the object then stays.
func Probe(ctx context.Context, s Store) error {
	name := probePrefix + rand.Text()
	if err := s.PutIfAbsent(ctx, name, []byte("first\n")); err != nil {
		return fmt.Errorf("probe the store: %w", err)
	}
	defer func() { _ = s.Delete(ctx, name) }()
	switch err := s.PutIfAbsent(ctx, name, []byte("second\n")); {
	case err == nil:
		return fmt.Errorf("probe the store: %w", ErrUnconditional)
	case !errors.Is(err, ErrExists):
		return fmt.Errorf("probe the store: %w", err)
	}
	got, err := readSmall(ctx, s, name)
	if err != nil {
		return fmt.Errorf("probe the store: %w", err)
	}
	if string(got) != "first\n" {
		return fmt.Errorf("probe the store: %w: want %q, got %q", ErrUnconditional, "first\n", got)
	}
	return nil
}

// maxSmall is the largest size in bytes of objects that are read into memory: IDs, sidecars, marks, pins and commands.
const maxSmall = 1 << 20

// readSmall reads an object that must be small.
func readSmall(ctx context.Context, s Store, name string) ([]byte, error) {
	return ReadObject(ctx, s, name, maxSmall)
}

// tooLarge says that an object is larger than its reader allows. Its value is that limit in bytes.
type tooLarge int64

func (most tooLarge) Error() string { return fmt.Sprintf("larger than %d bytes", int64(most)) }

// ReadObject reads a whole object of at most limit bytes. The error wraps [ErrNotFound] if there is none.
func ReadObject(ctx context.Context, s Store, name string, limit int64) (data []byte, err error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, r.Close()) }()
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("object %s: %w", name, tooLarge(limit))
	}
	return data, err
}

// Exists reports whether the store has an object. It asks for the object itself, because a listing may be outdated.
func Exists(ctx context.Context, s Store, name string) (bool, error) {
	r, err := s.Get(ctx, name)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.Close()
}

// Version identifies the content of an object when it was listed.
type Version struct {
	name     string
	size     int64
	modified int64 // Unix time in ns
}

// Version returns the version of the object, as far as a listing shows it.
func (o Object) Version() Version { return Version{o.Name, o.Size, o.Modified.UnixNano()} }

// ctxReader fails when ctx ends, between two reads of r.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
