package coordinator

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"holdfast/embedded/plan"
)

// ErrNoVolume is wrapped by Volumes.Claim if there is nothing to claim now: the node stands by.
var ErrNoVolume = errors.New("no volume is free")

// ErrUseless is wrapped by Backups.Check if the backup can never be restored here: it does not exist, is damaged, or is
// another cluster's.
var ErrUseless = errors.New("the backup is useless")

// ErrUnread is wrapped if the store has answered, but its contents about the cluster are damaged or from a newer
// version, or if it accepts what it must refuse.
var ErrUnread = errors.New("the store's contents cannot be trusted")

// Volumes gives this node a volume.
type Volumes interface {
	// Claim tries once. slots are those of the configuration, and known are others that the cluster has. The error wraps
	// ErrNoVolume if none is free.
	Claim(ctx context.Context, slots, known []string, avoid map[string]string) (Volume, error)
	// Witnesses are the records named in volumes' tags, as last known. It asks nobody.
	Witnesses() []plan.Witness
	// Standby is the zone in which Claim would take a volume as soon as one is free; "" for none, or if there are no
	// zones. It asks nobody.
	Standby() string
}

// Volume is a held volume.
type Volume interface {
	Identity() plan.Volume
	// Trouble says why the volume's identity is wrong, and which disk this node held last and cannot find in its place;
	// "" for neither.
	Trouble() (mismatch, missing string)
	Watch(ctx context.Context) error       // blocks; an error means that the volume is lost
	SetAllAside(ctx context.Context) error // sets everything on the volume aside, which makes it another, blank disk
	Release(ctx context.Context, how Release) error
	// SetRecord shows others which record the disk has, soon and on a best-effort basis; "": the cluster of the last one
	// was given up.
	SetRecord(token string)
}

// Release says what becomes of a volume that is given up.
type Release int

const (
	Keep  Release = iota // it stays ours: this node will come back for it
	Yield                // it was blank and leaves no trace
	Drop                 // any node may take it
)

// Rooms are the file systems to which a node writes. The size is 0 if it is not known, or if the node does not write
// there.
type Rooms struct {
	Volume, Spool, Scratch plan.Room
}

// Node is a node of the gossip mesh.
type Node struct {
	Name    string
	Address netip.Addr
	Live    bool
	State   []byte // as published; nil: nothing yet
	Stamp   [2]uint64
}

// Mesh is the gossip.
type Mesh interface {
	Publish(state []byte) // does nothing if it is published already
	// Nodes returns the nodes that are not forgotten, including this one. accepted says that the disk here has accepted a
	// record, so that it founds nothing: only then may lost nodes that knew of a cluster be left out after a time.
	Nodes(accepted bool) []Node
	Changed() <-chan struct{}
	Twin() (netip.Addr, bool) // another live process with our name
	// Twins returns the live processes that share another node's name and do not count for it. Ask accepts them as nodes.
	Twins() []string
	Ask(ctx context.Context, node string, question []byte) ([]byte, error)
}

// Names answers for the slots' host names.
type Names interface {
	Set(table map[string][]netip.Addr) // slot -> addresses
	Adopt(adopted bool)                // whether the cluster was adopted (R22), once known
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

// Outside is an error of a start whose reason is not on the volume: nothing there needs to be set aside.
type Outside struct{ Err error }

func (o Outside) Error() string { return o.Err.Error() }
func (o Outside) Unwrap() error { return o.Err }

// Process is the running etcd.
type Process interface {
	Start(ctx context.Context, s plan.Spec) error // returns when etcd runs, ready or not; plan.Unfit, Outside
	// Stop hands over for at most this long, then stops. It can be repeated.
	Stop(ctx context.Context, handOver time.Duration) error
	Kill()                               // stops without waiting for anything
	Leads() bool                         // as State, at next to no cost
	Changed() <-chan struct{}            // signalled when State may have changed
	State() (m plan.Member, ended error) // ended: why etcd ended on its own
}

// Disk reads and renames etcd's data directory while etcd does not run.
type Disk interface {
	Inspect(dir string) (plan.DataDir, error) // may be called while etcd runs
	Fit(dir string) error                     // whether etcd can be started on it: plan.Unfit
	SetAside(dir, reason string) (string, error)
	MemberList(dir string) ([]plan.MemberInfo, error) // as applied in the database, while etcd does not run
	FounderIDs(r plan.Record) (members map[string]uint64, cluster uint64, err error)
	// Aside lists the data that was set aside on a volume, the oldest first. Reclaim deletes what was set aside before a
	// time, for one of the reasons.
	Aside(volume string) ([]plan.Aside, error)
	Reclaim(volume string, before time.Time, reasons []string) ([]plan.Aside, error)
}

// Foreign is etcd's data that another program left on a volume (R22).
type Foreign interface {
	// Origin describes the data's cluster, nil if there is none. An error may be temporary: an etcd uses the data.
	Origin(volume string) (*plan.Origin, error)
	// TakeUp moves the data to holdfast's place, and puts a link in its old place. It can be repeated, also after a
	// crash.
	TakeUp(volume string, o plan.Origin) error
	// Superseded is why data that was taken over is out of date, "" if it is not.
	Superseded(volume string) (string, error)
	// InUse is what an etcd of any program uses, "" for nothing. Not to be called during Start, Fit or SetAside.
	InUse(volume string) (string, error)
}

// Builder makes a data directory from a database, beside the one in use.
type Builder interface {
	Database(dir string) string // where the database is expected
	Rebuild(ctx context.Context, dir string, s plan.Spec, bump int64) error
	// Recover copies the database of the data directory from, in which etcd may run, to where Database(dir) expects it,
	// and applies every entry of its log. It returns the end of the log. The first progress has the size.
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
	// Reach returns an error unless a peer answers at the URL and both accept each other's certificates.
	Reach(ctx context.Context, peerURL string) error
	IsRemoved(id uint64) bool // whether the cluster has removed it, as applied here
}

// Keys are the keys that holdfast keeps in etcd.
type Keys interface {
	// PutKey sets a key if its version is still version, 0 for a new key; a nil value deletes it. Otherwise the error
	// wraps plan.ErrConflict.
	PutKey(ctx context.Context, name string, value []byte, version int64) error
	// Key returns the value as applied here, and its version, 0 for none.
	Key(name string) (value []byte, version int64, err error)
	// Mark commits a mark while an alarm makes PutKey fail: State shows it among the alarms.
	Mark(ctx context.Context, mark uint64) error
	// Unmark removes a mark. It can be repeated.
	Unmark(ctx context.Context, mark uint64) error
}

// Locks is the cluster's disruption lock (R14), which is a key with a lease.
type Locks interface {
	// TryLock takes the lock, for at most ttl without a refresh, if nobody holds it or if its value is old. Otherwise the
	// error wraps plan.ErrConflict, and present is the current value.
	TryLock(ctx context.Context, value, old []byte, ttl time.Duration) (present []byte, err error)
	// RefreshLock gives the lock its whole ttl again, for its holder. plan.ErrConflict: the value is another one, or
	// none.
	RefreshLock(ctx context.Context, value []byte) error
	// Unlock waits until this member has applied everything that is committed, and then returns the lock if it has this
	// value.
	Unlock(ctx context.Context, value []byte) error
}

// Elections is what the member needs to elect early (R23). None of it waits for a disk.
type Elections interface {
	// Glance is a cheap look, at the cost of a few locks, that shows whether to look at Standing. There is nothing new to
	// see before rest is over.
	Glance() (g plan.Glance, rest time.Duration)
	Standing() plan.Standing
	// Heard returns the members that have answered this leader since the call, nil unless it leads. It waits for less
	// than an election timeout.
	Heard(ctx context.Context) []uint64
	// Refused dials a member's peer port, and reports whether the connection is definitely refused.
	Refused(ctx context.Context, id uint64) bool
	// Campaign makes the member start an election, unless its term is no longer the standing's.
	Campaign(ctx context.Context, s plan.Standing) error
}

// Databases is the upkeep of the database.
type Databases interface {
	// Quiet reports whether nobody reads the database for a backup.
	Quiet() bool
	// Defragment blocks the member. ctx only bounds the wait until Quiet.
	Defragment(ctx context.Context) error
	// Compact drops the history up to a revision, and waits until this member has carried it out. It can be repeated.
	Compact(ctx context.Context, revision int64) error
	// Raise raises the alarm plan.NoSpace or plan.Corrupt for this member. It can be repeated.
	Raise(ctx context.Context, alarm string) error
	// Disarm disarms the alarm NOSPACE.
	Disarm(ctx context.Context) error
	// TransferLeadership transfers the leadership to another voter, if this member has it and there is one.
	TransferLeadership(ctx context.Context) error
}

// Store is what the backup store knows about clusters.
type Store interface {
	Generations
	Proposals
}

// Sharing tells which nodes use the same store.
type Sharing interface {
	ID(ctx context.Context) (string, error)
	// Meet puts this process's nonce into the store, once. A node that finds it shares the store. who is the node and its
	// address, because a drill may use production's store and names. Nonces are those of all nodes, as of the last look.
	Meet(ctx context.Context, who, nonce string) error
	Nonces() map[string]string
}

// Generations are the records in the store.
type Generations interface {
	Sharing
	// Known returns everything except ID, CID and Nonce; the zero value: the store knows no cluster. It looks for the
	// nonces of the nodes in expect by name, because a listing may be outdated.
	Known(ctx context.Context, expect ...string) (plan.Store, error)
	Put(ctx context.Context, r plan.Record) error // plan.ErrConflict if there is another; can be repeated
	// Attest signs again what began the generation of mine, which the caller's disk has accepted, and the generations
	// before it, if the last look found signatures that do not count or will soon expire.
	Attest(ctx context.Context, mine plan.Record) error
	// MoveAside makes the store forget r and the records before it, or, with nil, a cluster that another program keeps
	// there.
	MoveAside(ctx context.Context, r *plan.Record) error
	// Replace replaces the record of a cluster that was given back. plan.ErrConflict if there is a third one. It can be
	// repeated.
	Replace(ctx context.Context, old, with plan.Record) error
}

// Proposals are the restores and recoveries in the store.
type Proposals interface {
	Propose(ctx context.Context, r plan.Restore) error // plan.ErrConflict if there is another; can be repeated
	Conclude(ctx context.Context, r plan.Record) error // plan.ErrConflict if it was aborted; can be repeated
	// Abort aborts an open proposal. If it was concluded before, it returns the record and aborts nothing.
	Abort(ctx context.Context, r plan.Restore, a plan.Abort) (*plan.Record, error)
	// Proposal returns the proposal with this number, nil if there is none. It is much cheaper than Known.
	Proposal(ctx context.Context, generation uint64, attempt int) (*plan.Restore, error)
	// Dismiss deletes a foreign command. It can be repeated.
	Dismiss(ctx context.Context, command string) error
	// Shine writes the beacon.
	Shine(ctx context.Context, b Beacon) error
}

// Backup is what a restore needs to know about a backup.
type Backup struct {
	Name     string
	Digest   string // SHA-256 of the database, in hex
	Revision int64
	Bytes    int64 // of the database
}

// Progress is how far a step with a backup has come, in bytes of the database.
type Progress struct {
	Phase       string
	Done, Total int64
}

// Backups are the backups in the store. All calls end soon after ctx.
type Backups interface {
	// Check proves that a backup is intact and this cluster's, and describes it; "" is the newest reliable one. lineage
	// is the cluster's. The error wraps ErrUseless if another attempt would give the same result.
	Check(ctx context.Context, name, lineage string, progress func(Progress)) (Backup, error)
	// Fetch writes the database to a new file at path, and proves meanwhile that the backup is intact. The first progress
	// has the size, if it is known.
	Fetch(ctx context.Context, name, path string, progress func(Progress)) (Backup, error)
	// Fresh makes sure that there is a backup that is at most within old.
	Fresh(ctx context.Context, within time.Duration) error
	// Made is when the newest backup that this node knows of was made, by the clock of its node; zero if it knows none. It
	// asks nobody.
	Made() time.Time
	// Revision is the highest revision of any backup, 0 if there is none.
	Revision(ctx context.Context, lineage string) (int64, error)
	// Newest is what the newest verified backup holds, by generation and revision; the zero value: there is none.
	Newest(ctx context.Context, lineage string) (plan.BackupStand, error)
}
