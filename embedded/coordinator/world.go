package coordinator

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"holdfast/embedded/plan"
)

// ErrNoVolume is wrapped by Volumes.Claim when there is nothing to claim at present: the node stands by.
var ErrNoVolume = errors.New("no volume is free")

// ErrUseless is wrapped by Backups.Check when the backup can never be restored here: nobody knows it, it is damaged, or
// it is another cluster's.
var ErrUseless = errors.New("the backup is of no use")

// ErrUnread is wrapped when the store has answered, and what it holds of the cluster is damaged, or of a newer version,
// or that it takes what it must refuse.
var ErrUnread = errors.New("the store cannot be believed")

// Volumes gives this node a volume.
type Volumes interface {
	// Claim tries once. slots are those of the configuration, known are others that the cluster has. The error wraps
	// ErrNoVolume when none is free.
	Claim(ctx context.Context, slots, known []string, avoid map[string]string) (Volume, error)
	// Witnesses are the records that volumes bear, as far as that is known; it asks nobody.
	Witnesses() []plan.Witness
	// Standby is the zone of which a volume would be taken by Claim as soon as it is free; "" for none, or if there are no
	// zones. It asks nobody.
	Standby() string
}

// Volume is a held volume.
type Volume interface {
	Identity() plan.Volume
	// Trouble says why the volume is not what it says it is, and which disk this node held last and does not find
	// where it was; "" for neither.
	Trouble() (mismatch, missing string)
	Watch(ctx context.Context) error       // blocks; an error means that the volume is lost
	SetAllAside(ctx context.Context) error // sets everything on the volume aside; it is another, blank disk then
	Release(ctx context.Context, how Release) error
	SetRecord(token string) // shows others whose record the disk bears, soon and as well as it can
}

// Release says what becomes of a volume that is given up.
type Release int

const (
	Keep  Release = iota // it stays ours: we come back for it
	Yield                // it was blank and leaves no trace
	Drop                 // anyone may take it
)

// Rooms are what the file systems have that a node writes to. Where it is not known, or the node does not write there,
// the size is 0.
type Rooms struct {
	Volume, Spool, Scratch plan.Room
}

// Node is a node of the gossip mesh.
type Node struct {
	Name    string
	Address netip.Addr
	Live    bool
	State   []byte // as it published it; nil: nothing yet
	Stamp   [2]uint64
}

// Mesh is the gossip.
type Mesh interface {
	Publish(state []byte)
	// Nodes returns the nodes that are not forgotten, with this one. accepted says that the disk here has accepted a
	// record, so that it founds nothing: only then may time have forgotten what lost nodes knew of a cluster.
	Nodes(accepted bool) []Node
	Changed() <-chan struct{}
	Twin() (netip.Addr, bool) // another live process with our name
	// Twins returns the live processes that share the name of another node and do not count for it: Ask takes them for
	// nodes.
	Twins() []string
	Ask(ctx context.Context, node string, question []byte) ([]byte, error)
}

// Names answers for the slots' host names.
type Names interface {
	Set(table map[string][]netip.Addr) // slot -> addresses
	Adopt(adopted bool)                // whether holdfast has taken the cluster over, and not made it (R22), once known
	Check(ctx context.Context) error   // whether our names are answered by us
}

// Etcd is the member in this process and its data directory.
type Etcd interface {
	Process
	Disk
	Foreign
	Members
	Keys
	Locks
	Elections
	Builder
	Databases
}

// Process is etcd as it runs.
type Process interface {
	Start(ctx context.Context, s plan.Spec) error // returns when etcd runs, ready or not; plan.Unfit
	// Stop hands over leadership for at most this long, then stops; again is fine.
	Stop(ctx context.Context, handOver time.Duration) error
	Kill()                               // stops without waiting for anything
	Changed() <-chan struct{}            // sent to when State may have become another one
	State() (m plan.Member, ended error) // ended: why etcd ended by itself
	Revision() int64                     // of the running member, 0 without one
}

// Disk reads and renames etcd's data directory while etcd does not run.
type Disk interface {
	Inspect(dir string) (plan.DataDir, error) // also while etcd runs
	Fit(dir string) error                     // whether etcd can be started on it: plan.Unfit
	SetAside(dir, reason string) (string, error)
	MemberList(dir string) ([]plan.MemberInfo, error) // as applied in the database, while etcd does not run
	FounderIDs(r plan.Record) (members map[string]uint64, cluster uint64, err error)
	// Aside lists what was set aside on a volume, the oldest first, and Reclaim deletes what of it was set aside
	// before a time, for one of the reasons.
	Aside(volume string) ([]plan.Aside, error)
	Reclaim(volume string, before time.Time, reasons []string) ([]plan.Aside, error)
}

// Foreign is etcd's data that another program has left on a volume (R22).
type Foreign interface {
	// Origin says of which cluster it is, nil if there is none. An error may be of a moment: an etcd works on it.
	Origin(volume string) (*plan.Origin, error)
	// TakeUp puts it where holdfast has etcd's data, and a link in its place; again is fine, also after a crash.
	TakeUp(volume string, o plan.Origin) error
	// Superseded is why the data that was taken up is of the past, "" if it is not.
	Superseded(volume string) (string, error)
	// InUse is what an etcd works on, of whatever program, "" for nothing. Not beside Start, Fit or SetAside.
	InUse(volume string) (string, error)
}

// Builder makes a data directory of a database, beside the one in use.
type Builder interface {
	Database(dir string) string // where the database is expected
	Rebuild(ctx context.Context, dir string, s plan.Spec, bump int64) error
	// Recover copies the database of the data directory from, in which etcd may run, to where dir is expected to have
	// one, and applies every entry of its log. It returns where that ended. The first progress tells the size.
	Recover(ctx context.Context, from, dir string, progress func(Progress)) (plan.LogEnd, error)
	// Room returns an error unless a database of this many bytes can be built on the volume.
	Room(volume string, bytes int64) error
}

// Members changes the member list through raft.
type Members interface {
	AddLearner(ctx context.Context, peerURL string) (uint64, error)
	Remove(ctx context.Context, id uint64) error
	Promote(ctx context.Context, id uint64) error // plan.ErrNotReady
	Update(ctx context.Context, id uint64, peerURL string) error
	// Reach returns an error unless a peer answers at a URL, and each shows the other a certificate that it accepts.
	Reach(ctx context.Context, peerURL string) error
	IsRemoved(id uint64) bool // whether a quorum has removed it, as far as applied here
}

// Keys are what the cluster remembers for holdfast, in etcd itself.
type Keys interface {
	// PutKey sets a key if its version is what the caller has seen, 0 for none, and deletes it with a nil value. Else
	// the error wraps plan.ErrConflict.
	PutKey(ctx context.Context, name string, value []byte, version int64) error
	// Key is the value as applied here and its version, 0 for none.
	Key(name string) (value []byte, version int64, err error)
	// Mark commits a mark where PutKey is refused because of an alarm: State shows it among the alarms.
	Mark(ctx context.Context, mark uint64) error
	// Unmark takes a mark back; again is fine.
	Unmark(ctx context.Context, mark uint64) error
}

// Locks is the cluster's disruption lock (R14), one of the keys, with a lease.
type Locks interface {
	// TryLock takes the lock for at most ttl without a refresh if nobody holds it, or if its value is old. Else the
	// error wraps plan.ErrConflict, and present is its value.
	TryLock(ctx context.Context, value, old []byte, ttl time.Duration) (present []byte, err error)
	// RefreshLock gives the lock its whole time again, for its holder. plan.ErrConflict: its value is another one, or
	// none.
	RefreshLock(ctx context.Context, value []byte) error
	// Unlock waits until this member has applied all that is committed, and then gives the lock back if it has this
	// value.
	Unlock(ctx context.Context, value []byte) error
}

// Elections are how the member elects early (R23). None of it waits for a disk.
type Elections interface {
	// Glance tells, at the cost of a few locks, what may make a look at Standing worth it.
	Glance() plan.Glance
	Standing() plan.Standing
	// Refused dials the peer port of a member, and reports whether that is refused for certain.
	Refused(ctx context.Context, id uint64) bool
	// Campaign has the member start an election, unless its term is another one than the standing's by now.
	Campaign(ctx context.Context, s plan.Standing) error
}

// Databases is the care for the database.
type Databases interface {
	// Quiet reports whether nobody reads the database for a backup.
	Quiet() bool
	// Defragment blocks the member. ctx bounds only the wait for what Quiet tells of.
	Defragment(ctx context.Context) error
	// Compact drops the history up to a revision, again is fine. It waits until this member has carried it out.
	Compact(ctx context.Context, revision int64) error
	// Raise raises an alarm, plan.NoSpace or plan.Corrupt, for this member; again is fine.
	Raise(ctx context.Context, alarm string) error
	// Disarm takes the alarm NOSPACE back.
	Disarm(ctx context.Context) error
	// TransferLeadership gives the leadership to another voter, if this member has it and there is one.
	TransferLeadership(ctx context.Context) error
}

// Store is what the backup store knows of clusters.
type Store interface {
	Generations
	Proposals
}

// Sharing tells which nodes use the same store.
type Sharing interface {
	ID(ctx context.Context) (string, error)
	// Meet puts this process's nonce into the store, once, for other nodes to find: who finds it shares the store. who
	// names node and address: a drill may use production's store and names. Nonces are those of all nodes, as the last
	// look has shown them.
	Meet(ctx context.Context, who, nonce string) error
	Nonces() map[string]string
}

// Generations are the records in the store.
type Generations interface {
	Sharing
	// all but its ID, CID and Nonce; the zero value: it knows no cluster
	Known(ctx context.Context) (plan.Store, error)
	Put(ctx context.Context, r plan.Record) error // plan.ErrConflict when there is another; again is fine
	// Attest signs again what began the generation of a record that the caller's disk has accepted, and those before it,
	// where the last look has found signatures that do not count, or not for long.
	Attest(ctx context.Context, mine plan.Record) error
	// MoveAside gives up what the store knows: after it neither the record nor one before it is known, nor, with nil, a
	// cluster that another program keeps there.
	MoveAside(ctx context.Context, r *plan.Record) error
	// Replace puts a record in the place of another, of a cluster that was given back: plan.ErrConflict when there is a
	// third one; again is fine.
	Replace(ctx context.Context, old, with plan.Record) error
}

// Proposals are the restores and recoveries in the store.
type Proposals interface {
	Propose(ctx context.Context, r plan.Restore) error // plan.ErrConflict when there is another; again is fine
	Conclude(ctx context.Context, r plan.Record) error // plan.ErrConflict when it was aborted; again is fine
	// Abort ends an open proposal. It returns the record if that was concluded before, and then nothing was aborted.
	Abort(ctx context.Context, r plan.Restore, a plan.Abort) (*plan.Record, error)
	// Proposal is the proposal of this number, nil if there is none: much cheaper than Known.
	Proposal(ctx context.Context, generation uint64, attempt int) (*plan.Restore, error)
	// Dismiss deletes a foreign command; again is fine.
	Dismiss(ctx context.Context, command string) error
	// Shine writes the beacon.
	Shine(ctx context.Context, b Beacon) error
}

// Backup is what a restore needs to know of a backup.
type Backup struct {
	Name     string
	Digest   string // SHA-256 of the database, in hex
	Revision int64
	Bytes    int64 // of the database
}

// Progress is how far a step with a backup has come, in bytes of its database.
type Progress struct {
	Phase       string
	Done, Total int64
}

// Backups are the backups in the store. All calls end soon after ctx.
type Backups interface {
	// Check proves that a backup is whole and this cluster's, and returns what it is; "" is the newest that can be
	// relied on. lineage is the cluster's. The error wraps ErrUseless where another try can bring nothing else.
	Check(ctx context.Context, name, lineage string, progress func(Progress)) (Backup, error)
	// Fetch writes the database to a new file at path, and proves on the way that the backup is whole. The first
	// progress tells the size, where it is known.
	Fetch(ctx context.Context, name, path string, progress func(Progress)) (Backup, error)
	// Fresh makes sure that there is a backup made at most within ago.
	Fresh(ctx context.Context, within time.Duration) error
	// Revision is the highest that any backup has, 0 without any.
	Revision(ctx context.Context, lineage string) (int64, error)
	// Newest is what the newest verified backup holds, by generation and revision; the zero value: there is none.
	Newest(ctx context.Context, lineage string) (plan.BackupStand, error)
}
