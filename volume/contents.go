package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holdfast/layout"
)

// Contents describes a volume to an operator who has to decide about it.
type Contents struct {
	// Names are the files and directories at its top, sorted, without aside/ and lost+found.
	Names []string `json:"names,omitempty"`
	// EtcdManager are the paths, relative to the volume, that show that etcd-manager made the data; none if it did not.
	EtcdManager []string `json:"etcdManager,omitempty"`
}

// Look returns the content of a volume's directory. It changes nothing.
func Look(dir string) (Contents, error) {
	names, err := movable(dir)
	if errors.Is(err, fs.ErrNotExist) { // a volume that is missing may have no directory
		return Contents{}, nil
	}
	if err != nil {
		return Contents{}, err
	}
	return Contents{Names: names, EtcdManager: managerData(dir)}, nil
}

// managerData returns the paths that identify a volume of etcd-manager: its state file and its clusters' data
// directories.
func managerData(dir string) (found []string) {
	all, _ := layout.Directories(dir) // what cannot be read is left out
	for _, d := range all {
		if d.Path != "." {
			found = append(found, d.Path)
		}
	}
	state, err := os.Stat(filepath.Join(dir, layout.State))
	if len(found) > 0 && err == nil && state.Mode().IsRegular() { // "state" alone is too common a name
		found = slices.Insert(found, 0, layout.State)
	}
	return found
}

// Found is the content of a volume's directory.
type Found struct {
	Identity *Identity // nil if it is missing or damaged
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

// made are names that only holdfast creates at the top of a volume. Data beside one of them no longer belongs to
// another program's cluster, even if the identity is gone.
var made = []string{layout.Own, "origin.json", "founding.json"}

// foreignEtcd returns the etcd data directories of another program, relative to the volume: data/TOKEN for
// etcd-manager, which has a state file beside data (kubernetes-sigs/etcd-manager, pkg/etcd/etcdserver.go), or "." for
// plain etcd. It ignores data beside files of holdfast, and data behind a symbolic link, which may lead off the volume.
func foreignEtcd(dir string) (found []string, err error) {
	for _, name := range made {
		if has, err := layout.Exists(filepath.Join(dir, name)); has || err != nil {
			return nil, cure(err)
		}
	}
	all, err := layout.Directories(dir)
	if err != nil {
		return nil, cure(err)
	}
	state, err := os.Lstat(filepath.Join(dir, layout.State))
	managed := err == nil && state.Mode().IsRegular()
	for _, d := range all {
		if d.Whole && (managed || d.Path == ".") {
			found = append(found, d.Path)
		}
	}
	return found, cure(missing(err))
}

// noEtcd returns nil while no etcd runs on a volume. Otherwise the error wraps ErrBusy and says what to stop.
func noEtcd(dir string) error {
	switch locked, err := layout.Running(dir); {
	case err != nil:
		return cure(err)
	case locked != "":
		return fmt.Errorf("%w: etcd still runs on %s: stop etcd-manager, or that etcd, on this machine", ErrBusy, locked)
	}
	return nil
}
