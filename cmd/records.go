package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// records keeps a cluster's generations in the backup store, below holdfast/<cluster>/:
//
//	record-000002.json      the record of generation 2
//	restore-000002-01.json  the first proposal to begin it
//	outcome-000002-01.json  what became of that: the record, or why it was aborted
//	aside-000001-<id>.json  the record of a cluster that was given up
//
// Each is put with the condition that it is not there, and never written again, so that of two who disagree one is
// refused. What is known of an object is asked for once.
type records struct {
	store   snapshot.Store
	cluster string

	mu     sync.Mutex
	probed bool // the store's conditional put was proven to be one
	known  map[seen][]byte
}

// seen identifies what an object held when it was listed.
type seen struct {
	name     string
	size     int64
	modified int64 // Unix time in ns
}

// outcome is what became of a proposal: one of both.
type outcome struct {
	Record  *plan.Record `json:"record,omitempty"`
	Aborted string       `json:"aborted,omitempty"` // why
}

const maxRecord = 64 << 10 // bytes

// ID also proves, once, that the store can arbitrate: else it is no evidence of anything.
func (r *records) ID(ctx context.Context) (string, error) {
	r.mu.Lock()
	probed := r.probed
	r.mu.Unlock()
	if !probed {
		if err := snapshot.Probe(ctx, r.store); err != nil {
			return "", err
		}
		r.mu.Lock()
		r.probed = true
		r.mu.Unlock()
	}
	return snapshot.StoreID(ctx, r.store)
}

func (r *records) prefix() string { return "holdfast/" + r.cluster + "/" }

func (r *records) recordName(generation uint64) string {
	return fmt.Sprintf("%srecord-%06d.json", r.prefix(), generation)
}

func (r *records) restoreName(generation uint64, attempt int) string {
	return fmt.Sprintf("%srestore-%06d-%02d.json", r.prefix(), generation, attempt)
}

func (r *records) outcomeName(generation uint64, attempt int) string {
	return fmt.Sprintf("%soutcome-%06d-%02d.json", r.prefix(), generation, attempt)
}

// Newest returns the newest record, nil if there is none.
func (r *records) Newest(ctx context.Context) (*plan.Record, error) {
	l, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	s, _, err := r.state(ctx, l)
	return s.Record, err
}

// Known returns what the store knows but its ID: the newest record, the proposal that is open, and the commands that
// wait.
func (r *records) Known(ctx context.Context) (plan.Store, error) {
	l, err := r.list(ctx)
	if err != nil {
		return plan.Store{}, err
	}
	s, since, err := r.state(ctx, l)
	if err == nil && s.Record != nil {
		s.Requests, err = r.requests(ctx, l, s, since)
	}
	if err != nil {
		return plan.Store{}, err
	}
	return s, nil
}

// state returns what the store knows of generations, and since when it has known the newest. It completes what a crash
// has left half done: a proposal that was concluded has a record.
func (r *records) state(ctx context.Context, l listing) (s plan.Store, since time.Time, err error) {
	if len(l.records) == 0 {
		return s, since, nil
	}
	newest := l.records[len(l.records)-1]
	if s.Record, err = r.readRecord(ctx, newest.Object); err != nil {
		return plan.Store{}, since, err
	}
	since = newest.Modified
	for {
		p, done, err := r.proposal(ctx, l, *s.Record, &s.Attempts)
		if err != nil {
			return plan.Store{}, since, err
		}
		if p == nil || done.Aborted != "" {
			return s, since, nil
		}
		if done.Record == nil && (p.Until.IsZero() || time.Now().Before(p.Until)) {
			s.Restore = p
			return s, since, nil
		}
		if done.Record == nil { // nobody waits for it any more; the condition decides between this and a conclusion
			why := "it was still open at " + p.Until.Format(time.RFC3339) + ", when its time was over"
			if done.Record, err = r.Abort(ctx, *p, why); err != nil || done.Record == nil {
				return s, since, err
			}
		}
		if err := r.Put(ctx, *done.Record); err != nil {
			return plan.Store{}, since, fmt.Errorf("store the record of the "+p.Title()+", which was concluded: %w", err)
		}
		s.Record, s.Attempts, since = done.Record, 0, done.when
	}
}

// concluded is an outcome and when the store got it.
type concluded struct {
	outcome
	when time.Time
}

// proposal returns the last proposal for the generation after a record, and its outcome, zero if it is open. One that
// goes on from another record is of a cluster that was given up: it only counts as an attempt, which is its name.
func (r *records) proposal(ctx context.Context, l listing, after plan.Record, attempts *int) (*plan.Restore, concluded, error) {
	var last *numbered
	for i, o := range l.restores {
		if o.generation == after.Generation+1 {
			last = &l.restores[i]
		}
	}
	if last == nil {
		return nil, concluded{}, nil
	}
	*attempts = last.attempt
	p, err := r.readRestore(ctx, last.Object)
	if err != nil || p.Parent() != after.ID {
		return nil, concluded{}, err
	}
	i := slices.IndexFunc(l.outcomes, func(o numbered) bool { return o.generation == last.generation && o.attempt == last.attempt })
	if i < 0 {
		return p, concluded{}, nil
	}
	done, err := r.readOutcome(ctx, l.outcomes[i].Object)
	return p, concluded{done, l.outcomes[i].Modified}, err
}

// Put stores a record. The error wraps [coordinator.ErrConflict] when there is another one of its generation.
func (r *records) Put(ctx context.Context, record plan.Record) error {
	name := r.recordName(record.Generation)
	err := r.put(ctx, name, record)
	if !errors.Is(err, snapshot.ErrExists) {
		return err
	}
	other, err := r.readRecord(ctx, snapshot.Object{Name: name})
	if err != nil {
		return err
	}
	if other.ID != record.ID {
		return fmt.Errorf("%w: %s", coordinator.ErrConflict, other.Token())
	}
	return nil
}

// Propose stores a proposal. The error wraps [coordinator.ErrConflict] when there is another one of this number.
func (r *records) Propose(ctx context.Context, p plan.Restore) error {
	name := r.restoreName(p.Generation, p.Attempt)
	err := r.put(ctx, name, p)
	if !errors.Is(err, snapshot.ErrExists) {
		return err
	}
	other, err := r.readRestore(ctx, snapshot.Object{Name: name})
	if err != nil {
		return err
	}
	if other.ID != p.ID {
		return fmt.Errorf("%w: the %s, proposed by %s", coordinator.ErrConflict, other.Title(), other.By)
	}
	return nil
}

// Conclude makes a record the outcome of its proposal, which is the point of no return. The error wraps
// [coordinator.ErrConflict] when the proposal was aborted before.
func (r *records) Conclude(ctx context.Context, record plan.Record) error {
	p := *record.Restore
	done, err := r.end(ctx, p, outcome{Record: &record})
	if err != nil {
		return err
	}
	if done.Record == nil {
		return fmt.Errorf("%w: the %s was aborted: %s", coordinator.ErrConflict, p.Title(), done.Aborted)
	}
	if err := r.Put(ctx, *done.Record); err != nil {
		return err
	}
	if p.Command == "" {
		return nil
	}
	return snapshot.DeleteCommand(ctx, r.store, p.Command)
}

// Abort ends an open proposal. It returns the record if it was concluded before, and then nothing was aborted.
func (r *records) Abort(ctx context.Context, p plan.Restore, why string) (*plan.Record, error) {
	done, err := r.end(ctx, p, outcome{Aborted: why})
	return done.Record, err
}

// end stores the outcome of a proposal and returns the one that holds.
func (r *records) end(ctx context.Context, p plan.Restore, o outcome) (outcome, error) {
	name := r.outcomeName(p.Generation, p.Attempt)
	err := r.put(ctx, name, o)
	if errors.Is(err, snapshot.ErrExists) {
		return r.readOutcome(ctx, snapshot.Object{Name: name})
	}
	return o, err
}

// MoveAside gives the cluster up: its records are kept under other names, the newest last, so that a crash in between
// leaves the store knowing the cluster.
func (r *records) MoveAside(ctx context.Context, record plan.Record) error {
	l, err := r.list(ctx)
	if err != nil {
		return err
	}
	for _, o := range l.records {
		if o.generation > record.Generation {
			return fmt.Errorf("%w: the store knows generation %d by now", coordinator.ErrConflict, o.generation)
		}
		old, err := r.readRecord(ctx, o.Object)
		if err != nil {
			return err
		}
		aside := fmt.Sprintf("%saside-%06d-%s.json", r.prefix(), old.Generation, old.ID)
		if err := r.put(ctx, aside, old); err != nil && !errors.Is(err, snapshot.ErrExists) {
			return err
		}
		if err := r.store.Delete(ctx, o.Name); err != nil {
			return err
		}
	}
	return nil
}

// numbered is an object whose name tells a generation and, unless it is a record, an attempt.
type numbered struct {
	snapshot.Object
	generation uint64
	attempt    int
}

// listing is the cluster's objects in the store, each kind in the order of its numbers.
type listing struct{ records, restores, outcomes []numbered }

var objectName = regexp.MustCompile(`^(record|restore|outcome)-(\d{6,19})(?:-(\d{2,9}))?\.json$`)

func (r *records) list(ctx context.Context) (l listing, err error) {
	objects, err := r.store.List(ctx, r.prefix())
	if err != nil {
		return l, fmt.Errorf("list the cluster's records: %w", err)
	}
	for _, o := range objects {
		m := objectName.FindStringSubmatch(strings.TrimPrefix(o.Name, r.prefix()))
		if m == nil || (m[1] == "record") != (m[3] == "") {
			continue
		}
		n := numbered{Object: o}
		n.generation, _ = strconv.ParseUint(m[2], 10, 64) // 19 digits fit
		n.attempt, _ = strconv.Atoi(m[3])
		kind := map[string]*[]numbered{"record": &l.records, "restore": &l.restores, "outcome": &l.outcomes}[m[1]]
		*kind = append(*kind, n)
	}
	for _, kind := range [][]numbered{l.records, l.restores, l.outcomes} {
		slices.SortFunc(kind, func(a, b numbered) int {
			return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.attempt, b.attempt))
		})
	}
	return l, nil
}

func (r *records) readRecord(ctx context.Context, o snapshot.Object) (*plan.Record, error) {
	var record plan.Record
	return &record, r.read(ctx, o, &record, func() bool { return record.ID != "" && record.Generation > 0 })
}

func (r *records) readRestore(ctx context.Context, o snapshot.Object) (*plan.Restore, error) {
	var p plan.Restore
	return &p, r.read(ctx, o, &p, func() bool {
		return p.ID != "" && len(p.Line) > 0 && (p.Backup != "" && p.Digest != "" || p.Survivor != "" && p.Disk != "")
	})
}

func (r *records) readOutcome(ctx context.Context, o snapshot.Object) (done outcome, err error) {
	err = r.read(ctx, o, &done, func() bool { return (done.Record == nil) != (done.Aborted == "") })
	return done, err
}

// read decodes an object, which is fetched only if its name, size and time are new. good says whether it makes sense.
func (r *records) read(ctx context.Context, o snapshot.Object, v any, good func() bool) error {
	at := seen{o.Name, o.Size, o.Modified.UnixNano()}
	r.mu.Lock()
	data, cached := r.known[at]
	r.mu.Unlock()
	if !cached {
		var err error
		if data, err = get(ctx, r.store, o.Name, maxRecord); err != nil {
			return fmt.Errorf("read %s in the store: %w", o.Name, err)
		}
	}
	if err := json.Unmarshal(data, v); err != nil || !good() {
		return fmt.Errorf("%s in the store is damaged; bring it back from another copy of the store: %w", o.Name, cmp.Or(err, errors.New("it is not what its name says")))
	}
	if !cached && !o.Modified.IsZero() {
		r.mu.Lock()
		if r.known == nil {
			r.known = map[seen][]byte{}
		}
		r.known[at] = data
		r.mu.Unlock()
	}
	return nil
}

func (r *records) put(ctx context.Context, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return r.store.PutIfAbsent(ctx, name, append(data, '\n'))
}
