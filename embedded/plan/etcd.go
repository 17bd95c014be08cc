package plan

import (
	"errors"
	"time"
)

// The words in which a loop tells etcd's package and the volumes what to do, and hears what came of it. No decision
// reads them.

// ErrNotReady is wrapped when a learner is not promoted because it has not caught up yet.
var ErrNotReady = errors.New("learner is not in sync with the leader")

// ErrUnhealthy is wrapped by changes of the member list that etcd refuses for now: the change would endanger the
// quorum. A member that does not lead hears it of a healthy cluster as well, for 5 s after another has joined.
var ErrUnhealthy = errors.New("cluster is not healthy enough for a membership change")

// ErrReadOnly is wrapped by writes while an alarm has etcd refuse every one.
var ErrReadOnly = errors.New("etcd takes no writes because of an alarm")

// ErrConflict is wrapped by what writes something where another of its kind stands: a record of the same generation, a
// proposal of the same number, a key that was changed meanwhile, the lock of another holder.
var ErrConflict = errors.New("the store holds another one")

// Unfit is the error of a start of etcd that would panic on the data: it was written by another version.
type Unfit struct{ Err error }

func (u Unfit) Error() string { return "etcd cannot be started on the data: " + u.Err.Error() }

// Unwrap returns what is wrong with the data.
func (u Unfit) Unwrap() error { return u.Err }

// The names of the keys that the cluster keeps for holdfast.
const (
	KeySlots   = "slots"   // [SlotSet]
	KeyLock    = "lock"    // [Lock]
	KeyPaused  = "paused"  // [Pause]
	KeyConsent = "consent" // [Consent]
)

// Spec says how a member is to be started, or its data directory made. On a data directory with a WAL etcd ignores
// Token, Peers and Join: identity and membership come from the disk.
type Spec struct {
	// Slot is the slot that the member runs.
	Slot string
	// DataDir is etcd's data directory, created (0700) when absent.
	DataDir string
	// Token makes the IDs of a founded cluster unique: "cluster@generation".
	Token string
	// Peers is the initial cluster, slot -> peer URL, this slot's own included. A joiner gives the member list as it
	// is, with itself as the learner that was added.
	Peers map[string]string
	// Join starts a member that was added to a running cluster; false founds one.
	Join bool
	// PeerURL is what the member advertises to its peers: a name that never changes.
	PeerURL string
	// Yields has a founder wait its whole election timeout before it campaigns, because the first one campaigns at once.
	Yields bool
	// TrustWAL skips the search for entries that etcd 3.7 cannot replay. True only if this very version of etcd wrote
	// the log last.
	TrustWAL bool
}

// DataDir is what can be read from a data directory without opening it.
type DataDir struct {
	WAL    bool // a WAL exists: this disk has been a member and may have voted
	Unborn bool // the WAL exists, but no entry was ever written to it

	// From the WAL; zero without one.
	Member    uint64
	ClusterID uint64
	Log       LogEnd
	Term      uint64 // the newest that it has noted: it has neither voted nor acknowledged anything in a later one
}

// Volume is a held volume.
type Volume struct {
	Slot  string `json:"slot"`
	ID    string `json:"id"`    // the provider's
	Disk  string `json:"disk"`  // UUID
	Epoch uint64 `json:"epoch"` // of this claim
	Path  string `json:"path,omitempty"`
	Lock  string `json:"-"` // the name of the operating system's lock that the claim holds, "" where it has none
}

// Aside is data that was set aside on a volume.
type Aside struct {
	Path   string    `json:"path"`
	Reason string    `json:"reason"` // as it was given when it was set aside, or the volume's own word
	Since  time.Time `json:"since"`  // to the second
	Bytes  int64     `json:"bytes"`  // on the disk
	// Reclaimed, in a status, is when it is deleted, if the member serves until then without a break; nil: never by us.
	Reclaimed *time.Time `json:"reclaimed,omitempty"`
}

// Unleased are keys of clients below a prefix that should be bound to a lease, as Kubernetes' endpoints, and that no
// living lease is bound to.
type Unleased struct {
	Prefix string
	Keys   []UnleasedKey
	Read   int    // keys that were looked at
	Total  int    // keys below the prefix
	Err    string // why they could not be read
}

// UnleasedKey is one of them. etcd keeps no time of a write.
type UnleasedKey struct {
	Key      string
	Revision int64 // of its last write
	Lease    int64 // that it names; 0: none
}
