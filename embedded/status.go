package embedded

import (
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage"
)

// Status is what this member knows of itself, as of its own applied state. The zero value
// is a member that does not run.
type Status struct {
	Running bool // etcd was started and nobody has asked it to stop
	Ready   bool // it has joined its cluster and answers clients

	MemberID  uint64
	ClusterID uint64
	LeaderID  uint64 // 0: none known
	Leader    bool
	Learner   bool

	Term      uint64
	Revision  int64
	Applied   uint64 // raft index
	Committed uint64 // raft index

	Database Database
	Alarms   []Alarm

	ClusterVersion string // empty until the cluster has agreed on one
	ServerVersion  string
}

// Database tells the size of the database file; all in bytes.
type Database struct {
	Size  int64
	InUse int64 // Size less what a defragmentation would free
	Quota int64
}

// Alarm is one raised alarm, NOSPACE or CORRUPT.
type Alarm struct {
	MemberID uint64
	Name     string
}

// Status never waits for a quorum, nor for a defragmentation: meanwhile revision and size
// are those from before. Only while the member loads a database its leader has sent it (at
// most once, when it has fallen far behind) does it take as long as that.
func (m *Member) Status() Status {
	l, err := m.running()
	if err != nil {
		return Status{}
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
	}
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
	st := l.stored()
	s.Revision, s.Database = st.revision, st.database
	return s
}

// stored is what only the backend knows.
type stored struct {
	revision int64
	database Database
}

// stored reads from the backend, or, while that is locked, repeats what it said before.
func (l *life) stored() stored {
	if !l.backend.TryRLock() {
		return *l.frozen.Load()
	}
	defer l.backend.RUnlock()
	return readStored(l.etcd.Server)
}

func readStored(srv *etcdserver.EtcdServer) stored {
	quota := srv.Cfg.QuotaBackendBytes
	if quota == 0 {
		quota = storage.DefaultQuotaBytes
	}
	be := srv.Backend()
	return stored{srv.KV().Rev(), Database{Size: be.Size(), InUse: be.SizeInUse(), Quota: quota}}
}

// freeze and thaw enclose a defragmentation, inside the gate.
func (l *life) freeze() {
	now := l.stored()
	l.frozen.Store(&now)
	l.backend.Lock()
}

func (l *life) thaw() { l.backend.Unlock() }
