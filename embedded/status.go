package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
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
	"go.etcd.io/raft/v3/tracker"

	"holdfast/durable"
	"holdfast/embedded/plan"
)

// Status returns what the member says of itself; the zero value if it does not run. It never waits for a quorum or a
// defragmentation, and only a moment for a stalled disk. Meanwhile it repeats the last revision and size. There is one
// exception: a member that has fallen far behind loads a database from its leader, and Status waits for that. State
// adds the other members and holdfast's own keys.
func (m *Member) Status() plan.Member {
	s, _ := m.status()
	return s
}

// status also makes the life read these keys of holdfast's own, in the same read of the database.
func (m *Member) status(keys ...string) (plan.Member, *life) {
	l, err := m.running()
	if err != nil {
		return plan.Member{}, nil
	}
	srv := l.etcd.Server
	s := plan.Member{
		Running: true, Ready: l.ready(), ID: uint64(srv.MemberID()), Cluster: uint64(srv.Cluster().ID()),
		Status: plan.Status{
			HasLead: srv.Lead() != 0, LeaderID: plan.ID(srv.Lead()), Leader: srv.Leader() == srv.MemberID(),
			Term: srv.Term(), Applied: srv.AppliedIndex(), Version: version.Version,
		},
		Trusts: slices.Clone(l.trust.peers), Stale: l.trust.stale(),
	}
	s.Asked, s.Confirmed = l.leader.confirmed()
	s.Stalled, s.Progress = l.leader.stalled(), l.leader.progress()
	// srv.IsLearner would panic while the member list does not have this member yet.
	if self := srv.Cluster().Member(srv.MemberID()); self != nil {
		s.Learner = self.IsLearner
	}
	for _, a := range srv.Alarms() {
		s.Alarms = append(s.Alarms, plan.Alarm{Name: a.Alarm.String(), Member: plan.ID(a.MemberID)})
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

// State is Status plus the other members and what the cluster stores for holdfast, but without the member's own
// certificate. ended says why etcd ended by itself. Like Status it waits for nothing.
func (m *Member) State() (p plan.Member, ended error) {
	p, l := m.status(plan.KeyConsent, plan.KeySlots, plan.KeyLock, plan.KeyPaused)
	if l == nil {
		if ended = m.Err(); errors.Is(ended, errRemoved) {
			return plan.Member{Removed: true}, nil
		}
		return p, ended
	}
	p.Consent, p.Set = decoded[plan.Consent](l, plan.KeyConsent), decoded[plan.SlotSet](l, plan.KeySlots)
	p.Lock, p.Paused = decoded[plan.Lock](l, plan.KeyLock), decoded[plan.Pause](l, plan.KeyPaused)
	p.Snapshot, p.Members = !m.Quiet(), m.Members()
	var logs map[uint64]tracker.Progress
	p.Leads, logs = l.leads()
	for i := range p.Members {
		info := &p.Members[i]
		connected := m.Connected(info.ID)
		if connected {
			p.Near = append(p.Near, info.ID)
		}
		info.Connected = connected && p.Leader
		info.Matched, info.Receiving = logs[info.ID].Match, logs[info.ID].State == tracker.StateSnapshot
		if info.ID != p.ID { // a member's word on its own disk does not count
			info.Acked = info.Matched
		}
	}
	return p, nil
}

// decoded returns one of holdfast's own keys as last read, decoded. A key that was not read, or cannot be decoded,
// counts as absent.
func decoded[T any](l *life, name string) *T {
	k, _ := l.keys.Load(name)
	read, _ := k.(storedKey)
	v := new(T)
	if read.version == 0 || json.Unmarshal(read.value, v) != nil {
		return nil
	}
	return v
}

// stored is what Status reads from the database.
type stored struct {
	revision  int64
	compacted int64
	space     plan.Space
	version   string
	hashes    []plan.Hash
}

// stored reads the database or, if it cannot, repeats what it read before. It also reads the given keys of holdfast's
// own.
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
		l.lastStored.Store(&now)
		for i, name := range keys {
			if errs[i] == nil {
				l.keys.Store(name, read[i])
			}
		}
		return now
	}
	if before := l.lastStored.Load(); before != nil {
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
	tx.RLock() // not FirstRev, which changes as soon as a compaction begins
	st.compacted, _ = mvcc.UnsafeReadFinishedCompact(tx)
	tx.RUnlock()
	if alarmed(srv, pb.AlarmType_NOSPACE) {
		st.space.InUse -= pending(be)
	}
	st.hashes = hashes(srv, st.revision)
	return st
}

// hashes returns the hashes that etcd keeps of its compactions. While CORRUPT is up there are no compactions, and a
// restart has dropped earlier hashes. Nobody writes then either, so the current revision is hashed, once.
func hashes(srv *etcdserver.EtcdServer, revision int64) (all []plan.Hash) {
	kept := srv.KV().HashStorage()
	for _, h := range kept.Hashes() {
		all = append(all, hashOf(h))
	}
	at := func(h plan.Hash) bool { return h.Revision == revision }
	if !alarmed(srv, pb.AlarmType_CORRUPT) || slices.ContainsFunc(all, at) {
		return all
	}
	h, _, err := kept.HashByRev(revision) // reads everything; meanwhile Status repeats its last answer
	if err != nil {
		return all
	}
	kept.Store(h)
	return append(all, hashOf(h))
}

func hashOf(h mvcc.KeyValueHash) plan.Hash {
	return plan.Hash{Revision: h.Revision, Compacted: h.CompactRevision, Sum: fmt.Sprintf("%08x", h.Hash)}
}

// pending returns how many bytes the last transaction has freed. bbolt counts them as free when the next one begins,
// and while NOSPACE is up there may be none. Without pending, a deletion would never show.
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

// glimpseWait is how long a read of the database may take before the previous result is used instead.
const glimpseWait = 500 * time.Millisecond

// errBusy: the database cannot be read at the moment, and the value was never read before.
var errBusy = errors.New("the database is being defragmented, or its disk stalls")

// lastGlimpse waits for the read in progress and prevents any further one. The database is about to be closed, and
// reading a closed database ends the process. It does not wait for a read that hangs because the disk has stalled.
func (l *life) lastGlimpse() {
	durable.Soon(2*glimpseWait, func() error {
		l.backend.Lock() // never unlocked
		return nil
	})
}

// glimpse runs read, which reads the database, and reports whether it finished in time. It does not finish during a
// defragmentation, nor while the disk stalls, because etcd blocks all readers until a commit has reached the disk. An
// abandoned read ends when the disk writes again, and no other begins before that. Its result must not be used.
func (l *life) glimpse(read func()) bool {
	if l.hung.Load() > 0 || !l.backend.TryRLock() {
		return false
	}
	done := make(chan struct{})
	_, ok := durable.Soon(glimpseWait, func() (none struct{}) {
		defer close(done)
		defer l.backend.RUnlock()
		read()
		return none
	})
	if !ok {
		l.hung.Add(1)
		go func() {
			<-done
			l.hung.Add(-1)
		}()
	}
	return ok
}
