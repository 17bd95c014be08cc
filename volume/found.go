package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Found is what lies in the directory of a volume.
type Found struct {
	Identity *Identity // nil: there is none, or it is damaged
	Damaged  string    // why the identity cannot be read
	Entries  int       // beside the identity and what says nothing, see [Inspect]
	Foreign  []string  // without an identity: directories with data of etcd's that another program made, from there
}

// Inspect reads what lies in the directory of a volume. What says nothing is not counted: what a crash left of writing
// the identity, and an empty lost+found, which comes with a new file system. An identity that a newer holdfast wrote is
// an error that wraps [ErrNewer], not damaged.
func Inspect(dir string) (f Found, err error) {
	if f.Entries, err = dataIn(dir); err != nil {
		return f, err
	}
	path := filepath.Join(dir, IdentityName)
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		f.Foreign, err = foreignEtcd(dir)
		return f, err
	case err != nil:
		return f, err
	case !info.Mode().IsRegular(): // opening it could block, or lead off the volume
		f.Damaged = fmt.Sprintf("%s is damaged: it is no regular file", path)
		return f, nil
	}
	data, err := ReadSmall(path)
	if err != nil {
		return f, err
	}
	id, err := parseIdentity(data)
	switch {
	case errors.Is(err, ErrNewer):
		return f, fmt.Errorf("read %s: %w", path, err)
	case err != nil:
		f.Damaged = fmt.Sprintf("%s is damaged: %v", path, err)
	default:
		f.Identity = &id
	}
	return f, nil
}

// dataIn counts what lies in the directory of a volume beside its identity and what says nothing.
func dataIn(dir string) (n int, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range all {
		name := e.Name()
		if name == "lost+found" {
			if inside, err := os.ReadDir(filepath.Join(dir, name)); err == nil && len(inside) == 0 {
				continue
			}
		}
		if name != ownName && name != IdentityName && name != IdentityName+tempSuffix {
			n++
		}
	}
	return n, nil
}
