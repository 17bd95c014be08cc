package embedded

import (
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"

	"holdfast/embedded/plan"
)

// Status is what this member knows of itself, as of its own applied state. The zero value
// is a member that does not run.
type Status struct {
	Running bool // etcd was started and nobody has asked it to stop
	Ready   bool // it has joined its cluster and answers clients

	MemberID  uint64
	ClusterID uint64
	LeaderID  uint64 // that raft has shown last; 0: none known. Only with Confirmed there is one
	Leader    bool
	Learner   bool

	Term      uint64
	Revision  int64
	Compacted int64  // the history up to this revision is gone from this database; 0: all of it is there
	Applied   uint64 // raft index
	Committed uint64 // raft index

	// Confirmed: the member has a leader (R16), for a linearizable read through it was answered that was asked within
	// the last 5 s, and if it leads, since it leads. Asked is when the last one was asked, zero if none was answered
	// since the start; Progress is when the applied index was last seen to grow, which on a leader proves that its disk
	// took a write. Both are monotonic. While there is a leader the index grows every few seconds, also where no client
	// writes. See confirmation.
	//
	// Stalled: raft shows a leader, and yet nothing that was asked in the last 5 s (two election timeouts, if that is
	// longer) was answered. A member that is merely cut off is shown none by then: this one's disk may hang, or it
	// cannot apply what is committed.
	Confirmed bool
	Stalled   bool
	Asked     time.Time
	Progress  time.Time

	Space  plan.Space
	Alarms []Alarm
	// Hashes are of the revisions at which it compacted since it was started, the ten newest at most; and while CORRUPT
	// is up, of the present one.
	Hashes []Hash

	ClusterVersion string // empty until the cluster has agreed on one
	StorageVersion string // of the database; follows the cluster's within seconds, empty before
	ServerVersion  string
	Downgrade      string // version that the cluster is being downgraded to, empty if it is not

	// Trusts are the authorities whose peers this member accepts, as loaded at its start: the first 16 hex digits of
	// each certificate's SHA-256, sorted. Stale: other authorities of peers or of clients stand in the files by now,
	// and a new start would load them. It is at most a second old; files that cannot be read, or hold no certificate,
	// are not Stale.
	Trusts []string
	Stale  bool
}

// Alarm is one raised alarm, NOSPACE or CORRUPT.
type Alarm struct {
	MemberID uint64
	Name     string
}

// Hash is a checksum of all keys and values up to a revision, as etcd makes it when it compacts. Members that agree in
// Revision and Compacted, the revision of the compaction before, have the same data if and only if Sum is the same.
type Hash struct {
	Revision  int64
	Compacted int64
	Sum       uint32
}

// Status never waits for a quorum, nor for a defragmentation, nor longer than a moment for a
// disk that stalls: meanwhile revision and size are those from before. Only while the member
// loads a database its leader has sent it (at most once, when it has fallen far behind) does
// it take as long as that.
func (m *Member) Status() Status {
	s, _ := m.status()
	return s
}

// status also has the life read holdfast's own keys of these names, in the same look at the database.
func (m *Member) status(keys ...string) (Status, *life) {
	l, err := m.running()
	if err != nil {
		return Status{}, nil
	}
	srv := l.etcd.Server
	s := Status{
		Running:       true,
		Ready:         l.ready(),
		MemberID:      uint64(srv.MemberID()),
		ClusterID:     uint64(srv.Cluster().ID()),
		LeaderID:      srv.Lead(),
		Leader:        srv.Leader() == srv.MemberID(),
		Term:          srv.Term(),
		Applied:       srv.AppliedIndex(),
		Committed:     srv.CommittedIndex(),
		ServerVersion: version.Version,
		Trusts:        slices.Clone(l.trust.peers),
		Stale:         l.trust.stale(),
	}
	s.Asked, s.Confirmed = l.leader.confirmed()
	s.Stalled, s.Progress = l.leader.stalled(), l.leader.progress()
	// Not srv.IsLearner: it panics while the member list does not have this member yet.
	if self := srv.Cluster().Member(srv.MemberID()); self != nil {
		s.Learner = self.IsLearner
	}
	for _, a := range srv.Alarms() {
		s.Alarms = append(s.Alarms, Alarm{MemberID: a.MemberID, Name: a.Alarm.String()})
	}
	if v := srv.Cluster().Version(); v != nil {
		s.ClusterVersion = v.String()
	}
	if d := srv.DowngradeInfo(); d.Enabled {
		s.Downgrade = d.TargetVersion
	}
	st := l.stored(keys...)
	s.Revision, s.Compacted, s.Space, s.StorageVersion, s.Hashes = st.revision, st.compacted, st.space, st.version,
		st.hashes
	return s, l
}

// Revision is that of the running member as applied, 0 without one.
func (m *Member) Revision() int64 { return m.Status().Revision }

// stored is what only the backend knows.
type stored struct {
	revision  int64
	compacted int64
	space     plan.Space
	version   string
	hashes    []Hash
}

// stored reads from the backend, or, where it cannot, repeats what it read before. It takes up these keys as well.
func (l *life) stored(keys ...string) stored {
	var now stored
	read := make([]storedKey, len(keys))
	errs := make([]error, len(keys))
	if l.glimpse(func() {
		now = readStored(l.etcd.Server)
		for i, name := range keys {
			read[i], errs[i] = readKey(l.etcd.Server, name)
		}
	}) {
		l.before.Store(&now)
		for i, name := range keys {
			if errs[i] == nil {
				l.keys.Store(name, read[i])
			}
		}
		return now
	}
	if before := l.before.Load(); before != nil {
		return *before
	}
	return stored{}
}

func readStored(srv *etcdserver.EtcdServer) stored {
	quota := srv.Cfg.QuotaBackendBytes
	if quota == 0 {
		quota = storage.DefaultQuotaBytes
	}
	be := srv.Backend()
	st := stored{revision: srv.KV().Rev(), space: plan.Space{Size: be.Size(), InUse: be.SizeInUse(), Quota: quota}}
	tx := be.ReadTx()
	if v := schema.ReadStorageVersion(tx); v != nil {
		st.version = v.String()
	}
	tx.RLock() // not FirstRev: that is said as soon as a compaction begins
	st.compacted, _ = mvcc.UnsafeReadFinishedCompact(tx)
	tx.RUnlock()
	if alarmed(srv, pb.AlarmType_NOSPACE) {
		st.space.InUse -= pending(be)
	}
	st.hashes = hashes(srv, st.revision)
	return st
}

// hashes are those that etcd keeps of its compactions. While CORRUPT is up there are no more of those, and the ones of
// before are gone if the member was restarted; then nobody writes either, so the present revision is hashed, once.
func hashes(srv *etcdserver.EtcdServer, revision int64) (all []Hash) {
	kept := srv.KV().HashStorage()
	for _, h := range kept.Hashes() {
		all = append(all, Hash{h.Revision, h.CompactRevision, h.Hash})
	}
	if !alarmed(srv, pb.AlarmType_CORRUPT) || slices.ContainsFunc(all, func(h Hash) bool { return h.Revision == revision }) {
		return all
	}
	h, _, err := kept.HashByRev(revision) // reads all; meanwhile Status repeats what it said before
	if err != nil {
		return all
	}
	kept.Store(h)
	return append(all, Hash{h.Revision, h.CompactRevision, h.Hash})
}

// pending is how many bytes the last transaction has freed. Bbolt counts them as free when the next one begins, and
// while NOSPACE is up there may be none: what was deleted would never show.
func pending(be backend.Backend) int64 {
	snap := be.Snapshot()
	defer snap.Close()
	tx, ok := snap.(interface{ DB() *bolt.DB })
	if !ok {
		return 0
	}
	return int64(tx.DB().Stats().PendingPageN) * int64(tx.DB().Info().PageSize)
}

// freeze and thaw enclose a defragmentation, inside the gate.
func (l *life) freeze() {
	l.stored()
	l.backend.Lock()
}

func (l *life) thaw() { l.backend.Unlock() }
