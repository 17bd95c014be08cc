package volume

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// Identity says whose volume it is. It lies on the volume and travels with it.
type Identity struct {
	Cluster string    `json:"cluster"`
	Slot    string    `json:"slot"`
	Volume  string    `json:"volume"`  // the provider's name of it, such as local:a
	Disk    string    `json:"disk"`    // UUID given when it was formatted, or its content set aside
	Epoch   uint64    `json:"epoch"`   // of the last claim
	Created time.Time `json:"created"` // when Disk was given
}

type identityFile struct {
	Version int `json:"version"`
	Identity
}

// parseIdentity reads what String wrote. The error means that the file is damaged, unless it says
// that a newer holdfast wrote it.
func parseIdentity(data []byte) (Identity, error) {
	var f identityFile
	if err := Decode(data, &f); err != nil {
		return Identity{}, fmt.Errorf("parse identity: %w", err)
	}
	if f.Epoch == 0 || f.Epoch > maxEpoch {
		return Identity{}, fmt.Errorf("parse identity: epoch %d is out of range", f.Epoch)
	}
	if f.Cluster == "" || f.Slot == "" || f.Volume == "" || f.Disk == "" {
		return Identity{}, errors.New("parse identity: cluster, slot, volume or disk is missing")
	}
	return f.Identity, nil
}

// String is the identity as one line of JSON with its version.
func (id Identity) String() string {
	return encode(identityFile{Version: 1, Identity: id})
}

// Write writes the identity into the directory of a volume, as [ReplaceFile] does.
func (id Identity) Write(dir string, step func(string)) error {
	return ReplaceFile(filepath.Join(dir, IdentityName), id.String(), step)
}

// Fresh is the identity of a volume that is formatted now, or whose content is set aside: with a new disk UUID.
func (id Identity) Fresh() Identity {
	id.Disk = uuid.NewString()
	id.Created = time.Now().UTC().Truncate(time.Second)
	return id
}

// Mismatch says why the identity found on a volume is not the one it should have, "" when it is. A
// disk is compared only when it is known what it should be.
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
