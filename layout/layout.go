package layout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Where etcd-manager has what on its volume (kubernetes-sigs/etcd-manager, pkg/etcd/etcdserver.go).
const (
	State = "state"         // a file: what it starts etcd by
	Data  = "data"          // a data directory for each cluster, named by its token
	Trash = "data-trashcan" // where it moves the data of a cluster that it has replaced
)

// Own is holdfast's data directory on a volume.
const Own = "etcd"

// Member is etcd's directory in a data directory (server/storage/datadir).
const Member = "member"

// Directory is a data directory on a volume, where another program looks for it.
type Directory struct {
	Path string // relative to the volume: . of plain etcd, data/TOKEN of etcd-manager
	// Whole: it has a log, and no link leads to it or to that, which might lead off the volume.
	Whole bool
}

// Directories returns those of plain etcd and etcd-manager in which there is a directory member, if only a link to one.
func Directories(volume string) (found []Directory, err error) {
	plain, err := Exists(filepath.Join(volume, Member))
	if err != nil {
		return nil, err
	}
	if plain {
		found = append(found, Directory{Path: "."})
	}
	tokens, err := managers(volume)
	for _, path := range tokens {
		switch _, err := os.Stat(filepath.Join(volume, path, Member)); {
		case err == nil:
			found = append(found, Directory{Path: path})
		case !Absent(err):
			return nil, err
		}
	}
	for i := range found {
		if err == nil {
			found[i].Whole, err = whole(volume, found[i].Path)
		}
	}
	return found, err
}

// managers are the paths of all that lies in etcd-manager's directory of data, relative to the volume.
func managers(volume string) (paths []string, err error) {
	tokens, err := os.ReadDir(filepath.Join(volume, Data))
	if err != nil && !Absent(err) {
		return nil, err
	}
	for _, t := range tokens {
		paths = append(paths, filepath.Join(Data, t.Name()))
	}
	return paths, nil
}

// whole reports whether a data directory is on this volume itself, with a log in member/wal.
func whole(volume, path string) (bool, error) {
	at := volume
	for name := range strings.SplitSeq(filepath.ToSlash(filepath.Join(path, Member, "wal")), "/") {
		at = filepath.Join(at, name)
		if info, err := os.Lstat(at); err != nil || !info.IsDir() {
			return false, ignore(err)
		}
	}
	logs, err := logsIn(at)
	return len(logs) > 0, err
}

// logsIn are the paths of the files of a log. A directory that is not there has none.
func logsIn(wal string) (logs []string, err error) {
	files, err := os.ReadDir(wal)
	for _, f := range files {
		if f.Type().IsRegular() && filepath.Ext(f.Name()) == ".wal" {
			logs = append(logs, filepath.Join(wal, f.Name()))
		}
	}
	return logs, ignore(err)
}

// Exists reports whether there is something at a path, if only a link to nowhere.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	return err == nil, ignore(err)
}

// Absent reports whether an error says that there is no such file, or that what should be a directory above it is a
// file.
func Absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

func ignore(err error) error {
	if Absent(err) {
		return nil
	}
	return err
}
