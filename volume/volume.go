package volume

import (
	"context"
	"errors"
	"fmt"
	"regexp"
)

// ErrNoneFree is wrapped by the error of Provider.Claim when no wanted volume can be taken now, in a None
// that says why. It is the ordinary state of a standby: try again later.
var ErrNoneFree = errors.New("no volume is free")

// None is an ErrNoneFree with the reason.
type None struct {
	Why string // for each slot
}

func (n None) Error() string { return ErrNoneFree.Error() + ": " + n.Why }
func (n None) Unwrap() error { return ErrNoneFree }

// ErrLost is wrapped by the error of Claim.Watch when the volume is not this process's any more; the
// error's text is the evidence. Stop writing at once, then call Release without drop.
var ErrLost = errors.New("volume lost")

// Want says which slots a claim may be for.
type Want struct {
	// Cluster is the name of the cluster the volume must belong to.
	Cluster string
	// Slots are the slots of the cluster, at least one; each a DNS label of lower-case letters.
	Slots []string
	// Known are slots that the cluster has and the configuration, which names Slots, does not: they may be taken, too.
	Known []string
	// Avoid names slots not to take and why, for instance because gossip knows a live holder on
	// another machine. It never keeps a node from a volume that is its own already.
	Avoid map[string]string
	// Adopt has a volume claimed and given an identity that holds data of etcd's, made by etcd-manager or by plain etcd,
	// and no identity; without it such a volume has a Mismatch. Nothing else on it is touched. While an etcd still runs on
	// a volume, that volume is not free.
	Adopt bool
}

// Provider knows the volumes of one kind. Its methods may be called from several goroutines.
type Provider interface {
	// Claim tries once to take one of the wanted volumes, its own first. It does not wait for one to become
	// free; making a free one ready may take a while, which ends with ctx. The error wraps ErrNoneFree
	// when every volume is held or must not be taken yet; any other error needs a cure, which its text
	// names. A process that holds a volume of the provider gets an error.
	Claim(ctx context.Context, want Want) (Claim, error)
	// List shows every volume of the provider to people, ordered by slot, and changes nothing.
	List(ctx context.Context, want Want) ([]Info, error)
}

// Claim is a volume held by this process. While it is held no other process can hold it.
type Claim interface {
	// Volume is the identity of the volume with the epoch of this claim. While there is a Mismatch
	// it is the identity the volume should have, without a disk.
	Volume() Identity
	// Path is the absolute path of the mounted file system or directory.
	Path() string
	// Watch blocks until ctx ends or the claim is released and then returns nil. It returns an error
	// wrapping ErrLost within 2 s of the volume, its lock or its claim being lost.
	Watch(ctx context.Context) error
	// Mismatch is empty, or says why what lies on the volume is not this volume's: then the holder
	// must wait, and nothing may be written to Path.
	Mismatch() string
	// Release gives the volume up; a second call does nothing. Without drop the claim still names
	// this node, which can adopt the volume at once when it comes back, and others must wait for
	// it; with drop anyone may take it. Nothing on the volume may be open any more. When the error
	// is not nil the lock is given up nevertheless.
	Release(ctx context.Context, drop bool) error
}

// SetAsider is a Claim whose foreign content can be set aside. Only an operator may ask for it.
type SetAsider interface {
	// SetAside moves everything on the volume into aside/<n>-by-operator/ and gives it a fresh identity with
	// a new disk UUID, which ends a Mismatch. Without one the content is set aside all the same: it may be
	// foreign in a way that only the caller knows. Nothing on the volume may be open.
	SetAside(ctx context.Context) error
}

// Yielder is a Claim that can be given up without leaving a trace, in favour of another machine.
type Yielder interface {
	// Yield releases a volume that holds nothing but its identity, and removes that, so that it
	// does not look like a slot with data later. With anything else on the volume, or with a
	// Mismatch, it is an error and the volume stays held.
	Yield(ctx context.Context) error
}

// RecordLister is a Provider whose volumes show every node which cluster they belong to. It counts as evidence that the
// cluster exists.
type RecordLister interface {
	// Records returns, by volume, the tokens that the volumes' claims were given by SetRecord, as last seen. It does no
	// I/O.
	Records() map[string]string
}

// SlotLister is a Provider whose volumes say which slots their cluster has, so that no configuration must.
type SlotLister interface {
	// Slots returns the slots that all volumes of the cluster name, ordered. Where they do not agree, the error has what
	// each says.
	Slots(ctx context.Context) ([]string, error)
}

// RecordSetter is a Claim that shows or remembers, outside of the volume, which cluster its disk belongs to.
type RecordSetter interface {
	// SetRecord has it say token, soon and as well as it can. It is called again and again.
	SetRecord(token string)
}

// MissingReporter is a Claim that knows which disk this node held last.
type MissingReporter interface {
	// Missing names that disk if it is not where it was, "" for none.
	Missing() string
}

// Locker is a Claim on a lock of the operating system.
type Locker interface {
	// Lock names the lock that the claim holds: the kernel that runs, and the file in it. Of all processes that tell the
	// same name only one has the volume. "" where that cannot be known.
	Lock() string
}

// State says whether some process holds a volume.
type State string

// The states of a volume. What could not be read is unknown, never free.
const (
	StateHeld    State = "held"
	StateFree    State = "free"
	StateUnknown State = "unknown"
)

// Decision says what a Claim of this process would do about a volume now.
type Decision string

// The decisions about a volume.
const (
	DecisionKeep Decision = "keep" // this process holds it
	DecisionTake Decision = "take" // a Claim may take it
	DecisionWait Decision = "wait" // a Claim must leave it alone
)

// Info is what people are shown about one volume.
type Info struct {
	Slot     string   `json:"slot"`
	Volume   string   `json:"volume"`
	State    State    `json:"state"`
	Holder   string   `json:"holder,omitempty"` // node that holds it or held it last
	Epoch    uint64   `json:"epoch,omitempty"`  // of the holder's claim
	Disk     string   `json:"disk,omitempty"`   // UUID of the disk as the tag remembers it
	Decision Decision `json:"decision"`
	Why      string   `json:"why"`

	// Of a cloud's volume.
	Zone      string `json:"zone,omitempty"`
	Size      int64  `json:"size,omitempty"` // bytes
	Type      string `json:"type,omitempty"`
	Encrypted bool   `json:"encrypted,omitempty"`
	Cloud     string `json:"cloud_state,omitempty"` // the cloud's own word for its state
	Instance  string `json:"instance,omitempty"`    // that it is attached to
	Format    string `json:"format,omitempty"`      // filesystem
	Claim     string `json:"claim,omitempty"`       // its claim, as written
}

// label is what a slot must look like: it becomes a file name and a part of a host name.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate returns what is wrong with a want, joined; nil when nothing is.
func (w Want) Validate() error {
	var errs []error
	if w.Cluster == "" {
		errs = append(errs, errors.New("no cluster name was given"))
	}
	if len(w.Slots) == 0 {
		errs = append(errs, errors.New("no slots are wanted"))
	}
	for _, slot := range w.Slots {
		if !label.MatchString(slot) {
			errs = append(errs, fmt.Errorf("slot %q is not a DNS label of lower-case letters and digits", slot))
		}
	}
	return errors.Join(errs...)
}
