package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"holdfast/gossip"
	"holdfast/volume"
)

// secretKeys are the keys that name a file with a secret.
var secretKeys = []string{
	"etcd.key-file", "etcd.peer-key-file", "tls.client-ca-key-file", "tls.peer-ca-key-file", "tls.operator-file",
	"gossip.key-file", "gossip.observer-file", "snapshot.identity-file", "auth.file", "control.remote.key-file",
}

// privateDirKeys are the keys that name a directory of ours. What lies below one that is closed nobody else can reach,
// so the modes there do not matter: a backup that was copied there by hand does not keep a node from starting.
var privateDirKeys = []string{dataDirKey, "tls.dir"}

const dataDirKey = "node.data-dir"

// Who may do what to a file, as the bits of its mode.
const (
	anyoneElse  fs.FileMode = 0o077 // group and others, anything
	othersWrite fs.FileMode = 0o002
	anyoneWrite fs.FileMode = 0o022
)

// fileCheck looks at what a node is told to use, before it uses it.
type fileCheck struct {
	uid    int // of this process
	errs   []error
	looked map[string]bool // directories on the way that were judged
}

// checkOwnFiles returns everything that other users of this machine could read or change, and should not: the data, the
// files with secrets, the configuration, and the directories on the way to them. Each error names the path, its mode
// and owner, and the command that cures it. What does not exist is nobody's yet: we make it for us alone.
//
// What lies on a volume that is not mounted yet is not seen. The directories there are ours as well, and closed.
func checkOwnFiles(cfg Config, file string) error {
	c := fileCheck{uid: os.Geteuid(), looked: map[string]bool{}}
	values := map[string]string{}
	for _, k := range Keys() {
		values[k.Name] = k.Text(&cfg)
	}
	for _, key := range slices.Concat(privateDirKeys, secretKeys) {
		if values[key] != "" {
			if key != dataDirKey || !isFile(cfg.Node.DataDir) && !c.unused(cfg) {
				c.one(key, values[key], anyoneElse)
			}
			c.way(key, values[key])
		}
	}
	_, root := cfg.VolumeDirectory()
	c.apart(func(c *fileCheck) { c.volumes(root) }) // a mount of a dead device may be left
	for _, key := range []string{"snapshot.spool", "snapshot.scratch", "control.socket"} {
		if values[key] != "" {
			c.way(key, values[key])
		}
	}
	if !cfg.Snapshot.InBucket() {
		c.apart(func(c *fileCheck) { c.way("snapshot.store", values["snapshot.store"]) })
	}
	if file != "" {
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&othersWrite != 0 {
			c.fail("--config", file, info, "everyone may change it", "chmod o-w "+file)
		}
		c.way("--config", file)
	}
	return errors.Join(c.errs...)
}

// Refused returns everything for which a node of this configuration does not start, as far as it can be known before
// anything is done: what run refuses, and config check in the same words.
func Refused(l *Loaded) error {
	errs := []error{checkOwnFiles(l.Config, l.File)}
	if isFile(l.Config.Node.DataDir) {
		errs = append(errs, fmt.Errorf("%s: %s is a file: name a directory, which need not exist", dataDirKey,
			l.Config.Node.DataDir))
	}
	if dir := filepath.Dir(Abs(l.Config.Control.Socket)); !within(Abs(l.Config.Node.DataDir), dir) { // where run makes it
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			errs = append(errs, fmt.Errorf("control.socket: there is no directory %s: create it, or choose another path", dir))
		}
	}
	if path := l.Config.Gossip.KeyFile; path != "" && !l.Config.GossipTLS() {
		info, err := os.Stat(path)
		told := err == nil && info.Mode().Perm()&anyoneElse != 0
		if err := gossip.CheckKeyFile(path); err != nil && !told {
			errs = append(errs, fmt.Errorf("%w; `holdfast gossip keygen` makes a key, which all nodes need", err))
		}
	}
	for _, w := range l.elsewhere(false) {
		errs = append(errs, w)
	}
	if err := errors.Join(errs...); err != nil {
		return Invalid(Errors(err))
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// CloseDataDir takes a directory that was made for us with mkdir from everybody else.
func CloseDataDir(cfg Config) error {
	if c := (&fileCheck{uid: os.Geteuid()}); c.unused(cfg) {
		if err := os.Chmod(cfg.Node.DataDir, 0o700); err != nil {
			return fmt.Errorf("close %s: %w", dataDirKey, err)
		}
	}
	return nil
}

// unused reports whether node.data-dir is a directory of ours in which no node has written yet: nothing is in it but
// empty directories, as an operator makes them. Nobody can have read a secret there, and it may be closed.
func (c *fileCheck) unused(cfg Config) bool {
	dir := cfg.Node.DataDir
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode()&fs.ModeSticky != 0 || ownerOf(info) != c.uid {
		return false
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = fs.ErrExist
		}
		return err
	}) == nil
}

// answers is how long the directory of the backups, or those of the volumes, may take to be looked at.
const answers = 3 * time.Second

// ifAnswered returns what look finds, or else silent if that takes longer: a directory of a dead server holds anyone
// who looks at it forever, and a member needs no backups to start.
func ifAnswered(limit time.Duration, look func() []error, silent ...error) []error {
	found := make(chan []error, 1)
	go func() { found <- look() }()
	select {
	case errs := <-found:
		return errs
	case <-time.After(limit):
		return silent
	}
}

// apart looks at what may not answer.
func (c *fileCheck) apart(look func(c *fileCheck)) {
	own := &fileCheck{uid: c.uid, looked: maps.Clone(c.looked)}
	c.errs = append(c.errs, ifAnswered(answers, func() []error {
		look(own)
		return own.errs
	})...)
}

// VolumeDirectory is the directory below which the volumes lie or are mounted, or that is the volume, with its key.
func (c Config) VolumeDirectory() (key, path string) {
	switch {
	case c.Volume.Provider == volume.ProviderEBS:
		return "volume.ebs.mount-root", c.Volume.EBS.MountRoot
	case c.Volume.Local.Directory != "":
		return "volume.local.directory", c.Volume.Local.Directory
	default:
		return "volume.local.root", c.Volume.Local.Root
	}
}

// fail notes what is wrong with a path, and the command that cures it.
func (c *fileCheck) fail(key, path string, info fs.FileInfo, why, cure string) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s (mode %04o, owner uid %d): %s: run %s", key, path, modeOf(info),
		ownerOf(info), why, cure))
}

// one judges one path: only root or we may own it, and nobody has more of it than the bits that are not in closed.
func (c *fileCheck) one(key, path string, closed fs.FileMode) {
	info, err := os.Stat(path)
	if err != nil {
		return // its user says so; and who waits to unmount a dead device must be able to start
	}
	if !c.owned(info) {
		c.fail(key, path, info, "it belongs to somebody else", fmt.Sprintf("chown %d %s", c.uid, path))
	}
	if info.Mode().Perm()&closed != 0 {
		c.fail(key, path, info, "others may use it", "chmod go= "+path)
	}
}

// volumes judges the directories of the slots below root: nobody else writes there. A filesystem's own root may be open
// to be looked at, as mkfs makes it; etcd's directory in it is closed when the member starts.
func (c *fileCheck) volumes(root string) {
	c.way("volumes", root)
	slots, err := os.ReadDir(root)
	if err != nil {
		return // claiming a volume says so
	}
	c.one("volumes", root, anyoneWrite)
	for _, slot := range slots {
		if path := filepath.Join(root, slot.Name()); slot.IsDir() && slot.Name() != "lost+found" {
			c.one("volumes", path, anyoneWrite)
		}
	}
}

// way judges the directories on the way to path, by its name and by where that really is: in one that everybody may
// write to, and that has no sticky bit, anybody may put another file in the place of ours.
func (c *fileCheck) way(key, path string) {
	for _, dir := range []string{filepath.Dir(Abs(path)), filepath.Dir(really(path))} {
		for ; !c.looked[dir]; dir = filepath.Dir(dir) {
			c.looked[dir] = true
			info, err := os.Stat(dir)
			if err == nil && info.Mode().Perm()&othersWrite != 0 && info.Mode()&fs.ModeSticky == 0 {
				c.fail(key, dir, info, "everyone may replace what is in it", "chmod o-w "+dir)
			}
		}
	}
}

// really is where path is when all symbolic links are followed, or path itself while it does not exist.
func really(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return Abs(path)
}

func (c *fileCheck) owned(info fs.FileInfo) bool {
	uid := ownerOf(info)
	return uid == 0 || uid == c.uid
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// modeOf is the mode as chmod(1) writes it, sticky bit and all.
func modeOf(info fs.FileInfo) uint32 { return uint32(info.Sys().(*syscall.Stat_t).Mode) & 0o7777 }
