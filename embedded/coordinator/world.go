package coordinator

import (
	"context"
	"errors"
	"net/netip"

	"holdfast/embedded/plan"
)

// ErrNoVolume is wrapped by Volumes.Claim when there is nothing to claim at present: the node stands by.
var ErrNoVolume = errors.New("no volume is free")

// ErrNotReady is wrapped by Etcd.Promote when the learner has not caught up yet.
var ErrNotReady = errors.New("learner is not in sync with the leader")

// ErrUnhealthy is wrapped by changes of the member list that etcd refuses for now, as it does for 5 s after
// a member has joined.
var ErrUnhealthy = errors.New("not every member has been connected long enough")

// ErrConflict is wrapped by Store.Propose when the store holds another record of the generation.
var ErrConflict = errors.New("the store holds another record")

// Identity is who a held volume is.
type Identity struct {
	Slot   string
	Volume string // the provider's ID of it
	Disk   string // UUID
	Epoch  uint64 // of this claim
}

// Volumes gives this node a volume.
type Volumes interface {
	// Claim tries once. The error wraps ErrNoVolume when none is free.
	Claim(ctx context.Context, slots []string, avoid map[string]string) (Volume, error)
	// Witnesses are the records that volumes bear, as far as that is known; it asks nobody.
	Witnesses() []plan.Witness
}

// Volume is a held volume.
type Volume interface {
	Identity() Identity
	Path() string
	Mismatch() string
	Watch(ctx context.Context) error // blocks; an error means that the volume is lost
	Adopt(ctx context.Context) error // sets everything on the volume aside; it is another, blank disk then
	Release(ctx context.Context, how Release) error
	Bear(token string) // has the volume bear this record for others to see, soon and as well as it can
}

// Release says what becomes of a volume that is given up.
type Release int

const (
	Keep  Release = iota // it stays ours: we come back for it
	Yield                // it was blank and leaves no trace
	Drop                 // anyone may take it
)

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
	Nodes() []Node // with this one
	Changed() <-chan struct{}
	Twin() (netip.Addr, bool) // another live process with our name
	Ask(ctx context.Context, node string, question []byte) ([]byte, error)
}

// Names answers for the slots' host names.
type Names interface {
	Set(table map[string][]netip.Addr) // slot -> addresses
	Check(ctx context.Context) error   // whether our names are answered by us
}

// Data is what a data directory holds.
type Data struct {
	WAL               bool
	Unborn            bool // the WAL exists, but no entry was ever written to it
	Member, ClusterID uint64
}

// Spec says how to start etcd.
type Spec struct {
	Slot, DataDir, Token, PeerURL string
	Peers                         map[string]string // slot -> peer URL
	Join                          bool
	TrustWAL                      bool // this version of etcd wrote the log last
}

// Etcd is the member in this process and its data directory.
type Etcd interface {
	Disk
	Members
	Start(ctx context.Context, s Spec) error // returns when etcd runs, ready or not
	Stop(ctx context.Context) error          // hands over leadership, then stops; idempotent
	Kill()                                   // stops without waiting for anything
	State() (m plan.Member, ended error)     // ended: why etcd ended by itself
}

// Disk reads and renames etcd's data directory while etcd does not run.
type Disk interface {
	Inspect(dir string) (Data, error)
	SetAside(dir, reason string) (string, error)
	FounderIDs(r plan.Record) (members map[string]uint64, cluster uint64, err error)
}

// Members changes the member list through raft.
type Members interface {
	AddLearner(ctx context.Context, peerURL string) (uint64, error)
	Remove(ctx context.Context, id uint64) error
	Promote(ctx context.Context, id uint64) error // ErrNotReady
	IsRemoved(id uint64) bool                     // whether a quorum has removed it, as far as applied here
}

// Store is what the backup store knows of clusters.
type Store interface {
	ID(ctx context.Context) (string, error)
	Newest(ctx context.Context) (*plan.Record, error)   // nil: it knows none
	Propose(ctx context.Context, r plan.Record) error   // ErrConflict when there is another; again is fine
	MoveAside(ctx context.Context, r plan.Record) error // after this, Newest does not return it
}
