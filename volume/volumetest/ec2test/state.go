package ec2test

import (
	"maps"
	"slices"
	"time"
)

// Instance is a machine. A new one only needs an ID.
type Instance struct {
	ID         string // i-…
	Zone       string // default: the region's zone a
	PrivateIP  string // identifies a caller, also to the metadata service
	Type       string // default m7g.large
	State      string // default running
	Hibernate  bool
	MaxVolumes int // limit of attachments; default 27 (a Nitro machine's 28 without the root volume)
	Tags       map[string]string
	Metadata   map[string]string // further paths below meta-data/, such as spot/instance-action
	Launched   time.Time
}

// Volume is a disk. A new one only needs a Zone: ID, Size (1), Type (gp3) and State (available) have defaults.
type Volume struct {
	ID          string // vol-…
	Zone        string
	Size        int64 // GiB
	Type        string
	State       string
	Encrypted   bool
	KMSKey      string
	IOPS        int64
	Throughput  int64 // MiB/s
	MultiAttach bool
	Tags        map[string]string
	Created     time.Time
	Attachments []Attachment
	// Token and Asked are the ClientToken and the parameters of CreateVolume.
	Token, Asked string
}

// Attachment is one attachment of a volume.
type Attachment struct {
	Instance string // "" if AWS manages the attachment
	Device   string
	State    string
	Since    time.Time
	Force    bool // the detach was forced

	serial uint64 // distinguishes this attachment from an earlier one of the same two
}

// State is everything at one moment. A State that a Cloud returns may be kept, and must not be changed.
type State struct {
	At        time.Time
	Volumes   map[string]*Volume
	Instances map[string]*Instance
}

// next returns a copy that shares volumes and instances until they are changed.
func (s *State) next(now time.Time) *State {
	return &State{At: now, Volumes: maps.Clone(s.Volumes), Instances: maps.Clone(s.Instances)}
}

// volume returns a volume that may be changed, or nil.
func (s *State) volume(id string) *Volume {
	old := s.Volumes[id]
	if old == nil {
		return nil
	}
	v := *old
	v.Tags = maps.Clone(v.Tags)
	v.Attachments = slices.Clone(v.Attachments)
	s.Volumes[id] = &v
	return &v
}

// instance returns an instance that may be changed, or nil.
func (s *State) instance(id string) *Instance {
	old := s.Instances[id]
	if old == nil {
		return nil
	}
	i := *old
	i.Tags, i.Metadata = maps.Clone(i.Tags), maps.Clone(i.Metadata)
	s.Instances[id] = &i
	return &i
}

// attachment finds an attachment by its serial number, or returns nil. v may be nil.
func (v *Volume) attachment(serial uint64) *Attachment {
	if v == nil {
		return nil
	}
	for i := range v.Attachments {
		if v.Attachments[i].serial == serial {
			return &v.Attachments[i]
		}
	}
	return nil
}

// held returns the attachments of the volumes of an instance, by volume.
func (s *State) held(instance string) map[string]Attachment {
	found := map[string]Attachment{}
	for id, v := range s.Volumes {
		for _, a := range v.Attachments {
			if a.Instance == instance {
				found[id] = a
			}
		}
	}
	return found
}

// drop removes an attachment. After the last one, the volume is available again.
func (v *Volume) drop(serial uint64) {
	v.Attachments = slices.DeleteFunc(v.Attachments, func(a Attachment) bool { return a.serial == serial })
	if len(v.Attachments) == 0 {
		v.State = available
	}
}

// The states, in EC2's words.
const (
	creating  = "creating"
	available = "available"
	inUse     = "in-use"

	attaching = "attaching"
	attached  = "attached"
	detaching = "detaching"
	busy      = "busy"

	pending      = "pending"
	running      = "running"
	shuttingDown = "shutting-down"
	terminated   = "terminated"
	stopping     = "stopping"
	stopped      = "stopped"
)
