package layout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// The layout of etcd-manager's volume (kubernetes-sigs/etcd-manager, pkg/etcd/etcdserver.go).
const (
	State = "state"         // a file with the state from which it starts etcd
	Data  = "data"          // has a data directory for each cluster, named by the cluster's token
	Trash = "data-trashcan" // gets the data of a cluster that was replaced
)

// Own is holdfast's data directory on a volume.
const Own = "etcd"

// Member is etcd's own directory in a data directory (server/storage/datadir).
const Member = "member"

// Directory is a data directory of plain etcd or etcd-manager on a volume.
type Directory struct {
	Path string // relative to the volume: "." for plain etcd, data/TOKEN for etcd-manager
	// Whole means that it has a log, and that there is no link on the path to the log, which could lead off the volume.
	Whole bool
}

// Directories returns the data directories of plain etcd and etcd-manager: those with an entry Member, even a link.
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

// managers returns the paths of all entries in etcd-manager's Data, relative to the volume.
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

// logsIn returns the paths of a log's files. A directory that does not exist has none.
func logsIn(wal string) (logs []string, err error) {
	files, err := os.ReadDir(wal)
	for _, f := range files {
		if f.Type().IsRegular() && filepath.Ext(f.Name()) == ".wal" {
			logs = append(logs, filepath.Join(wal, f.Name()))
		}
	}
	return logs, ignore(err)
}

// Exists reports whether there is something at a path, even a dangling link.
func Exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	return err == nil, ignore(err)
}

// Absent reports whether an error says that a file does not exist, or that a directory on its path is a file.
func Absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

func ignore(err error) error {
	if Absent(err) {
		return nil
	}
	return err
}
