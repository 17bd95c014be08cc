package ebs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// Cloud is what the protocol uses of EC2. Reads may be stale without bound, and older than an earlier read.
// Every error is, or wraps, an *[Error]. For a call that changes something its Meaning tells whether it may have been
// executed all the same. Nothing repeats a call without the protocol's knowledge.
type Cloud interface {
	// Volumes returns every volume that q selects, all pages of them, in no order.
	Volumes(ctx context.Context, q Query) ([]Volume, error)
	// Instances returns those of the instances that EC2 knows. One that is missing is unknown, not gone.
	Instances(ctx context.Context, ids []string) ([]Instance, error)
	// Attach asks for the attachment of a volume to an instance under a device name such as /dev/sdf. It
	// returns when EC2 has accepted, long before the device is there.
	Attach(ctx context.Context, volume, instance, device string) error
	// Detach requests the end of that attachment. It is never forced.
	Detach(ctx context.Context, volume, instance string) error
	// Tag adds or overwrites tags of a volume: the last writer wins, and nothing is compared.
	Tag(ctx context.Context, volume string, tags map[string]string) error
	// Untag removes a tag if it has exactly this value, and does not say whether it did.
	Untag(ctx context.Context, volume, key, value string) error
}

// Query selects volumes: those named by IDs, or else those that have all of Tags.
type Query struct {
	IDs []string
	// Tags are filters: a value must be equal, and "" stands for any value.
	Tags map[string]string
}

// The states of a volume (EC2's VolumeState).
const (
	VolumeAvailable = "available"
	VolumeInUse     = "in-use"
)

// The states of an attachment (EC2's VolumeAttachmentState). Any of them but detached means: held.
const (
	Attaching = "attaching"
	Attached  = "attached"
	Detaching = "detaching"
	Detached  = "detached"
	Busy      = "busy"
)

// The states of an instance (EC2's InstanceStateName). Only terminated is forever.
const (
	InstancePending      = "pending"
	InstanceRunning      = "running"
	InstanceShuttingDown = "shutting-down"
	InstanceTerminated   = "terminated"
	InstanceStopping     = "stopping"
	InstanceStopped      = "stopped"
)

// Volume is what EC2 said of a volume.
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
	Instance            string // "": something that AWS manages holds the volume
	Device              string // as it was asked for
	State               string
	DeleteOnTermination bool
}

// holder is the instance a volume is attached to, "" for none.
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

// Instance is what EC2 said of an instance.
type Instance struct {
	ID        string
	State     string
	Address   netip.Addr // private, IPv4 before IPv6; the zero value if it has none
	Hibernate bool       // it is set up to hibernate: stopped, it may come back with its memory, etcd included
}

// Meaning is what an error of EC2 means for the protocol.
type Meaning string

// The meanings. Those of a change say whether it may have been executed.
const (
	InUse     Meaning = "in use"    // not executed: somebody holds the volume, and that may be us
	NotNow    Meaning = "not now"   // not executed: a state is in the way; look again
	NameTaken Meaning = "name"      // not executed: the device name is in use; take another
	NoRoom    Meaning = "no room"   // not executed: this instance can have no more volumes
	Misplaced Meaning = "misplaced" // not executed: never this volume on this instance
	NotFound  Meaning = "not found" // not executed; of a read no proof that it does not exist
	Denied    Meaning = "denied"    // not executed: a permission is missing
	Throttled Meaning = "throttled" // not executed: too many requests
	Invalid   Meaning = "invalid"   // not executed: the request, or the configuration, is wrong
	Uncertain Meaning = "uncertain" // perhaps executed, now or later: no answer, or one that says nothing
)

// Error is an error of EC2 with what it means.
type Error struct {
	Op      string // AttachVolume
	Code    string // VolumeInUse; "" when there was no answer
	Meaning Meaning
	Err     error
}

// Error names the operation, and EC2's code where it gave one.
func (e *Error) Error() string {
	switch {
	case e.Code == "" && e.Meaning != Uncertain: // it never left this machine
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	case e.Code == "":
		return fmt.Sprintf("%s: no answer: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Op, e.Code, e.Err)
}

// Unwrap returns what the SDK or the network said.
func (e *Error) Unwrap() error { return e.Err }

// MeaningOf returns what an error of a Cloud means; Uncertain for one that is not an *Error.
func MeaningOf(err error) Meaning {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Meaning
	}
	return Uncertain
}
