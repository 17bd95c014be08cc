package volume

import (
	"context"
	"errors"
	"fmt"
	"regexp"
)

// ErrNoneFree is wrapped by the error of Provider.Claim, a None with the reasons, when no wanted volume can be taken
// now. This is normal for a standby: try again later.
var ErrNoneFree = errors.New("no volume is free")

// None is an ErrNoneFree with the reasons.
type None struct {
	Why string // one reason for each slot
}

func (n None) Error() string { return ErrNoneFree.Error() + ": " + n.Why }
func (n None) Unwrap() error { return ErrNoneFree }

// ErrLost is wrapped by the error of Claim.Watch when this process no longer has the volume. The error's text is the
// evidence. Stop writing at once, then call Release without drop.
var ErrLost = errors.New("volume lost")

// Want says which slots a claim may be for.
type Want struct {
	// Cluster is the name of the cluster the volume must belong to.
	Cluster string
	// Slots are the slots of the cluster, at least one. Each is a DNS label of lower-case letters.
	Slots []string
	// Known are slots that the cluster has but the configured Slots do not include. They may be taken too.
	Known []string
	// Avoid maps slots that must not be taken to the reason, for example that gossip knows a live holder on another
	// machine. It never keeps a node from a volume that is already its own.
	Avoid map[string]string
	// Adopt lets a claim take a volume that has no identity but etcd data made by etcd-manager or plain etcd. The volume
	// is given an identity, and nothing else on it is touched. Without Adopt such a volume has a Mismatch. While an etcd
	// still runs on a volume, that volume is not free.
	Adopt bool
}

// Provider knows the volumes of one kind. Its methods may be called from several goroutines.
type Provider interface {
	// Claim tries once to take one of the wanted volumes, its own first. It does not wait for one to become free. Making
	// a free volume ready may take a while, and stops when ctx ends. The error wraps ErrNoneFree if every volume is held
	// or must not be taken yet. The text of any other error names the cure. A process that already holds a volume of the
	// provider gets an error.
	Claim(ctx context.Context, want Want) (Claim, error)
	// List returns all volumes of the provider, ordered by slot, to be shown to people. It changes nothing.
	List(ctx context.Context, want Want) ([]Info, error)
}

// Claim is a volume held by this process. While it is held no other process can hold it.
type Claim interface {
	// Volume is the identity of the volume with the epoch of this claim. While there is a Mismatch, it is the identity
	// that the volume should have, without a disk.
	Volume() Identity
	// Path is the absolute path of the mounted file system or directory.
	Path() string
	// Watch blocks until ctx ends or the claim is released and then returns nil. It returns an error
	// wrapping ErrLost within 2 s of the volume, its lock or its claim being lost.
	Watch(ctx context.Context) error
	// Mismatch is empty, or says why the content is not that of this volume. The holder must then wait, and must not
	// write anything to Path.
	Mismatch() string
	// Release gives up the volume; a second call does nothing. Without drop the claim still names this node: it can take
	// the volume again at once when it comes back, and others must wait for it. With drop any node may take it. Nothing
	// on the volume may be open any more. Even if Release returns an error, the lock is given up.
	Release(ctx context.Context, drop bool) error
	// SetAside moves everything on the volume into aside/<n>-by-operator/ and gives the volume a fresh identity with a
	// new disk UUID. Only an operator may ask for it. This ends a Mismatch. It also works without a Mismatch, because the
	// content may be foreign in a way that only the caller knows. Nothing on the volume may be open.
	SetAside(ctx context.Context) error
	// SetRecord records soon, outside the volume, which cluster its disk belongs to, and does not report a failure. The
	// caller repeats the call again and again. "" takes back what this claim has recorded, once an operator has given
	// that cluster up.
	SetRecord(token string)
}

// Yielder is a Claim that can be given up without leaving a trace, in favour of another machine.
type Yielder interface {
	// Yield releases a volume that holds nothing but its identity, and removes the identity, so that the volume does not
	// look like a slot with data later. If there is anything else on the volume or a Mismatch, Yield returns an error and
	// the volume stays held.
	Yield(ctx context.Context) error
}

// RecordLister is a Provider whose volumes show every node which cluster they belong to. That is evidence that the
// cluster exists.
type RecordLister interface {
	// Records returns, by volume, the tokens last seen that claims have set with SetRecord. It does no I/O.
	Records() map[string]string
}

// SlotLister is a Provider whose volumes name the slots of their cluster, so that the configuration need not.
type SlotLister interface {
	// Slots returns the slots that all volumes of the cluster name, ordered. If the volumes do not agree, the error says
	// what each of them names.
	Slots(ctx context.Context) ([]string, error)
}

// MissingReporter is a Claim that knows which disk this node held last.
type MissingReporter interface {
	// Missing names that disk if it is not where it was, or returns "".
	Missing() string
}

// Locker is a Claim on a lock of the operating system.
type Locker interface {
	// Lock names the lock that the claim holds: the running kernel and the file in it. If several processes report the
	// same name, only one of them has the volume. It returns "" if the name cannot be determined.
	Lock() string
}

// State says whether some process holds a volume.
type State string

// The states of a volume. A state that cannot be read is unknown, never free.
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

// Info describes one volume to people.
type Info struct {
	Slot     string   `json:"slot"`
	Volume   string   `json:"volume"`
	State    State    `json:"state"`
	Holder   string   `json:"holder,omitempty"` // node that holds it or held it last
	Epoch    uint64   `json:"epoch,omitempty"`  // of the holder's claim
	Disk     string   `json:"disk,omitempty"`   // UUID of the disk, from the tag
	Decision Decision `json:"decision"`
	Why      string   `json:"why"`

	// Only set for a cloud's volume.
	Zone      string `json:"zone,omitempty"`
	Size      int64  `json:"size,omitempty"` // bytes
	Type      string `json:"type,omitempty"`
	Encrypted bool   `json:"encrypted,omitempty"`
	Cloud     string `json:"cloud_state,omitempty"` // the state in the cloud's own words
	Instance  string `json:"instance,omitempty"`    // to which it is attached
	Format    string `json:"format,omitempty"`      // filesystem
	Claim     string `json:"claim,omitempty"`       // text of its claim
}

// label is the syntax of a slot: it becomes a file name and a part of a host name.
var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Validate returns all problems of a Want, joined, or nil.
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

// ClaimLimit is the longest text of a claim, in bytes. Its characters are the letters, digits, spaces and
// + - = . _ : / @ that every AWS service allows in tags.
const ClaimLimit = 255

// Carrier stores the texts of the claims beside the volumes, in tags or labels. They are hints: a carrier need not be a
// lock, and reads may be stale, because safety never rests on them.
//
// If a label is shorter than [ClaimLimit] or allows fewer characters (63 of a-z, 0-9, - and _ in some clouds), the
// carrier encodes the text and spreads it over several labels. If labels do not change together, a mixture of two texts
// must not be read as one: the carrier then adds a checksum, and reads a text with a wrong checksum as no claim.
type Carrier interface {
	// Read returns the text of the claim on a volume, or "".
	Read(ctx context.Context, volume string) (text string, err error)
	// Write replaces the text without comparing: the last writer wins.
	Write(ctx context.Context, volume, text string) error
	// Remove removes the claim if it is exactly this text. It does not report whether it did.
	Remove(ctx context.Context, volume, text string) error
}
