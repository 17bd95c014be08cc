package volume

import (
	"encoding/json"
	"errors"
	"fmt"
)

// MaxEpoch bounds the epochs that are accepted, so that a damaged file or tag cannot use up all epochs.
const MaxEpoch = 1 << 62

// ErrNewer marks a file of a later version: it is whole, but this program cannot read it. It must never be treated like
// a torn file, which may be replaced.
var ErrNewer = errors.New("written by a newer holdfast; upgrade this node")

// Phase is the state of a claim.
type Phase string

// The phases of a claim.
const (
	PhaseClaiming Phase = "claiming" // the volume is being made ready
	PhaseHeld     Phase = "held"     // the owner uses it, or used it until the owner went away
	PhaseReleased Phase = "released" // anyone may take it
)

// claimTag is what is recorded about a volume outside it: a hint and a history, never a lock.
type claimTag struct {
	Epoch uint64 `json:"epoch"` // of this claim, 1 or more
	Owner string `json:"owner"` // name of the node
	Nonce string `json:"nonce"` // of this claim, random
	Phase Phase  `json:"phase"`
	Since int64  `json:"since"`          // when the phase began, in seconds since 1970; for people only
	Disk  string `json:"disk,omitempty"` // UUID of the disk that was formatted here
}

type tagFile struct {
	Version int `json:"version"`
	claimTag
}

// parseTag parses the text of String. The error wraps ErrNewer if a newer holdfast wrote it; otherwise it means that
// the tag is torn.
func parseTag(data []byte) (claimTag, error) {
	var f tagFile
	if err := Decode(data, &f); err != nil {
		return claimTag{}, fmt.Errorf("parse claim: %w", err)
	}
	switch f.Phase {
	case PhaseClaiming, PhaseHeld, PhaseReleased:
	default:
		return claimTag{}, fmt.Errorf("parse claim: unknown phase %q", f.Phase)
	}
	if f.Epoch == 0 || f.Epoch > MaxEpoch {
		return claimTag{}, fmt.Errorf("parse claim: epoch %d is out of range", f.Epoch)
	}
	if f.Owner == "" || f.Nonce == "" {
		return claimTag{}, errors.New("parse claim: owner or nonce is missing")
	}
	return f.claimTag, nil
}

// String returns the tag as one line of JSON with its version.
func (t claimTag) String() string {
	return encode(tagFile{Version: 1, claimTag: t})
}

// encode encodes a versioned file. The types of this package can always be encoded as JSON.
func encode(file any) string {
	data, err := json.Marshal(file)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", file, err))
	}
	return string(data) + "\n"
}

// Decode decodes a versioned file of version 1 into file. The error wraps [ErrNewer] if the version is later; otherwise
// it means that the file is damaged.
func Decode(data []byte, file any) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	if head.Version > 1 {
		return fmt.Errorf("version %d: %w", head.Version, ErrNewer)
	}
	if head.Version != 1 {
		return fmt.Errorf("version must be 1, got %d", head.Version)
	}
	return json.Unmarshal(data, file)
}
