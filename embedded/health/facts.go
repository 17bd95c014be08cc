package health

import (
	"os"
	"slices"
	"time"

	"holdfast/embedded/plan"
)

// Facts is everything that is judged. Facts that nobody has collected are nil.
type Facts struct {
	Status    ClusterStatus
	Offline   string // not empty: no node answers on this machine, and why
	Hangs     bool   // with Offline: the process exists but does not answer
	Ended     string // with Offline: the process ended by itself, and why
	Endpoints *plan.Unleased
	Events    *plan.Unleased
	Store     *Holdings
	Now       time.Time
}

// Holdings is the content of a backup store.
type Holdings struct {
	Err      string   // why it could not be read
	Good     int      // verified backups of this cluster
	Skipped  []string // bad backups that are newer than the newest good one, one sentence each
	Broken   Sample   // damaged or never verified
	Unproven Sample   // their proofs cannot be read
	Foreign  int      // of another cluster
	Left     int      // begun long ago and never finished
}

// Sample is a number of objects, with a sentence on one of them.
type Sample struct {
	Count   int
	Example string
}

// Checkup is what a node knows of its machine, its disk and its files.
type Checkup struct {
	Time    time.Time         `json:"time"`              // by its clock
	Leader  bool              `json:"leader,omitempty"`  // its member leads and is not stalled
	Member  uint64            `json:"member,omitempty"`  // its own member's ID, 0 if none runs
	Members []plan.MemberInfo `json:"members,omitempty"` // as applied there
	Near    []uint64          `json:"near,omitempty"`    // members to which raft messages flow from here
	Taken   bool              `json:"taken,omitempty"`   // in an adopted cluster: it knows of no other program's members
	Names   map[uint64]string `json:"names,omitempty"`   // of the members, as announced by them
	Fsync   *Quantile         `json:"fsync,omitempty"`   // of the write-ahead log
	Commit  *Quantile         `json:"commit,omitempty"`  // of the database
	Room    *VolumeRoom       `json:"room,omitempty"`
	RoomErr string            `json:"room_error,omitempty"`
	Spool   *plan.Room        `json:"spool_room,omitempty"`   // nil if it is on the volume's file system
	Scratch *plan.Room        `json:"scratch_room,omitempty"` // nil if it is on that of the volume or the spool
	Files   []File            `json:"files,omitempty"`
	Cures   bool              `json:"cures,omitempty"` // upkeep.cure-nospace
}

// reaches reports whether the node's member is connected to another member, no matter which one leads.
func (c *Checkup) reaches(m plan.MemberInfo) bool {
	return m.Connected || slices.Contains(c.Near, m.ID)
}

// Quantile is the 99th percentile and the mean, in seconds, of Count samples of a histogram: those of the last Over
// seconds, or all Total samples if Over is 0.
type Quantile struct {
	Seconds float64 `json:"seconds"`
	Mean    float64 `json:"mean_seconds"`
	Count   uint64  `json:"count"`
	Over    float64 `json:"over_seconds,omitempty"`
	Total   uint64  `json:"total"`
}

// VolumeRoom is the room on a volume, with the limits by which its node decides. etcd needs Reserve free to keep
// running. Short means that it is not free; writes are refused until Enough is free.
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
	// OwnCertificate is a certificate that the node presents, with the chain to its CA.
	OwnCertificate FileKind = "certificate"
	// Authorities are CA certificates.
	Authorities FileKind = "authorities"
	// Secret is a key.
	Secret FileKind = "secret"
	// IssuedCertificate is a certificate that the node presents. holdfast issues it, and renews it at two thirds of its
	// life.
	IssuedCertificate FileKind = "issued certificate"
)

// Certificate is one certificate in a file.
type Certificate struct {
	Subject string    `json:"subject"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
}

// Report is the answer of `holdfast doctor`.
type Report struct {
	Cluster  string    `json:"cluster"`
	Asked    string    `json:"asked,omitempty"` // the node that answered; empty: no node runs here
	Time     time.Time `json:"time"`
	Findings []Finding `json:"findings"`
	Well     []string  `json:"well"`            // the areas that were examined and have no findings
	Fixed    []string  `json:"fixed,omitempty"` // by this command
}

// Report judges the facts, and lists the areas without findings. wanted are the configured slots of the asked node.
func (f Facts) Report(wanted []string) Report {
	r := Report{Cluster: f.Status.Cluster, Asked: f.Status.Asked, Time: f.Now,
		Findings: append([]Finding{}, f.Judge(wanted)...), Well: []string{}} // so that JSON has [] and not null
	for _, area := range areas {
		looked := f.Offline == "" || slices.Contains(alone, area)
		if looked && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Area == area }) {
			r.Well = append(r.Well, area)
		}
	}
	return r
}
