package health

import (
	"os"
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// Facts is all that is judged. What nobody has looked at is nil.
type Facts struct {
	Status    ClusterStatus
	Offline   string // not empty: no node answers on this machine, and why
	Hangs     bool   // with Offline: its process is there, and says nothing
	Ended     string // with Offline: its process ended by itself, and why
	Endpoints *plan.Unleased
	Events    *plan.Unleased
	Store     *Holdings
	Now       time.Time
}

// Holdings is what a backup store was found to hold.
type Holdings struct {
	Err      string   // why it could not be read
	Good     int      // verified backups of this cluster
	Skipped  []string // backups newer than the newest good one, which were found to be bad: a sentence each
	Broken   Sample   // damaged or never verified
	Unproven Sample   // what was proven of them is not known
	Foreign  int      // of another cluster
	Left     int      // begun long ago and never finished
}

// Sample is how many there are, and what is to be said of one of them.
type Sample struct {
	Count   int
	Example string
}

// Checkup is what a node knows of its machine, its disk and its files.
type Checkup struct {
	Time    time.Time         `json:"time"`              // by its clock
	Leader  bool              `json:"leader,omitempty"`  // it leads, and is not stalled
	Member  uint64            `json:"member,omitempty"`  // its own, 0 if none runs
	Members []plan.MemberInfo `json:"members,omitempty"` // as applied there
	Near    []uint64          `json:"near,omitempty"`    // members to which raft messages flow from here
	Taken   bool              `json:"taken,omitempty"`   // it knows of no other program's members, in an adopted cluster
	Names   map[uint64]string `json:"names,omitempty"`   // of members, as they have told
	Fsync   *Quantile         `json:"fsync,omitempty"`   // of the write-ahead log
	Commit  *Quantile         `json:"commit,omitempty"`  // of the database
	Room    *VolumeRoom       `json:"room,omitempty"`
	RoomErr string            `json:"room_error,omitempty"`
	Spool   *plan.Room        `json:"spool_room,omitempty"`   // nil where it lies on the volume's file system, as the next
	Scratch *plan.Room        `json:"scratch_room,omitempty"` // or on the spool's
	Files   []File            `json:"files,omitempty"`
	Cures   bool              `json:"cures,omitempty"` // upkeep.cure-nospace
}

// reaches reports whether the member of the node is connected to another, no matter who leads.
func (c *Checkup) reaches(m plan.MemberInfo) bool {
	return m.Connected || slices.Contains(c.Near, m.ID)
}

// Quantile is the 99th percentile of a histogram and its mean, in seconds, of Count samples: those of the last Over
// seconds, or all that there are where Over is 0. Total is how many there are in all.
type Quantile struct {
	Seconds float64 `json:"seconds"`
	Mean    float64 `json:"mean_seconds"`
	Count   uint64  `json:"count"`
	Over    float64 `json:"over_seconds,omitempty"`
	Total   uint64  `json:"total"`
}

// VolumeRoom is the room on a volume, with what its node has decided by. Reserve is what etcd needs free to keep
// running. Short: it is not free, and writes are refused until Enough is.
type VolumeRoom struct {
	plan.Room
	Reserve int64 `json:"reserve,omitempty"`
	Enough  int64 `json:"enough,omitempty"`
	Short   bool  `json:"short,omitempty"`
}

// File is a certificate or a secret that the configuration names, as the node that needs it finds it.
type File struct {
	Key   string        `json:"key"` // of the configuration
	Path  string        `json:"path"`
	Err   string        `json:"error,omitempty"`
	Mode  os.FileMode   `json:"mode"`
	Certs []Certificate `json:"certificates,omitempty"`
	Kind  FileKind      `json:"kind"`
}

// FileKind says what a file is for.
type FileKind string

const (
	// OwnCertificate is one that the node shows, with those that lead to its CA.
	OwnCertificate FileKind = "certificate"
	// Authorities are certificates any of which signs others'.
	Authorities FileKind = "authorities"
	// Secret is a key.
	Secret FileKind = "secret"
	// IssuedCertificate is one that the node shows, and that holdfast issues and renews at two thirds of its life.
	IssuedCertificate FileKind = "issued certificate"
)

// Certificate is one of those in a file.
type Certificate struct {
	Subject string    `json:"subject"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
}
