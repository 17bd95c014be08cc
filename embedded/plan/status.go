package plan

import (
	"fmt"
	"slices"
	"strconv"
)

// Status is what etcd says of its member, as of what the member has applied. `holdfast status` prints it under these
// keys.
type Status struct {
	Leader  bool `json:"leader"`     // as raft said last
	HasLead bool `json:"has_leader"` // the same
	// Confirmed: the member has a leader (R16): a linearizable read through it was answered within the last 5 s, on a
	// leader since it leads. HasLead and Leader are only what raft said last, and while the disk of this member stalls
	// it says nothing new. False for a moment after each start, and while the member cannot apply what is committed, as
	// during a defragmentation.
	Confirmed bool   `json:"confirmed"`
	Learner   bool   `json:"learner"`
	Term      uint64 `json:"term"` // of raft, no matter who leads
	Revision  int64  `json:"revision"`
	Applied   uint64 `json:"applied_index"` // of raft
	Space
	Alarms []Alarm `json:"alarms,omitempty"`
	// Hashes are of the revisions at which it compacted since it was started, the ten newest at most; and while CORRUPT
	// is up, of the present one.
	Hashes         []Hash `json:"hashes,omitempty"`
	Version        string `json:"version"`                   // of the etcd, as 3.7.3
	ClusterVersion string `json:"cluster_version,omitempty"` // that the cluster has agreed on; "" while it has not
	StorageVersion string `json:"storage_version,omitempty"` // of the database; follows the cluster's within seconds
	Downgrade      string `json:"downgrade,omitempty"`       // version that the cluster is being downgraded to
}

// Space is the size of a member's database in bytes.
type Space struct {
	Size  int64 `json:"db_size"`
	InUse int64 `json:"db_in_use"` // Size less what a defragmentation would free
	Quota int64 `json:"quota"`
}

// Hash is a checksum of all that a member has up to a revision, as etcd makes it when it compacts: members with the same
// revision and the same compaction before it have the same data if and only if they have the same sum.
type Hash struct {
	Revision  int64  `json:"revision"`
	Compacted int64  `json:"compacted"`
	Sum       string `json:"sum"` // hexadecimal
}

// NoSpace is the alarm that refuses every write because some member's database has reached its quota, or its volume has
// no room left, Corrupt the one that refuses everything because the members' data differ.
const (
	NoSpace = "NOSPACE"
	Corrupt = "CORRUPT"
)

// Alarm is one that etcd has raised: the cluster knows it, and the member it is about, 0 for nobody in particular. One
// that names no member is a mark, see [Mark].
type Alarm struct {
	Name   string `json:"name"`
	Member ID     `json:"member"`
}

// String is "NOSPACE of member 1f".
func (a Alarm) String() string { return fmt.Sprintf("%s of member %s", a.Name, a.Member) }

// Alarmed reports whether an alarm is up, whomever it is about.
func (s Status) Alarmed(name string) bool {
	return slices.ContainsFunc(s.Alarms, func(a Alarm) bool { return a.Name == name })
}

// blames reports whether the alarm CORRUPT names a member, 0: nobody in particular.
func (s Status) blames(id uint64) bool { return slices.Contains(s.Alarms, Alarm{Corrupt, ID(id)}) }

// ID is that of a member, in hexadecimal wherever it is text, as etcdctl prints it.
type ID uint64

func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText returns what String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads it.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*id = ID(n)
	return err
}
