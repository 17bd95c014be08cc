package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"holdfast/durable"
	"holdfast/embedded/plan"
	"holdfast/layout"
)

// swap is a directory of another program's data, and where holdfast has it.
type swap struct {
	left string // the data directory, where the other program has it
	link string // what changes places: the data directory of etcd-manager, the directory member of plain etcd
	home string // with what
	text string // of the link that stands at link afterwards
}

// swapOf returns where data of a program on a volume goes. An error says that no such data is known.
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

// taken reports whether the two have changed places.
func (p swap) taken() (bool, error) { return linkTo(p.link, p.text) }

// linkTo reports whether path is a link with this text.
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

// free reports whether home is nothing that could be missed: absent, prepared, or an empty directory.
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

// TakeUp makes another program's data holdfast's: the directory becomes the volume's `etcd`, and a relative link to it
// takes its place, so that the other program finds its data where it looks for it, at every moment, also after a crash.
// For plain etcd it is the directory `member`. When it returns nil that is durable; again is fine, and so is going on
// after a crash. o is what Origin has said; data of another member is refused. errLocked while an etcd works on it.
func (d Disk) TakeUp(volume string, o plan.Origin) error {
	if err := d.takeUp(volume, o, func(string) {}); err != nil {
		return fmt.Errorf("take up the data of %s on %s: %w", o.Program, volume, err)
	}
	return nil
}

// takeUp calls step between the steps that a crash can separate.
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
	if err := d.same(volume, p, taken, o); err != nil {
		return err
	}
	// First of all: an exchange without it would still be seen from the link, but not what was meant.
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
	// home may be in a directory that is new itself.
	return errors.Join(durable.SyncDir(filepath.Dir(p.home)), durable.SyncDir(filepath.Dir(p.link)),
		durable.SyncDir(volume))
}

// same returns an error unless the data is that of the member that o was read of.
func (d Disk) same(volume string, p swap, taken bool, o plan.Origin) error {
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

// prepare puts the link to where the directory will be. It leads to nothing there, and becomes right by the exchange.
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

// sameOwner gives dir the owner of another: plain etcd may run as a user of its own, and its way leads through dir.
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
