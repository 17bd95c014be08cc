package ebs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// Cloud is the part of EC2 that the protocol uses. Reads may be arbitrarily stale, and older than an earlier read.
// Every error is, or wraps, an *[Error]. If a call changes something, the error's Meaning tells whether it may have
// been executed nevertheless. An implementation must not retry such a call by itself.
type Cloud interface {
	// Volumes returns every volume that q selects, from all pages, unordered.
	Volumes(ctx context.Context, q Query) ([]Volume, error)
	// Instances returns the given instances that EC2 knows. One that is missing is unknown, not gone.
	Instances(ctx context.Context, ids []string) ([]Instance, error)
	// Attach requests the attachment of a volume to an instance under a device name such as /dev/sdf. It returns when EC2
	// has accepted the request, long before the device is there.
	Attach(ctx context.Context, volume, instance, device string) error
	// Detach requests the end of that attachment, never by force.
	Detach(ctx context.Context, volume, instance string) error
	// Tag adds or overwrites tags of a volume without comparing: the last writer wins.
	Tag(ctx context.Context, volume string, tags map[string]string) error
	// Untag removes a tag if it has exactly this value. It does not report whether it did.
	Untag(ctx context.Context, volume, key, value string) error
}

// Metadata is what the protocol asks the metadata service of this instance.
type Metadata interface {
	// Identity returns the instance that this process runs on.
	Identity(ctx context.Context) (Self, error)
	// Lifecycle returns what is planned for this instance. If a part gets no answer or one in an unknown form, it stays as
	// in last, and the error says so.
	Lifecycle(ctx context.Context, last Lifecycle) (Lifecycle, error)
}

// Query selects volumes: those with the IDs, or else those that have all Tags.
type Query struct {
	IDs []string
	// Tags are filters: a value must be equal, and "" matches any value.
	Tags map[string]string
}

// The states of a volume (EC2's VolumeState). [Dead] has the others, except creating.
const (
	VolumeAvailable = "available"
	VolumeInUse     = "in-use"
)

// Dead reports whether a volume in this state can never be used: EC2 has given it up, or deletes it.
func Dead(state string) bool { return state == "error" || state == "deleting" || state == "deleted" }

// The states of an attachment (EC2's VolumeAttachmentState). In all of them but detached the volume is held.
const (
	Attaching = "attaching"
	Attached  = "attached"
	Detaching = "detaching"
	Detached  = "detached"
	Busy      = "busy"
)

// The states of an instance (EC2's InstanceStateName). Only terminated is final.
const (
	InstancePending      = "pending"
	InstanceRunning      = "running"
	InstanceShuttingDown = "shutting-down"
	InstanceTerminated   = "terminated"
	InstanceStopping     = "stopping"
	InstanceStopped      = "stopped"
)

// Volume is a volume as EC2 describes it.
type Volume struct {
	ID          string
	Zone        string
	State       string
	Type        string // gp3, io2, …
	Size        int64  // GiB
	Encrypted   bool
	MultiAttach bool
	Tags        map[string]string
	Attachments []Attachment
}

// Attachment is one attachment of a volume.
type Attachment struct {
	Instance            string // "" if something that AWS manages holds the volume
	Device              string // the requested device name
	State               string
	DeleteOnTermination bool
}

// holder returns the instance a volume is attached to, or "".
func holder(v Volume) string {
	for _, a := range v.Attachments {
		if a.State != Detached {
			if a.Instance == "" {
				return "AWS"
			}
			return a.Instance
		}
	}
	return ""
}

// Instance is an instance as EC2 describes it.
type Instance struct {
	ID        string
	State     string
	Address   netip.Addr // private, IPv4 before IPv6; the zero value if it has none
	Hibernate bool       // it can hibernate: after a stop it may come back with its memory, including a running etcd
}

// Meaning is what an error of EC2 means for the protocol.
type Meaning string

// The meanings. For a call that changes something, each says whether the call may have been executed.
const (
	InUse     Meaning = "in use"    // not executed: the volume is held, perhaps by this instance
	NotNow    Meaning = "not now"   // not executed: some state does not allow it; look again
	NameTaken Meaning = "name"      // not executed: the device name is in use; take another
	NoRoom    Meaning = "no room"   // not executed: this instance can have no more volumes
	Misplaced Meaning = "misplaced" // not executed: this volume can never be attached to this instance
	NotFound  Meaning = "not found" // not executed; for a read, no proof that it does not exist
	Denied    Meaning = "denied"    // not executed: a permission is missing
	Throttled Meaning = "throttled" // not executed: too many requests
	Invalid   Meaning = "invalid"   // not executed: the request, or the configuration, is wrong
	Uncertain Meaning = "uncertain" // perhaps executed, now or later: there was no answer, or an unclear one
)

// Error is an error of EC2 with its meaning.
type Error struct {
	Op      string // AttachVolume
	Code    string // VolumeInUse; "" if there was no answer
	Meaning Meaning
	Err     error
}

// Error names the operation, and EC2's error code if there is one.
func (e *Error) Error() string {
	switch {
	case e.Code == "" && e.Meaning != Uncertain: // the request never left this machine
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	case e.Code == "":
		return fmt.Sprintf("%s: no answer: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Code, e.Err)
}

// Unwrap returns the error of the SDK or the network.
func (e *Error) Unwrap() error { return e.Err }

// MeaningOf returns the meaning of a Cloud's error, or Uncertain for an error that is not an *Error.
func MeaningOf(err error) Meaning {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Meaning
	}
	return Uncertain
}
