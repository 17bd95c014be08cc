package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"holdfast/durable"
	"holdfast/embedded/plan"
	"holdfast/layout"
)

const (
	etcdDir   = layout.Own
	memberDir = layout.Member
	// originFile, on a volume, records what TakeUp has taken up there, or is about to take up.
	originFile = "origin.json"
	// managerLink is the text of the link at data/TOKEN once the directory is holdfast's.
	managerLink = "../" + etcdDir
)

// foreign is data that another program left on a volume, with what is known of its origin outside the data.
type foreign struct {
	plan.Origin
	dir string // where the data directory is now
}

// ForeignData returns the data directory that etcd-manager or plain etcd has on a volume, whether holdfast has taken it
// up or not; "" if there is none. obstacle says why the directory cannot be determined or used, and what to do.
func ForeignData(volume string) (dir, obstacle string, err error) {
	f, err := findForeign(volume)
	if err != nil || f == nil {
		return "", "", err
	}
	return f.dir, f.Obstacle, nil
}

// findForeign looks for another program's data on a volume. It returns nil if there is none.
func findForeign(volume string) (f *foreign, err error) {
	defer during(&err, "look for another program's data on %s", volume)
	mark, err := readOriginMark(volume)
	if errors.Is(err, errOriginMark) {
		return &foreign{Origin: plan.Origin{Obstacle: err.Error()}}, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := layout.Directories(volume)
	if err != nil {
		return nil, err
	}
	tokens := slices.DeleteFunc(slices.Clone(all), func(d layout.Directory) bool { return d.Path == "." })
	plain := len(tokens) < len(all)
	switch {
	case mark != nil:
		f := &foreign{Origin: plan.Origin{Program: mark.Program, Path: mark.Path, Token: mark.Token}}
		if f.Program == plan.EtcdManager {
			f.Obstacle, err = f.stateDiffers(volume)
		}
		if err != nil || f.Obstacle != "" {
			return f, err
		}
		return f.locate(volume)
	case len(tokens) > 0 && plain:
		obstacle := fmt.Sprintf("%s holds the data of two programs, plain etcd's in %s and etcd-manager's in %s: move away "+
			"the one that is not in use", volume, memberDir, managerData)
		return &foreign{Origin: plan.Origin{Obstacle: obstacle}}, nil
	case len(tokens) > 0:
		f := &foreign{Origin: plan.Origin{Program: plan.EtcdManager}}
		if f.Obstacle, err = f.readState(volume, tokens); err != nil || f.Obstacle != "" {
			return f, err
		}
		return f.locate(volume)
	case plain:
		return (&foreign{Origin: plan.Origin{Program: plan.PlainEtcd, Path: "."}}).locate(volume)
	}
	return nil, nil
}

// anotherCluster ends each obstacle that says why the use of etcd-manager's data cannot be determined.
const anotherCluster = "start etcd-manager again and let it finish; `holdfast volume set-aside` gives the data up"

// readState takes the token from etcd-manager's file state. Only that file says which of several directories is in use.
func (f *foreign) readState(volume string, tokens []layout.Directory) (obstacle string, err error) {
	s, obstacle, err := tokenState(volume)
	if err != nil || obstacle != "" {
		return obstacle, err
	}
	path := filepath.Join(managerData, s.Token)
	if slices.ContainsFunc(tokens, func(d layout.Directory) bool { return d.Path == path }) {
		f.Token, f.Path = s.Token, path
		return "", nil
	}
	return fmt.Sprintf("etcd-manager's file %s names the cluster %s, and %s has no data of it: %s",
		filepath.Join(volume, managerStateFile), s.Token, filepath.Join(volume, managerData), anotherCluster), nil
}

// stateDiffers returns an obstacle if etcd-manager's file state names other data than was taken up.
func (f *foreign) stateDiffers(volume string) (obstacle string, err error) {
	s, obstacle, err := tokenState(volume)
	if err == nil && obstacle == "" && s.Token != f.Token {
		obstacle = fmt.Sprintf("etcd-manager's file %s names the cluster %s, and holdfast took up %s: etcd-manager has made "+
			"another cluster since; to take that one up, move %s and %s away, and founding.json if it is there",
			filepath.Join(volume, managerStateFile), s.Token, f.Token, filepath.Join(volume, etcdDir),
			filepath.Join(volume, originFile))
	}
	return obstacle, err
}

// tokenState reads etcd-manager's file state. It returns an obstacle unless the file names a cluster that is in use.
func tokenState(volume string) (s *ManagerState, obstacle string, err error) {
	path := filepath.Join(volume, managerStateFile)
	s, err = ReadManagerState(volume)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Sprintf("etcd-manager's file %s is missing, which names the cluster: %s", path, anotherCluster), nil
	case errors.Is(err, errManagerState):
		return nil, err.Error() + ": " + anotherCluster, nil
	case err != nil:
		return nil, "", err
	case !tokenName(s.Token):
		return nil, fmt.Sprintf("etcd-manager's file %s names no cluster, but %q: %s", path, s.Token, anotherCluster), nil
	case s.Quarantined:
		return nil, fmt.Sprintf("etcd-manager's file %s has the member in quarantine, as in a restore: "+
			"start etcd-manager again and let it finish", path), nil
	}
	return s, "", nil
}

// locate finds the data directory: where the other program left it, or where TakeUp has put it. It returns nil if
// everything there was set aside since.
func (f *foreign) locate(volume string) (*foreign, error) {
	p, err := swapOf(volume, f.Program, f.Path)
	if err != nil {
		f.Obstacle = fmt.Sprintf("%s: %v", filepath.Join(volume, originFile), err)
		return f, nil
	}
	taken, err := p.taken()
	if err != nil {
		return nil, err
	}
	f.dir = p.left
	if taken {
		f.dir = filepath.Join(volume, etcdDir)
		if there, err := layout.Exists(filepath.Join(f.dir, memberDir)); err != nil || !there {
			return nil, err
		}
		f.Obstacle, err = incomplete(f.dir)
		return f, err
	}
	switch info, err := os.Lstat(p.link); {
	case layout.Absent(err):
		f.Obstacle = fmt.Sprintf("%s, which holdfast was about to take up, is gone: put it back, or give the data up "+
			"with `holdfast volume set-aside`", p.link)
		return f, nil
	case err != nil:
		return nil, err
	case !info.IsDir():
		f.Obstacle = p.link + elsewhere
		return f, nil
	}
	free, err := p.free()
	if err == nil && !free {
		f.Obstacle = fmt.Sprintf("%s is there beside %s, and both may hold data: move away the one that is not in use",
			p.home, p.link)
	}
	if err == nil && f.Obstacle == "" {
		f.Obstacle, err = incomplete(f.dir)
	}
	return f, err
}

// elsewhere ends the obstacle about a symbolic link, which may lead to another disk.
const elsewhere = " is not a directory: the data must be on this volume, which is the member's identity"

// incomplete returns an obstacle unless all of etcd's data is inside the data directory.
func incomplete(dir string) (obstacle string, err error) {
	for _, name := range []string{memberDir, filepath.Join(memberDir, "wal"), filepath.Join(memberDir, "snap")} {
		path := filepath.Join(dir, name)
		switch info, err := os.Lstat(path); {
		case layout.Absent(err):
			return path + " is missing: the data directory must hold all of etcd's data, its log as well (--wal-dir)", nil
		case err != nil:
			return "", err
		case !info.IsDir():
			return path + elsewhere, nil
		}
	}
	return "", nil
}

// originMark is the content of originFile.
type originMark struct {
	Version int          `json:"version"`
	Program plan.Program `json:"program"`
	Path    string       `json:"path"`
	Token   string       `json:"token,omitempty"`
}

// errOriginMark: originFile has content that TakeUp does not write.
var errOriginMark = errors.New("cannot tell which data was taken up")

// readOriginMark returns what TakeUp has taken up on a volume, or was about to take up; nil if nothing.
func readOriginMark(volume string) (*originMark, error) {
	path := filepath.Join(volume, originFile)
	data, err := os.ReadFile(path)
	if layout.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := &originMark{}
	switch err := json.Unmarshal(data, m); {
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w; remove the file: what it says shows in the links as well", errOriginMark,
			path, err)
	case m.Version != 1:
		return nil, fmt.Errorf("%w: %s has version %d, and this holdfast knows 1: use a newer one", errOriginMark, path,
			m.Version)
	}
	return m, nil
}

// write records on a volume what is about to be taken up. It never overwrites a record of other data.
func (m originMark) write(volume string) error {
	old, err := readOriginMark(volume)
	if err != nil {
		return err
	}
	if old != nil && *old != m {
		return fmt.Errorf("%s names %s of %s, not %s of %s", filepath.Join(volume, originFile), old.Path, old.Program,
			m.Path, m.Program)
	}
	if old != nil {
		return nil
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(volume, originFile)
	return durable.File{Temp: path + ".tmp"}.Write(path, append(data, '\n'))
}
