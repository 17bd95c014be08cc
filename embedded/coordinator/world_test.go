package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"holdfast/embedded/plan"
)

// world is a world of one node that behaves as a test says. Real processes are in integration; here are the failures
// that cannot be caused there at will.
type world struct {
	unclaimed error // why no volume can be claimed
	claiming  bool  // a claim lasts until it is cancelled
	t         *testing.T
	dir       string
	lost      chan error

	mu          sync.Mutex
	member      plan.Member
	ended       error // why etcd ended by itself
	data        plan.DataDir
	starts      []plan.Spec
	startErr    error
	stopErr     error
	hang        chan struct{} // Start waits for it, if set
	killed      bool
	released    []Release
	giving      func() // called while the volume is released, if set
	removed     []uint64
	added       []string
	unreachable map[string]error // by peer URL
	store       func(ctx context.Context) (string, error)
	nodes       []Node
	forgets     func() // when Nodes forgets the nodes, if the disk has a record; nil: never
	answer      []byte
	looking     func()                                             // called at the end of each observation, if set
	asking      func()                                             // called when another node is asked, if set
	told        func(node string) ([]byte, error)                  // a node's facts when asked, before answer, if set
	rival       func(node string, question []byte) ([]byte, error) // a node's answer to one that is about to start, if set
	bolt        string                                             // the name of the lock on the volume
	asked       []string                                           // questions
	failed      []string
	ending      []string
	twin        netip.Addr
	twins       []string
	borne       string // the record that the volume shows

	witnesses  []plan.Witness
	deaf       bool // changes of the member list have no effect
	knows      plan.Store
	expected   []string // nodes to be asked for by name
	nonces     map[string]string
	backups    backups
	full       error
	unfit      error
	locked     []byte            // the disruption lock
	kept       map[string][]byte // holdfast's other keys; nil: all are as locked
	left       []string          // the disruption lock at each Stop
	handed     []time.Duration   // to hand over, at each Stop
	mute       bool              // etcd does not answer attempts to take the lock
	db         database
	aside      []plan.Aside
	reclaimed  []time.Time
	aborted    []string
	dismissed  []string
	shone      []string
	attested   []string      // IDs of the records
	proposed   *plan.Restore // in the store, but not in the last look at the whole store
	marked     []uint64
	readOnly   bool
	origin     *plan.Origin // another program's data
	strange    error        // why it cannot be read
	inUse      string       // what another program's etcd works on
	superseded string       // why data that was taken over is out of date
	steps      []string     // of a takeover
	room       plan.Room
	database   int64 // of the others

	standing   plan.Standing
	refuses    bool
	campaigns  []plan.Standing
	campaigned []string
	says       map[string][]byte // answers of single nodes, before answer
	looks      int               // at the standing
	glances    int
	rest       time.Duration // after a glance
	silent     []uint64      // members that look connected and do not answer
	heir       func()        // called when the leadership is handed over, if set
	heirless   error         // why it is not
	stopped    func()        // called when etcd has stopped, if set
}

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: t.TempDir(), lost: make(chan error, 1), store: func(context.Context) (string, error) { return "store", nil }}
}

func (w *world) coordinator(slots ...string) *Coordinator {
	return New(Config{Node: "n1", Address: netip.MustParseAddr("127.0.0.1"), StopWait: 10 * time.Second, Hold: time.Minute,
		Plan: plan.Config{Cluster: "test", Slots: slots, PeerURL: "http://{slot}.test:2380", Etcd: "3.7.3"}},
		World{Volumes: w, Mesh: w, Names: w, Elders: func() map[string][]netip.Addr { return nil }, Etcd: w, Store: stores{w}, Backups: &w.backups, Looked: func(Situation) {}, Decided: func(plan.Action) {},
			Failed: func(a plan.Action, err error) { w.note(&w.failed, string(a.Kind)+": "+err.Error()) }, Step: func(string) {},
			Rooms:      func(string) Rooms { w.mu.Lock(); defer w.mu.Unlock(); return Rooms{Volume: w.room} },
			Database:   func(context.Context, string) int64 { w.mu.Lock(); defer w.mu.Unlock(); return w.database },
			Campaigned: func(r plan.Reason) { w.note(&w.campaigned, string(r)) },
			Ending:     func(why string) { w.note(&w.ending, fmt.Sprintf("%s, etcd killed: %v", why, w.killed)) }},
		zaptest.NewLogger(w.t))
}

func (w *world) note(list *[]string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, text)
}

func (w *world) Claim(ctx context.Context, _, _ []string, avoid map[string]string) (Volume, error) {
	if w.claiming {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if w.unclaimed != nil {
		return nil, w.unclaimed
	}
	if why := avoid["a"]; why != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoVolume, why)
	}
	return w, nil
}
func (w *world) Witnesses() []plan.Witness {
	if w.looking != nil {
		w.looking()
	}
	return w.witnesses
}
func (w *world) Standby() string        { return "zone-1" }
func (w *world) SetRecord(token string) { w.mu.Lock(); defer w.mu.Unlock(); w.borne = token }
func (w *world) Identity() plan.Volume {
	return plan.Volume{Slot: "a", ID: "test:a", Disk: "disk-a", Epoch: 1, Lock: w.bolt, Path: w.dir}
}
func (w *world) Trouble() (mismatch, missing string) { return "", "" }
func (w *world) SetAllAside(ctx context.Context) error {
	return ctx.Err()
}
func (w *world) Watch(ctx context.Context) error {
	select {
	case err := <-w.lost:
		return err
	case <-ctx.Done():
		return nil
	}
}
func (w *world) Release(_ context.Context, how Release) error {
	if w.giving != nil {
		w.giving()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released = append(w.released, how)
	return nil
}

func (w *world) Publish([]byte) {}
func (w *world) Nodes(accepted bool) []Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	if accepted && w.forgets != nil {
		w.forgets()
		return nil
	}
	return w.nodes
}
func (w *world) Changed() <-chan struct{} { return nil }
func (w *world) Ask(ctx context.Context, node string, question []byte) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	w.note(&w.asked, node+" "+string(question))
	if w.asking != nil {
		w.asking()
	}
	if said := w.says[node]; said != nil && (string(question) == askForStanding || string(question) == askWhoAnswers) {
		return said, nil
	}
	switch starts := strings.HasPrefix(string(question), askToStart); {
	case w.rival != nil && starts:
		return w.rival(node, question)
	case w.told != nil && string(question) == askForFacts:
		return w.told(node)
	case w.told != nil && starts:
		facts, err := w.told(node)
		if err != nil {
			return nil, err
		}
		return json.Marshal(said{Facts: facts})
	}
	if w.answer == nil {
		return nil, errors.New("it is gone")
	}
	return w.answer, nil
}
func (w *world) Twin() (netip.Addr, bool)    { return w.twin, w.twin.IsValid() }
func (w *world) Twins() (all []string)       { w.set(func() { all = w.twins }); return all }
func (w *world) Set(map[string][]netip.Addr) {}
func (w *world) Adopt(bool)                  {}
func (w *world) Check(context.Context) error { return nil }

func (w *world) Key(name string) ([]byte, int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name != plan.KeyLock && w.kept != nil {
		if v := w.kept[name]; v != nil {
			return v, 1, nil
		}
		return nil, 0, nil
	}
	return w.locked, 1, nil
}
func (w *world) PutKey(_ context.Context, name string, value []byte, _ int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.readOnly {
		return plan.ErrReadOnly
	}
	if name == plan.KeyConsent {
		if w.member.Consent = nil; value != nil {
			w.member.Consent = new(plan.Consent)
			if err := json.Unmarshal(value, w.member.Consent); err != nil {
				return err
			}
		}
	}
	if w.kept != nil {
		w.kept[name] = value
	}
	return nil
}

// mark shows the marks among the alarms.
func (w *world) mark() {
	w.member.Alarms = nil
	for _, m := range w.marked {
		w.member.Alarms = append(w.member.Alarms, plan.Alarm{Name: plan.NoSpace, Member: plan.ID(m)})
	}
}
func (w *world) Mark(_ context.Context, mark uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marked = append(w.marked, mark)
	w.mark()
	return nil
}
func (w *world) Unmark(_ context.Context, mark uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.marked = slices.DeleteFunc(slices.Clone(w.marked), func(m uint64) bool { return m == mark })
	w.mark()
	return nil
}
func (w *world) Glance() (plan.Glance, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.glances++
	s := w.standing
	if !s.Running {
		return plan.Glance{}, 0
	}
	return plan.Glance{Lead: s.Lead, Term: s.Term, Leads: s.Lead == s.ID,
		Doubtful: s.Lead != s.ID && (s.Lead == 0 || !slices.Contains(s.Near, s.Lead))}, w.rest
}
func (w *world) Standing() plan.Standing {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	return w.standing
}
func (w *world) Heard(context.Context) (ids []uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.member.Members {
		if w.member.Leader && m.Connected && !slices.Contains(w.silent, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}
func (w *world) Refused(context.Context, uint64) bool { return w.refuses } // no lock: it would hide data races between questions
func (w *world) Campaign(_ context.Context, s plan.Standing) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.campaigns = append(w.campaigns, s)
	w.standing.Term, w.standing.Lead = s.Term+1, 0
	return nil
}
func (w *world) MemberList(string) ([]plan.MemberInfo, error) {
	return []plan.MemberInfo{{ID: 1, Slot: "a"}}, nil
}
func (w *world) Fit(string) error { w.mu.Lock(); defer w.mu.Unlock(); return w.unfit }
func (w *world) Origin(string) (*plan.Origin, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.origin, w.strange
}
func (w *world) TakeUp(string, plan.Origin) error  { w.note(&w.steps, "take up"); return nil }
func (w *world) InUse(string) (string, error)      { w.mu.Lock(); defer w.mu.Unlock(); return w.inUse, nil }
func (w *world) Superseded(string) (string, error) { return w.superseded, nil }
func (w *world) Inspect(string) (plan.DataDir, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data, nil
}
func (w *world) SetAside(dir, reason string) (string, error) {
	to := dir + "-" + reason
	if err := os.Rename(dir, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return to, nil
}
func (w *world) Room(string, int64) error   { w.mu.Lock(); defer w.mu.Unlock(); return w.full }
func (w *world) Database(dir string) string { return filepath.Join(dir, "member", "db") }
func (w *world) Aside(string) ([]plan.Aside, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.aside, nil
}
func (w *world) Reclaim(volume string, before time.Time, reasons []string) (_ []plan.Aside, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reclaimed = append(w.reclaimed, before)
	for _, reason := range reasons {
		err = errors.Join(err, os.RemoveAll(filepath.Join(volume, EtcdDir+"-"+reason)))
	}
	return nil, err
}
func (w *world) Rebuild(_ context.Context, dir string, s plan.Spec, bump int64) error {
	if _, err := os.Stat(w.Database(dir)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "wal"), fmt.Appendf(nil, "%s %s %d", s.Token, s.Peers[s.Slot], bump), 0o600)
}
func (w *world) Recover(_ context.Context, from, dir string, progress func(Progress)) (plan.LogEnd, error) {
	progress(Progress{Phase: "copying", Total: 1})
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data.Log, os.WriteFile(w.Database(dir), []byte(from), 0o600)
}
func (w *world) FounderIDs(r plan.Record) (map[string]uint64, uint64, error) {
	return map[string]uint64{"a": 1, "b": 2, "c": 3}, 77, nil
}
func (w *world) Start(ctx context.Context, s plan.Spec) error {
	w.mu.Lock()
	hang, err := w.hang, w.startErr
	w.starts = append(w.starts, s)
	w.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.member = plan.Member{Running: true, Ready: true, Status: plan.Status{HasLead: true, Confirmed: true, Leader: true}, ID: 1, Members: []plan.MemberInfo{{ID: 1, Slot: s.Slot}}}
		w.data = plan.DataDir{WAL: true, Unborn: w.data.Unborn, Member: 1, ClusterID: 77}
		w.lock(w.locked)
	}
	return err
}
func (w *world) Stop(_ context.Context, handOver time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left, w.handed = append(w.left, string(w.locked)), append(w.handed, handOver)
	if w.stopErr == nil {
		w.member = plan.Member{}
		if w.stopped != nil {
			w.stopped()
		}
	}
	return w.stopErr
}
func (w *world) Kill() { w.mu.Lock(); defer w.mu.Unlock(); w.killed = true }
func (w *world) State() (plan.Member, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.member, w.ended
}
func (w *world) Leads() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.member.Leader
}
func (w *world) IsRemoved(uint64) bool                 { return false }
func (w *world) Promote(context.Context, uint64) error { return plan.ErrNotReady }
func (w *world) Update(_ context.Context, _ uint64, url string) error {
	w.note(&w.added, url)
	return nil
}
func (w *world) Reach(_ context.Context, url string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unreachable[url]
}
func (w *world) AddLearner(_ context.Context, url string) (uint64, error) {
	w.note(&w.added, url)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf {
		return 9, nil
	}
	w.member.Members = append(w.member.Members, plan.MemberInfo{ID: 9, Slot: "b", Learner: true})
	return 9, nil
}
func (w *world) Remove(_ context.Context, id uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = append(w.removed, id)
	if w.deaf {
		return nil
	}
	w.member.Members = slices.DeleteFunc(slices.Clone(w.member.Members), func(m plan.MemberInfo) bool { return m.ID == id })
	return nil
}

type stores struct{ *world }

func (s stores) ID(ctx context.Context) (string, error) { return s.store(ctx) }
func (s stores) Known(_ context.Context, expect ...string) (plan.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = expect
	return s.knows, nil
}
func (s stores) Put(_ context.Context, r plan.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knows.Record = &r
	return nil
}
func (s stores) Replace(_ context.Context, _, with plan.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knows.Record, s.knows.Returned = &with, false
	return nil
}
func (s stores) Attest(_ context.Context, mine plan.Record) error {
	s.note(&s.attested, mine.ID)
	return nil
}
func (s stores) MoveAside(context.Context, *plan.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knows.Managed = ""
	return nil
}
func (s stores) Dismiss(_ context.Context, command string) error {
	s.note(&s.dismissed, command)
	return nil
}
func (s stores) Propose(context.Context, plan.Restore) error { return nil }
func (s stores) Conclude(context.Context, plan.Record) error { return nil }
func (s stores) Abort(_ context.Context, r plan.Restore, _ plan.Abort) (*plan.Record, error) {
	s.note(&s.aborted, r.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.knows.Restore; p != nil && p.ID == r.ID {
		s.knows.Restore = nil
	}
	return nil, nil
}
func (s stores) Meet(context.Context, string, string) error { return nil }
func (s stores) Nonces() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonces
}
func (s stores) Shine(context.Context, Beacon) error { s.note(&s.shone, "shone"); return nil }
func (s stores) Proposal(_ context.Context, generation uint64, attempt int) (*plan.Restore, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proposed, nil
}
