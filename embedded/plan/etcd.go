package plan

import (
	"errors"
	"time"
)

// These types and errors are the language between the coordinator and the packages that run etcd and the volumes. No
// decision reads them.

// ErrNotReady is wrapped when a learner is not promoted because it has not caught up yet.
var ErrNotReady = errors.New("learner is not in sync with the leader")

// ErrUnhealthy is wrapped when etcd refuses to change the member list for now, because the change would endanger the
// quorum. A follower also gets it in a healthy cluster, for 5 s after another member has joined.
var ErrUnhealthy = errors.New("cluster is not healthy enough for a membership change")

// ErrReadOnly is wrapped when an alarm makes etcd refuse every write.
var ErrReadOnly = errors.New("etcd takes no writes because of an alarm")

// ErrConflict is wrapped when another object is in the place of what was to be written: a record of the same
// generation, a proposal of the same number, a key that was changed meanwhile, or the lock of another holder.
var ErrConflict = errors.New("the store holds another one")

// Unfit is the error if etcd was not started on data that would make it panic: another version wrote the data.
type Unfit struct{ Err error }

func (u Unfit) Error() string { return "etcd cannot be started on the data: " + u.Err.Error() }

// Unwrap returns what is wrong with the data.
func (u Unfit) Unwrap() error { return u.Err }

// The names of the keys that holdfast keeps in the cluster.
const (
	KeySlots   = "slots"   // [SlotSet]
	KeyLock    = "lock"    // [Lock]
	KeyPaused  = "paused"  // [Pause]
	KeyConsent = "consent" // [Consent]
)

// Spec says how to start a member, or how to make its data directory. On a data directory with a WAL, etcd ignores
// Token, Peers and Join: identity and membership come from the disk.
type Spec struct {
	Slot string
	// DataDir is etcd's data directory. It is created with mode 0700 if it does not exist.
	DataDir string
	// Token makes the IDs of a founded cluster unique: "cluster@generation".
	Token string
	// Peers is the initial cluster, slot -> peer URL, including this slot. For a joiner it is the current member list,
	// which includes the joiner itself as a learner.
	Peers map[string]string
	// Join starts a member that was added to a running cluster; without it, the member is a founder.
	Join bool
	// PeerURL is what the member advertises to its peers: a name that never changes.
	PeerURL string
	// Yields makes a founder wait a whole election timeout before it campaigns, because the first slot's founder
	// campaigns at once.
	Yields bool
	// TrustWAL skips the search for entries that etcd 3.7 cannot replay. Set it only if this same version of etcd was the
	// last to write the log.
	TrustWAL bool
}

// DataDir is what can be read from a data directory without starting etcd.
type DataDir struct {
	WAL    bool // a WAL exists: this disk has been a member and may have voted
	Unborn bool // the WAL exists, but no entry was ever written

	// From the WAL; zero without one.
	Member    uint64
	ClusterID uint64
	Log       LogEnd
	Term      uint64 // the newest one on disk: the member has not voted or acknowledged in a later one
}

// Volume is a held volume.
type Volume struct {
	Slot  string `json:"slot"`
	ID    string `json:"id"`    // the provider's
	Disk  string `json:"disk"`  // UUID
	Epoch uint64 `json:"epoch"` // of this claim
	Path  string `json:"path,omitempty"`
	Lock  string `json:"-"` // name of the operating system's lock that the claim holds, "" if there is none
}

// Aside is data that was set aside on a volume.
type Aside struct {
	Path   string    `json:"path"`
	Reason string    `json:"reason"` // given when it was set aside
	Since  time.Time `json:"since"`  // to the second
	Bytes  int64     `json:"bytes"`  // disk usage
	// Reclaimed, in a status, is when the data will be deleted if the member serves without a break; nil if never by us.
	Reclaimed *time.Time `json:"reclaimed,omitempty"`
}

// Unleased are clients' keys below a prefix that should be bound to a lease, such as Kubernetes' endpoints, but are
// bound to no living one.
type Unleased struct {
	Prefix string
	Keys   []UnleasedKey
	Read   int    // keys that were looked at
	Total  int    // keys below the prefix
	Err    string // why they could not be read
}

// UnleasedKey is a key without a living lease. etcd does not store the time of a write.
type UnleasedKey struct {
	Key      string
	Revision int64 // of its last write
	Lease    int64 // named by the key; 0: none
}
