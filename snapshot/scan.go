package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// AbandonedAfter is the age at which a save or a copy without further writes counts as dead, and at which an
	// unfinished file in a directory, or an unfinished upload to a bucket, counts as abandoned. What it left is then
	// removed. A save or a copy gives up after ten minutes without progress ([Timely]), so a day leaves room for clocks
	// that disagree.
	AbandonedAfter = 24 * time.Hour
	// readers is how many small objects are read at once. On S3 the few hundred sidecars of a year then take a second or
	// two.
	readers = 16
)

// catalogue has the backups in a store at one moment.
type catalogue struct {
	entries []entry // ordered by name
	// written is when anything in the store was last written, by the store's clock.
	written time.Time
}

// clock returns a time that is certainly not later than the present, to judge what is old enough to be deleted. The
// local clock may be ahead, or the clock of the file server that wrote one of the objects; both at once is not assumed.
// In a store to which nobody writes, nothing ages. A store may truncate its times to seconds, as S3 does. So the last
// write counts as up to a second later, and what it wrote is not from the future.
func (c catalogue) clock(now time.Time) time.Time {
	if written := c.written.Truncate(time.Second).Add(time.Second); written.Before(now) {
		return written
	}
	return now
}

// scan finds everything in the store that is or began as a backup, with a single listing.
func scan(ctx context.Context, store Store, prefix string) (catalogue, error) {
	objects, err := store.List(ctx, prefix)
	if err != nil {
		return catalogue{}, fmt.Errorf("list backups: %w", err)
	}
	var c catalogue
	for _, o := range objects {
		if o.Modified.After(c.written) {
			c.written = o.Modified
		}
		name, file, _ := strings.Cut(o.Name, "/")
		if !slices.Contains(removal, file) || checkBackupName(name) != nil {
			continue
		}
		if n := len(c.entries); n == 0 || c.entries[n-1].name != name {
			c.entries = append(c.entries, entry{name: name, files: map[string]Object{}})
		}
		c.entries[len(c.entries)-1].files[file] = o
	}
	return c, nil
}

// lookup finds the objects of one backup. If there are none, the entry has no files.
func lookup(ctx context.Context, store Store, name string) (entry, error) {
	if err := checkBackupName(name); err != nil {
		return entry{}, err
	}
	c, err := scan(ctx, store, name+"/")
	if err != nil || len(c.entries) == 0 {
		return entry{name: name}, err
	}
	return c.entries[0], c.entries[0].complete(ctx, store)
}

// find returns one backup. The error is ErrNotFound if the store has nothing under that name.
func find(ctx context.Context, store Store, id Identity, name string) (Backup, error) {
	e, err := lookup(ctx, store, name)
	if err != nil {
		return Backup{}, err
	}
	if len(e.files) == 0 {
		return Backup{}, fmt.Errorf("find backup %s: %w", name, ErrNotFound)
	}
	return e.read(ctx, store, id, time.Now())
}

// readAll reads the sidecars and other small objects of backups, in their order.
func readAll(ctx context.Context, store Store, id Identity, entries []entry, clock time.Time) ([]Backup, error) {
	backups := make([]Backup, len(entries))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, e := range entries {
		group.Go(func() (err error) {
			backups[i], err = e.read(ctx, store, id, clock)
			return err
		})
	}
	return backups, group.Wait()
}

// entry has the objects of one backup.
type entry struct {
	name  string
	files map[string]Object // by the last part of the name
}

func (e entry) has(file string) bool {
	_, ok := e.files[file]
	return ok
}

// committed reports whether it counts as a backup, good or damaged. Otherwise it was only begun.
func (e entry) committed() bool { return e.has(metaObject) || e.has(managerObject) }

// written returns when one of its objects was last written.
func (e entry) written() time.Time {
	var last time.Time
	for _, o := range e.files {
		if o.Modified.After(last) {
			last = o.Modified
		}
	}
	return last
}

// abandoned reports whether nobody can still be writing it.
func (e entry) abandoned(clock time.Time) bool { return clock.Sub(e.written()) > AbandonedAfter }

// complete looks for the sidecar of a backup that seems unfinished. An outdated listing must not make a good backup
// look unfinished, because Prune removes those.
func (e entry) complete(ctx context.Context, store Store) error {
	if e.committed() {
		return nil
	}
	for _, file := range []string{metaObject, managerObject} {
		there, err := Exists(ctx, store, object(e.name, file))
		if err != nil {
			return fmt.Errorf("read backup %s: %w", e.name, err)
		}
		if there {
			e.files[file] = Object{Name: object(e.name, file)}
		}
	}
	return nil
}

// read reads a backup. An error is the store's; an error of the backup is its Problem.
func (e entry) read(ctx context.Context, store Store, id Identity, clock time.Time) (Backup, error) {
	if err := e.complete(ctx, store); err != nil {
		return Backup{}, err
	}
	b := Backup{Meta: Meta{Name: e.name, Created: timeOf(e.name)}, Unfinished: !e.committed()}
	for _, file := range dataObjects {
		if data, ok := e.files[file]; ok {
			b.Stored.Size = data.Size
			break
		}
	}
	var err error
	switch {
	case e.has(metaObject):
		err = e.readSidecar(ctx, store, &b)
	case e.has(managerObject):
		err = e.readMark(ctx, store, &b)
	case e.abandoned(clock):
		err = problemf("incomplete: no sidecar, last written %s: left behind by a save or a copy that failed",
			e.written().UTC().Format(time.RFC3339))
	default:
		err = problemf("incomplete: no sidecar, last written %s: it may be being saved",
			e.written().UTC().Format(time.RFC3339))
	}
	if p, ok := errors.AsType[*problem](err); ok && errors.Is(p.error, ErrNotFound) {
		now, lookErr := lookup(ctx, store, e.name)
		if lookErr != nil {
			return Backup{}, lookErr
		}
		if !now.committed() { // a prune since the listing is no reason to doubt the store
			b.Unfinished, err = true, problemf("it was just deleted")
		}
	}
	if err != nil && ofStore(err) == nil {
		b.Problem, err = err.Error(), nil
	}
	if err == nil && b.Cluster == "" && e.has(beginObject) {
		err = e.readBegin(ctx, store, &b)
	}
	if err == nil && e.has(pinObject) {
		err = e.readPin(ctx, store, &b)
	}
	if err == nil {
		err = e.readProofs(ctx, store, &b)
	}
	if err != nil {
		return Backup{}, err
	}
	b.Foreign = id.foreign(b.Meta)
	return b, nil
}

// problem is an error of a backup, not of the store.
type problem struct{ error }

func problemf(format string, args ...any) error { return &problem{fmt.Errorf(format, args...)} }

// ofStore returns err unless it is a problem.
func ofStore(err error) error {
	if _, ok := errors.AsType[*problem](err); ok {
		return nil
	}
	return err
}

// readPart reads a small object of a backup. If it is too large, or was just deleted, the error is a problem.
func (e entry) readPart(ctx context.Context, store Store, file string) ([]byte, error) {
	text, err := readSmall(ctx, store, object(e.name, file))
	if errors.Is(err, ErrNotFound) || errors.As(err, new(tooLarge)) {
		return nil, &problem{err}
	}
	if err != nil {
		return nil, fmt.Errorf("read backup %s: %w", e.name, err)
	}
	return text, nil
}

// readSidecar fills in b from the sidecar.
func (e entry) readSidecar(ctx context.Context, store Store, b *Backup) error {
	text, err := e.readPart(ctx, store, metaObject)
	if err != nil {
		return err
	}
	if size := e.files[metaObject].Size; size > 0 && int64(len(text)) != size {
		return problemf("read sidecar of backup %s: the store gave %d bytes of an object of %d", e.name, len(text), size)
	}
	m, err := sidecarOf(e.name, text)
	if err != nil {
		return err
	}
	b.Meta = m
	b.Unmarked = m.Stored.forManager() && !e.has(managerObject)
	return e.checkData(m.Stored.dataObject(), m.Stored.Size)
}

// sidecarOf decodes the sidecar that was found in the directory of a name.
func sidecarOf(name string, text []byte) (Meta, error) {
	m, err := decodeMeta(text)
	if err != nil {
		return Meta{}, problemf("read sidecar of backup %s: %w", name, err)
	}
	if m.Name != name {
		return Meta{}, problemf("read sidecar of backup %s: it is that of %s", name, m.Name)
	}
	return m, nil
}

// readMark fills in b from etcd-manager's mark if there is no sidecar.
func (e entry) readMark(ctx context.Context, store Store, b *Backup) error {
	b.Legacy = true
	b.Stored.Codec = codecGzip
	text, err := e.readPart(ctx, store, managerObject)
	if err != nil {
		return err
	}
	m, err := decodeManagerMeta(text)
	if err != nil {
		return &problem{err}
	}
	if !m.Created.IsZero() {
		b.Created = m.Created
	}
	b.EtcdVersion, b.Members = m.EtcdVersion, m.Members
	b.Stored.Size = e.files[gzipObject].Size
	return e.checkData(gzipObject, 0)
}

// checkData compares the listed data object with what is known of it. size is 0 if it is not known.
func (e entry) checkData(file string, size int64) error {
	switch data, ok := e.files[file]; {
	case !ok:
		return problemf("the data is missing")
	case size == 0 && data.Size == 0:
		return problemf("the data is empty")
	case size != 0 && data.Size != size:
		return problemf("the data has %d bytes, want %d", data.Size, size)
	}
	return nil
}

// readBegin fills in b from the begin object. If that cannot be decoded, b belongs to nobody.
func (e entry) readBegin(ctx context.Context, store Store, b *Backup) error {
	text, err := e.readPart(ctx, store, beginObject)
	if err != nil {
		return ofStore(err)
	}
	if by, err := decodeBegin(text); err == nil {
		b.Cluster, b.Lineage, b.Node = by.Cluster, by.Lineage, by.Node
	}
	return nil
}

// readPin marks b as pinned, which the presence of the object alone says, and adds the reason.
func (e entry) readPin(ctx context.Context, store Store, b *Backup) error {
	b.Pinned = true
	text, err := e.readPart(ctx, store, pinObject)
	if err != nil {
		return ofStore(err)
	}
	var p pin
	if json.Unmarshal(text, &p) == nil {
		b.PinReason = p.Why
	}
	return nil
}
