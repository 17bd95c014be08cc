package cmd

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

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
// Beside them lie what is overwritten, and arbitrates nothing:
//
//	beacon.json             where the leader of the newest generation stood, every ten seconds
//	here/<hash>.json        a random number of each node's process, put every hour: who finds it shares the store, and has no copy of it
//
// Each of the others is put with the condition that it is not there, and never written again, so that of two who disagree one is
// refused. What is known of an object is asked for once.
type records struct {
	store   snapshot.Store
	cluster string

	mu     sync.Mutex
	probed bool // the store's conditional put was proven to be one
	known  map[snapshot.Version][]byte
	met    string               // the nonce that was put
	nonces map[string]string    // who put them, by nonce
	first  map[string]time.Time // when a proposal or a command was read first here
	clock  clockwork
}

// outcome is what became of a proposal: one of both.
type outcome struct {
	Record *plan.Record `json:"record,omitempty"`
	Abort  *plan.Abort  `json:"abort,omitempty"`
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
	r.meetAll(ctx, l)
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
	if s.Concluded, err = r.concludedBefore(ctx, l, *s.Record); err != nil {
		return plan.Store{}, since, err
	}
	for {
		s.Attempts, s.Aborted = 0, nil
		p, done, err := r.proposal(ctx, l, &s)
		if err != nil {
			return plan.Store{}, since, err
		}
		if p == nil || done.Abort != nil {
			return s, since, nil
		}
		if done.Record == nil && !r.expired(p, l) {
			s.Restore = p.Restore
			return s, since, nil
		}
		if done.Record == nil { // nobody waits for it any more; the condition decides between this and a conclusion
			why := plan.Abort{ID: p.ID, Why: fmt.Sprintf("it was open for longer than %s", p.Lasts)}
			if done.Record, err = r.Abort(ctx, *p.Restore, why); err != nil {
				return s, since, err
			} else if done.Record == nil {
				s.Aborted = append(s.Aborted, why)
				return s, since, nil
			}
		}
		if err := r.Put(ctx, *done.Record); err != nil {
			return plan.Store{}, since, fmt.Errorf("store the record of the "+p.Title()+", which was concluded: %w", err)
		}
		s.Record, since = done.Record, done.when
		s.Concluded = append(s.Concluded, *done.Record)
	}
}

// concludedBefore returns the generations up to a record that a proposal and its outcome prove, in their order.
func (r *records) concludedBefore(ctx context.Context, l listing, newest plan.Record) ([]plan.Record, error) {
	var all []plan.Record
	for _, o := range l.outcomes {
		if o.generation > newest.Generation {
			break
		}
		i := slices.IndexFunc(l.restores, func(p numbered) bool { return p.generation == o.generation && p.attempt == o.attempt })
		if i < 0 {
			continue
		}
		done, err := r.readOutcome(ctx, o.Object)
		if err != nil {
			return nil, err
		}
		c := done.Record
		if c == nil || c.ID != newest.ID && !slices.Contains(newest.Line, c.ID) {
			continue
		}
		p, err := r.readRestore(ctx, l.restores[i].Object)
		if err != nil {
			return nil, err
		}
		if err := matches(o, c, p); err != nil {
			return nil, err
		}
		all = append(all, *c)
	}
	return all, nil
}

// matches refuses a record that is not the outcome of its proposal: then one of both was put there by hand.
func matches(at numbered, c *plan.Record, p *plan.Restore) error {
	if c.ID == p.ID && c.Generation == at.generation && p.Generation == at.generation && c.Parent() == p.Parent() {
		return nil
	}
	return fmt.Errorf("%s in the store is of another proposal than the one beside it: find out who put it there", at.Name)
}

// expired reports whether a proposal has been open for longer than it lasts, by the store's own time: another object is that much
// younger. A process that has seen it for as long knows it as well. No clock is compared with another one.
func (r *records) expired(p *placed, l listing) bool {
	return p.Lasts > 0 && r.older(p.ID, p.when, p.Lasts, l)
}

// older reports whether an object that the store got at a time is older than d, as expired says. key names it for good.
func (r *records) older(key string, when time.Time, d time.Duration, l listing) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil {
		r.first = map[string]time.Time{}
	}
	first, seen := r.first[key]
	if !seen {
		first = time.Now()
		r.first[key] = first
	}
	return l.newest.Sub(when) > d || time.Since(first) > d
}

// placed is a proposal and when the store got it.
type placed struct {
	*plan.Restore
	when time.Time
}

// concluded is an outcome and when the store got it.
type concluded struct {
	outcome
	when time.Time
}

// proposal returns the last proposal for the generation after that of s, and its outcome, zero if it is open. One that continues
// from another record is of a cluster that was given up: it only counts as an attempt, which is its name. Those that were aborted
// are noted in s.
func (r *records) proposal(ctx context.Context, l listing, s *plan.Store) (p *placed, done concluded, err error) {
	for _, o := range l.restores {
		if o.generation != s.Record.Generation+1 {
			continue
		}
		s.Attempts = o.attempt
		read, err := r.readRestore(ctx, o.Object)
		if err != nil {
			return nil, concluded{}, err
		}
		p, done = nil, concluded{}
		if read.Parent() != s.Record.ID {
			continue
		}
		p = &placed{read, o.Modified}
		i := slices.IndexFunc(l.outcomes, func(d numbered) bool { return d.generation == o.generation && d.attempt == o.attempt })
		if i < 0 {
			continue
		}
		was, err := r.readOutcome(ctx, l.outcomes[i].Object)
		if err != nil {
			return nil, concluded{}, err
		}
		if was.Record != nil {
			if err := matches(l.outcomes[i], was.Record, read); err != nil {
				return nil, concluded{}, err
			}
		}
		if done = (concluded{was, l.outcomes[i].Modified}); was.Abort != nil {
			a := *was.Abort
			a.ID = p.ID
			s.Aborted = append(s.Aborted, a)
		}
	}
	return p, done, nil
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
		return fmt.Errorf("%w: the %s was aborted: %s", coordinator.ErrConflict, p.Title(), done.Abort.Why)
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
func (r *records) Abort(ctx context.Context, p plan.Restore, a plan.Abort) (*plan.Record, error) {
	done, err := r.end(ctx, p, outcome{Abort: &a})
	return done.Record, err
}

// Proposal returns the proposal of this number, nil if there is none.
func (r *records) Proposal(ctx context.Context, generation uint64, attempt int) (*plan.Restore, error) {
	p, err := r.readRestore(ctx, snapshot.Object{Name: r.restoreName(generation, attempt)})
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil
	}
	return p, err
}

func (r *records) beaconName() string { return r.prefix() + "beacon.json" }

// Shine writes the beacon.
func (r *records) Shine(ctx context.Context, b coordinator.Beacon) error {
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	s, err := timed(r.beaconName(), func() error { return r.store.Put(ctx, r.beaconName(), bytes.NewReader(data)) })
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.beacon = s
	return nil
}

// lit is the beacon and when the store got it.
type lit struct {
	coordinator.Beacon
	at time.Time
}

// Beacon reads the beacon, nil if there is none, and how old it is by the store's own time, which it asks by putting an object in
// the name of whoever asks.
func (r *records) Beacon(ctx context.Context, who string) (b *lit, age time.Duration, err error) {
	if err := r.Meet(ctx, who, rand.Text()); err != nil {
		return nil, 0, err
	}
	l, err := r.list(ctx)
	if err != nil {
		return nil, 0, err
	}
	b, err = r.light(ctx, l)
	return b, l.newest.Sub(l.beacon.Modified), err
}

// Lit reads the beacon, nil if there is none.
func (r *records) Lit(ctx context.Context) (*lit, error) {
	l, err := r.list(ctx)
	if err != nil {
		return nil, err
	}
	return r.light(ctx, l)
}

// light reads the beacon, nil if there is none. One that holds anything else is that of an unknown leader: it is advice, and must
// neither hinder a command nor make it believe that the cluster is dead.
func (r *records) light(ctx context.Context, l listing) (*lit, error) {
	if l.beacon.Name == "" {
		return nil, nil
	}
	unknown := coordinator.Beacon{Stand: plan.Stand{Node: "unknown (" + l.beacon.Name + " in the store is damaged)"}}
	if l.beacon.Size > maxRecord {
		return &lit{unknown, l.beacon.Modified}, nil
	}
	data, err := snapshot.ReadObject(ctx, r.store, l.beacon.Name, maxRecord)
	if errors.Is(err, snapshot.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s in the store: %w", l.beacon.Name, err)
	}
	b := lit{at: l.beacon.Modified}
	if json.Unmarshal(data, &b.Beacon) != nil || !plain(b.Record, b.Node, b.Slot, b.Disk, b.Address) || b.Node == "" || b.Revision < 0 {
		b.Beacon = unknown
	}
	return &b, nil
}

// plain reports whether texts from the store are such as holdfast puts there: short, and printable on any terminal.
func plain(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool {
		return len(text) > 255 || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) })
	})
}

// presence is what a process says of itself for those that share the store.
type presence struct {
	Node  string `json:"node"`
	Nonce string `json:"nonce"`
}

const hereDir = "here/"

func (r *records) hereName(node string) string {
	return fmt.Sprintf("%s%s%x.json", r.prefix(), hereDir, sha256.Sum256([]byte(node)))
}

// storeTick is more than the resolution of any store's times.
const storeTick = 2 * time.Second

// Meet puts this process's nonce into the store, once, and again where it is not there any more, or the clock is to be measured.
func (r *records) Meet(ctx context.Context, who, nonce string) error {
	r.mu.Lock()
	met := r.met == nonce && !r.clock.due()
	r.mu.Unlock()
	if met {
		return nil
	}
	data, err := json.Marshal(presence{who, nonce})
	if err != nil {
		return err
	}
	name := r.hereName(who)
	s, err := timed(name, func() error { return r.store.Put(ctx, name, bytes.NewReader(data)) })
	if err != nil {
		return fmt.Errorf("put %s into the store: %w", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.met, r.clock.here, r.clock.again = nonce, s, false
	return nil
}

// Nonces are those of all nodes that were in the store at the last look.
func (r *records) Nonces() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nonces
}

// meetAll reads the nonces of all nodes. One that cannot be read is of nobody. One that is younger than the resolution of the
// store's times is read again: a process that began again may have replaced it.
func (r *records) meetAll(ctx context.Context, l listing) {
	nonces := map[string]string{}
	put := map[string]string{} // by name
	for _, o := range l.here {
		var p presence
		if l.newest.Sub(o.Modified) < storeTick {
			o.Modified = time.Time{} // not kept
		}
		if r.read(ctx, o, &p, func() error { return nil }) == nil && p.Nonce != "" && o.Name == r.hereName(p.Node) {
			nonces[p.Nonce] = p.Node
			put[o.Name] = p.Nonce
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nonces = nonces
	r.clock.listed(l, func(name string) bool { return put[name] == r.met })
	if nonces[r.met] == "" { // of another process of this name and address, which may be a clone
		r.met = ""
	}
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
type listing struct {
	records, restores, outcomes []numbered
	here                        []snapshot.Object
	beacon                      snapshot.Object
	began                       time.Time // by our clock
	newest                      time.Time // the store's time of what it got last
}

var objectName = regexp.MustCompile(`^(record|restore|outcome)-(\d{6,19})(?:-(\d{2,9}))?\.json$`)

func (r *records) list(ctx context.Context) (l listing, err error) {
	l.began = time.Now()
	objects, err := r.store.List(ctx, r.prefix())
	if err != nil {
		return l, fmt.Errorf("list the cluster's records: %w", err)
	}
	for _, o := range objects {
		if o.Modified.After(l.newest) {
			l.newest = o.Modified
		}
		if strings.HasPrefix(o.Name, r.prefix()+hereDir) {
			l.here = append(l.here, o)
			continue
		}
		if o.Name == r.beaconName() {
			l.beacon = o
			continue
		}
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
	return &record, r.read(ctx, o, &record, func() error { return record.Valid() })
}

func (r *records) readRestore(ctx context.Context, o snapshot.Object) (*plan.Restore, error) {
	var p plan.Restore
	return &p, r.read(ctx, o, &p, func() error { return p.Valid() })
}

func (r *records) readOutcome(ctx context.Context, o snapshot.Object) (done outcome, err error) {
	err = r.read(ctx, o, &done, func() error {
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

// read decodes an object, which is fetched only if its name, size and time are new. valid says what is not whole about it. The
// error wraps [coordinator.ErrUnread] when the store has answered.
func (r *records) read(ctx context.Context, o snapshot.Object, v any, valid func() error) error {
	at := o.Version()
	r.mu.Lock()
	data, cached := r.known[at]
	r.mu.Unlock()
	if !cached {
		var err error
		if data, err = snapshot.ReadObject(ctx, r.store, o.Name, maxRecord); err != nil {
			return fmt.Errorf("read %s in the store: %w", o.Name, err)
		}
	}
	switch err := cmp.Or(json.Unmarshal(data, v), valid()); {
	case errors.Is(err, plan.ErrUnsupported):
		return fmt.Errorf("%w: %s in the store is unsupported here: %w: run that version, or a newer one, on this node", coordinator.ErrUnread, o.Name, err)
	case err != nil:
		return fmt.Errorf("%w: %s in the store is damaged: %w; bring it back from another copy of the store", coordinator.ErrUnread, o.Name, err)
	}
	if !cached && !o.Modified.IsZero() {
		r.mu.Lock()
		if r.known == nil {
			r.known = map[snapshot.Version][]byte{}
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
