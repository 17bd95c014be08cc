package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"holdfast/durable"
	"holdfast/embedded/plan"
	"holdfast/layout"
)

// swap is a directory with another program's data, and its place in holdfast's layout.
type swap struct {
	left string // the data directory as the other program knows it
	link string // what moves: the data directory of etcd-manager, or the directory member of plain etcd
	home string // where it moves to
	text string // of the symbolic link that is at link afterwards
}

// swapOf returns the swap for a program's data at a path on a volume. It returns an error if holdfast knows no such
// data.
func swapOf(volume string, program plan.Program, path string) (swap, error) {
	token, inData := strings.CutPrefix(path, managerData+"/")
	switch {
	case program == plan.EtcdManager && inData && tokenName(token):
		dir := filepath.Join(volume, managerData, token)
		return swap{left: dir, link: dir, home: filepath.Join(volume, etcdDir), text: managerLink}, nil
	case program == plan.PlainEtcd && path == ".":
		text := filepath.Join(etcdDir, memberDir)
		return swap{left: volume, link: filepath.Join(volume, memberDir), home: filepath.Join(volume, text), text: text}, nil
	}
	return swap{}, fmt.Errorf("no data of program %q is known at %q", program, path)
}

// taken reports whether link and home were exchanged.
func (p swap) taken() (bool, error) { return linkTo(p.link, p.text) }

// linkTo reports whether path is a symbolic link with this text.
func linkTo(path, text string) (bool, error) {
	info, err := os.Lstat(path)
	if layout.Absent(err) || err == nil && info.Mode()&os.ModeSymlink == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	got, err := os.Readlink(path)
	return got == text, err
}

// free reports whether nothing would be lost at home: it is absent, prepared, or an empty directory.
func (p swap) free() (bool, error) {
	if prepared, err := linkTo(p.home, p.text); err != nil || prepared {
		return prepared, err
	}
	entries, err := os.ReadDir(p.home)
	if layout.Absent(err) {
		there, err := layout.Exists(p.home) // a link to nowhere
		return !there, err
	}
	return len(entries) == 0, err
}

// TakeUp makes another program's data holdfast's. The directory becomes the volume's `etcd`, and a relative link to it
// takes its place. So the other program finds its data at the usual path at every moment, even after a crash. For plain
// etcd, the directory is `member`. When TakeUp returns nil, that is durable. It may be repeated, also after a crash. o
// is what Origin returned; data of another member is refused. The error is errLocked while an etcd uses the data.
func (d Disk) TakeUp(volume string, o plan.Origin) error {
	if err := d.takeUp(volume, o, func(string) {}); err != nil {
		return fmt.Errorf("take up the data of %s on %s: %w", o.Program, volume, err)
	}
	return nil
}

// takeUp calls step after each step that a crash can separate from the next.
func (d Disk) takeUp(volume string, o plan.Origin, step func(done string)) error {
	if o.Obstacle != "" {
		return errors.New(o.Obstacle)
	}
	p, err := swapOf(volume, o.Program, o.Path)
	if err != nil {
		return err
	}
	by, err := d.InUse(volume)
	if err == nil && by != "" {
		err = fmt.Errorf("%w: etcd works on %s", errLocked, by)
	}
	if err != nil {
		return err
	}
	taken, err := p.taken()
	if err != nil {
		return err
	}
	if err := d.sameMember(volume, p, taken, o); err != nil {
		return err
	}
	// Write the mark first. After an exchange without it, the link would show what happened, but not what was intended.
	if err := (originMark{Version: 1, Program: o.Program, Path: o.Path, Token: o.Token}).write(volume); err != nil {
		return err
	}
	step("noted")
	if !taken {
		if err := p.prepare(); err != nil {
			return err
		}
		step("prepared")
		if err := exchange(p.home, p.link); err != nil {
			return err
		}
		step("exchanged")
	}
	// home may be in a directory that was just created.
	return errors.Join(durable.SyncDir(filepath.Dir(p.home)), durable.SyncDir(filepath.Dir(p.link)),
		durable.SyncDir(volume))
}

// sameMember returns an error unless the data is that of the member in o.
func (d Disk) sameMember(volume string, p swap, taken bool, o plan.Origin) error {
	dir := p.left
	if taken {
		dir = filepath.Join(volume, etcdDir)
	}
	found, err := d.Inspect(dir)
	if err == nil && (!found.WAL || found.Member != o.Member || found.ClusterID != o.Cluster) {
		err = fmt.Errorf("%s has the log of member %x of cluster %x, not of %x of %x", dir, found.Member,
			found.ClusterID, o.Member, o.Cluster)
	}
	return err
}

// prepare puts the link at home. It leads nowhere there, and becomes valid by the exchange.
func (p swap) prepare() error {
	free, err := p.free()
	if err == nil && !free {
		err = fmt.Errorf("%s holds data", p.home)
	}
	if err != nil {
		return err
	}
	above := filepath.Dir(p.home)
	if err := os.Mkdir(above, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if filepath.Dir(above) == p.left {
		if err := sameOwner(above, p.left); err != nil {
			return err
		}
	}
	if prepared, err := linkTo(p.home, p.text); err != nil || prepared {
		return err
	}
	if err := os.Remove(p.home); err != nil && !layout.Absent(err) { // an empty directory
		return err
	}
	if err := os.Symlink(p.text, p.home); err != nil {
		return err
	}
	return durable.SyncDir(above)
}

// sameOwner gives dir the owner of as. Plain etcd may run as a user of its own, and its path leads through dir.
func sameOwner(dir, as string) error {
	want, err1 := os.Stat(as)
	got, err2 := os.Stat(dir)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	w, ok1 := want.Sys().(*syscall.Stat_t)
	g, ok2 := got.Sys().(*syscall.Stat_t)
	if !ok1 || !ok2 || w.Uid == g.Uid && w.Gid == g.Gid {
		return nil
	}
	return os.Chown(dir, int(w.Uid), int(w.Gid))
}

// HandBack lets etcd-manager start etcd on a volume. It writes s as etcd-manager's file state and makes data/TOKEN lead
// to the data, even if that slot's data never was etcd-manager's. The data stays where it is, so that holdfast can
// start on it again. The link is made before the state that names it. HandBack may be repeated.
func (Disk) HandBack(volume string, s *ManagerState) (err error) {
	defer during(&err, "hand %s back to etcd-manager", volume)
	if err := s.check(); err != nil {
		return err
	}
	if err := linkBack(volume, s.Token); err != nil {
		return err
	}
	return s.Write(volume)
}

// linkBack makes data/TOKEN lead to the data.
func linkBack(volume, token string) error {
	p, err := swapOf(volume, plan.EtcdManager, filepath.Join(managerData, token))
	if err != nil {
		return err
	}
	taken, err := p.taken()
	if err != nil {
		return err
	}
	there, err := layout.Exists(p.link)
	if err != nil {
		return err
	}
	free, err := p.free()
	switch {
	case err != nil:
		return err
	case free && (taken || !there):
		return fmt.Errorf("there is no data in %s", p.home)
	case free: // holdfast never took the data up
		return nil
	case !taken && there:
		return fmt.Errorf("%s is there beside %s, and both may hold data: move away the one that is not in use", p.link,
			p.home)
	}
	above := filepath.Dir(p.link)
	if err := os.Mkdir(above, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if !taken {
		if err := os.Symlink(p.text, p.link); err != nil {
			return err
		}
	}
	return errors.Join(durable.SyncDir(above), durable.SyncDir(volume))
}

// Superseded says why the data that holdfast took up on a volume is obsolete: it was given back, and the other program
// has made another cluster since, for example by a restore. Two members started on the old data would serve a cluster
// to which nobody writes any more. It returns "" if nothing shows that, as when somebody has deleted what the other
// program left. It reads a few small files and changes nothing. It returns an error if they cannot be read.
func (Disk) Superseded(volume string) (why string, err error) {
	mark, err := readOriginMark(volume)
	switch {
	case errors.Is(err, errOriginMark):
		err = nil // perhaps by a later version: it does not show that another cluster was made
	case err == nil && mark != nil && mark.Program == plan.PlainEtcd:
		why, err = plainAgain(volume, mark.Path)
	}
	if err == nil && why == "" {
		why, err = managerAgain(volume)
	}
	if err != nil {
		return "", fmt.Errorf("check whether another program has made another cluster on %s: %w", volume, err)
	}
	return why, nil
}

// plainAgain reports that plain etcd's data directory is a directory again, not the link to our data.
func plainAgain(volume, path string) (why string, err error) {
	p, err := swapOf(volume, plan.PlainEtcd, path)
	if err != nil {
		return "", err
	}
	taken, err := p.taken()
	if err != nil || taken {
		return "", err
	}
	there, err := layout.Exists(p.link)
	if err != nil || !there {
		return "", err
	}
	return fmt.Sprintf("plain etcd has data of its own in %s, created since holdfast took its data up", p.link), nil
}

// managerAgain reports that etcd-manager's file state names other data than ours, or that the link to ours is in its
// trash.
func managerAgain(volume string) (why string, err error) {
	state, err := ReadManagerState(volume)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it was deleted, or etcd-manager is about to write another one
		return trashed(volume)
	case errors.Is(err, errManagerState):
		return "", nil
	case err != nil:
		return "", err
	case !tokenName(state.Token):
		return trashed(volume)
	}
	link := filepath.Join(volume, managerData, state.Token)
	if ours, err := linkTo(link, managerLink); err != nil || ours {
		return "", err
	}
	there, err := layout.Exists(link)
	if err != nil || !there {
		return "", err
	}
	return fmt.Sprintf("etcd-manager has made the cluster %s since, in %s", state.Token, link), nil
}

// trashed reports that no link leads to our data where etcd-manager looks for it, and that one is in its trash.
func trashed(volume string) (why string, err error) {
	for _, dir := range []string{managerData, layout.Trash} {
		entries, err := os.ReadDir(filepath.Join(volume, dir))
		if err != nil && !layout.Absent(err) {
			return "", err
		}
		for _, e := range entries {
			path := filepath.Join(volume, dir, e.Name())
			ours, err := linkTo(path, managerLink)
			switch {
			case err != nil:
				return "", err
			case ours && dir == layout.Trash:
				return "etcd-manager has given up the data that holdfast took up: " + path + " leads to it", nil
			case ours:
				return "", nil
			}
		}
	}
	return "", nil
}
