package plan

import (
	"fmt"
	"slices"
	"strconv"
)

// Status is etcd's state of its member, as of what the member has applied. `holdfast status` prints it under these
// keys.
type Status struct {
	Leader   bool `json:"leader"`              // by raft's last report
	HasLead  bool `json:"has_leader"`          // the same
	LeaderID ID   `json:"leader_id,omitempty"` // the same, 0 for none
	// Confirmed: the member has a leader (R16): a linearizable read through it was answered within the last 5 s, on a
	// leader since it began to lead. HasLead and Leader are only raft's last report, which does not change while this
	// member's disk stalls. Confirmed is false for a moment after each start, and while the member cannot apply what is
	// committed, for example during a defragmentation.
	Confirmed bool   `json:"confirmed"`
	Learner   bool   `json:"learner"`
	Term      uint64 `json:"term"` // of raft, no matter who leads
	Revision  int64  `json:"revision"`
	Applied   uint64 `json:"applied_index"` // of raft
	Space
	Alarms []Alarm `json:"alarms,omitempty"`
	// Hashes are those of the revisions at which it compacted since it started, the ten newest at most; and under
	// CORRUPT, of the current revision.
	Hashes         []Hash `json:"hashes,omitempty"`
	Version        string `json:"version"`                   // of etcd, such as 3.7.3
	ClusterVersion string `json:"cluster_version,omitempty"` // agreed by the cluster; "" while there is none
	StorageVersion string `json:"storage_version,omitempty"` // of the database; follows the cluster's within seconds
	Downgrade      string `json:"downgrade,omitempty"`       // version to which the cluster is being downgraded
}

// Space is the size of a member's database in bytes.
type Space struct {
	Size  int64 `json:"db_size"`
	InUse int64 `json:"db_in_use"` // Size less what a defragmentation would free
	Quota int64 `json:"quota"`
}

// Hash is etcd's checksum of a member's data up to a revision, computed at a compaction. Members with the same revision
// and the same previous compaction have the same data if and only if their sums are the same.
type Hash struct {
	Revision  int64  `json:"revision"`
	Compacted int64  `json:"compacted"`
	Sum       string `json:"sum"` // hexadecimal
}

// NoSpace is the alarm that refuses every write, because a member's database has reached its quota or its volume is
// full. Corrupt is the alarm that refuses everything, because the members' data differ.
const (
	NoSpace = "NOSPACE"
	Corrupt = "CORRUPT"
)

// Alarm is an alarm that etcd has raised, with the member it names, 0 for none in particular. An alarm whose number is
// no member's is a mark, see [Mark].
type Alarm struct {
	Name   string `json:"name"`
	Member ID     `json:"member"`
}

// String is "NOSPACE of member 1f".
func (a Alarm) String() string { return fmt.Sprintf("%s of member %s", a.Name, a.Member) }

// Alarmed reports whether an alarm is raised, whichever member it names.
func (s Status) Alarmed(name string) bool {
	return slices.ContainsFunc(s.Alarms, func(a Alarm) bool { return a.Name == name })
}

// blames reports whether the alarm CORRUPT names a member; 0 means none in particular.
func (s Status) blames(id uint64) bool { return slices.Contains(s.Alarms, Alarm{Corrupt, ID(id)}) }

// ID is a member's ID, which is hexadecimal wherever it is text, as etcdctl prints it.
type ID uint64

func (id ID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*id = ID(n)
	return err
}
