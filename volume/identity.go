package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// Identity says to which cluster and slot a volume belongs. It is stored on the volume and moves with it.
type Identity struct {
	Cluster string    `json:"cluster"`
	Slot    string    `json:"slot"`
	Volume  string    `json:"volume"`  // the provider's name for the volume, such as local:a
	Disk    string    `json:"disk"`    // UUID, given when the volume was formatted or set aside
	Epoch   uint64    `json:"epoch"`   // of the last claim
	Created time.Time `json:"created"` // when Disk was given
}

type identityFile struct {
	Version int `json:"version"`
	Identity
}

// parseIdentity parses the text of String. The error wraps ErrNewer if a newer holdfast wrote it; otherwise it means
// that the file is damaged.
func parseIdentity(data []byte) (Identity, error) {
	var f identityFile
	if err := Decode(data, &f); err != nil {
		return Identity{}, fmt.Errorf("parse identity: %w", err)
	}
	if f.Epoch == 0 || f.Epoch > MaxEpoch {
		return Identity{}, fmt.Errorf("parse identity: epoch %d is out of range", f.Epoch)
	}
	if f.Cluster == "" || f.Slot == "" || f.Volume == "" || f.Disk == "" {
		return Identity{}, errors.New("parse identity: cluster, slot, volume or disk is missing")
	}
	return f.Identity, nil
}

// String returns the identity as one line of JSON with its version.
func (id Identity) String() string {
	return encode(identityFile{Version: 1, Identity: id})
}

// Write writes the identity into the directory of a volume, as [ReplaceFile] does.
func (id Identity) Write(dir string, step func(string)) error {
	return ReplaceFile(filepath.Join(dir, IdentityName), id.String(), step)
}

// Fresh returns the identity with a new disk UUID, for a volume that is being formatted or set aside.
func (id Identity) Fresh() Identity {
	id.Disk = uuid.NewString()
	id.Created = time.Now().UTC().Truncate(time.Second)
	return id
}

// Mismatch says why the identity found on a volume is not the expected one, or returns "". A field that id leaves
// empty, such as an unknown disk, is not compared.
func (id Identity) Mismatch(found Identity) string {
	for _, f := range []struct{ name, want, got string }{
		{"cluster", id.Cluster, found.Cluster},
		{"slot", id.Slot, found.Slot},
		{"volume", id.Volume, found.Volume},
		{"disk", id.Disk, found.Disk},
	} {
		if f.want != f.got && f.want != "" {
			return fmt.Sprintf("its identity names %s %q, expected %q", f.name, f.got, f.want)
		}
	}
	return ""
}
