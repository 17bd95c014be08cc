package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Found is the content of a volume's directory.
type Found struct {
	Identity *Identity // nil if there is none or it is damaged
	Damaged  string    // why the identity cannot be read
	Entries  int       // without the identity and what Inspect does not count
	Foreign  []string  // without an identity: etcd data directories of another program, relative to the volume
}

// Inspect reads the content of a volume's directory. It does not count an empty lost+found, which comes with a new file
// system, or the temporary file that a crash left while the identity was written. If a newer holdfast wrote the
// identity, the result is an error that wraps [ErrNewer], not Damaged.
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
	case !info.Mode().IsRegular(): // opening it could block, or follow a link off the volume
		f.Damaged = fmt.Sprintf("%s is damaged: it is not a regular file", path)
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

// dataIn counts the entries of a volume's directory as Inspect does.
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
