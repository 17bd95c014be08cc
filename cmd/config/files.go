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

	"golang.org/x/sys/unix"

	"holdfast/durable"
	"holdfast/gossip"
	"holdfast/volume"
)

// secretKeys are the keys that name a file with a secret.
var secretKeys = []string{
	"etcd.key-file", "etcd.peer-key-file", "tls.client-ca-key-file", "tls.peer-ca-key-file", "tls.operator-file",
	"gossip.key-file", "gossip.observer-file", "snapshot.identity-file", "auth.file", "control.remote.key-file",
}

// privateDirKeys are the keys that name a directory of this node alone. No other user can reach files below such a
// directory, so their modes do not matter. A backup that was copied there by hand does not keep a node from starting.
var privateDirKeys = []string{dataDirKey, "tls.dir"}

const dataDirKey = "node.data-dir"

// Bits of a file's mode.
const (
	anyoneElse  fs.FileMode = 0o077 // group and others, anything
	othersWrite fs.FileMode = 0o002
	anyoneWrite fs.FileMode = 0o022
)

// fileCheck checks the owners and modes of the files and directories that a node will use.
type fileCheck struct {
	uid    int // of this process
	errs   []error
	looked map[string]bool // parent directories that were checked
}

// checkOwnFiles returns an error for everything that other users of this machine could read or change, but must not:
// the data, files with secrets, the configuration, and the directories above them. Each error names the path, its mode
// and owner, and the command that fixes it. It ignores a path that does not exist, because the node makes it private.
//
// It does not see a volume that is not mounted yet. The node makes the directories there private, too.
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
	c.apart(func(c *fileCheck) { c.volumes(root) }) // there may be a mount of a dead device
	c.way("control.socket", values["control.socket"])
	backups := []string{"snapshot.spool", "snapshot.scratch"}
	if !cfg.Snapshot.InBucket() {
		backups = append(backups, "snapshot.store")
	}
	for _, key := range backups {
		if values[key] != "" {
			c.apart(func(c *fileCheck) { c.way(key, values[key]) })
		}
	}
	if file != "" {
		if info, err := os.Stat(file); err == nil && info.Mode().Perm()&othersWrite != 0 {
			c.fail("--config", file, info, "everyone may change it", "chmod o-w "+file)
		}
		c.way("--config", file)
	}
	return errors.Join(c.errs...)
}

// Refused returns all errors for which a node does not start, as far as they can be found beforehand. `holdfast run`
// and `holdfast config check` report the same errors.
func Refused(l *Loaded) error {
	errs := []error{checkOwnFiles(l.Config, l.File), PlaceOfSocket(l.Config.Control.Socket)}
	if err := makable(l.Config.Node.DataDir); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", dataDirKey, err))
	}
	// The node itself makes a directory below node.data-dir.
	if dir := filepath.Dir(Abs(l.Config.Control.Socket)); !within(Abs(l.Config.Node.DataDir), dir) {
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
	for _, w := range slices.Concat(l.elsewhere(false), l.partial()) {
		errs = append(errs, w)
	}
	if err := errors.Join(errs...); err != nil {
		return Invalid(Errors(err))
	}
	return nil
}

// makable returns an error unless dir is a directory that this user can write to, or can make.
func makable(dir string) error {
	at := Abs(dir)
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if _, link := os.Lstat(at); link == nil {
			return fmt.Errorf("%s is a link to a directory that is not there: create it or mount it", at)
		}
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%s is a file: name a directory, which need not exist", at)
	}
	if err == nil {
		err = unix.Access(at, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return fmt.Errorf("this user cannot write to %s: %w", at, err)
	}
	return nil
}

// PlaceOfSocket returns an error if something other than a socket is where the control socket is to be.
func PlaceOfSocket(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("control.socket: %s exists but is not a socket; choose another path", path)
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir()
}

// CloseDataDir makes node.data-dir private, if it is a directory that an operator has just made with mkdir.
func CloseDataDir(cfg Config) error {
	if c := (&fileCheck{uid: os.Geteuid()}); c.unused(cfg) {
		if err := os.Chmod(cfg.Node.DataDir, 0o700); err != nil {
			return fmt.Errorf("close %s: %w", dataDirKey, err)
		}
	}
	return nil
}

// unused reports whether node.data-dir belongs to this user and contains only empty directories, as an operator makes
// them. No node has written a secret there yet, so it can safely be made private.
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

// answers limits how long a look at the directories of backups or volumes may take. Access to a directory of a dead
// server may hang forever, and a member can start without it.
const answers = 3 * time.Second

// apart runs a check of paths that may hang. It finds nothing if that takes longer than answers.
func (c *fileCheck) apart(look func(c *fileCheck)) {
	own := &fileCheck{uid: c.uid, looked: maps.Clone(c.looked)}
	_, ok := durable.Soon(answers, func() bool { look(own); return true })
	if ok {
		c.errs, c.looked = append(c.errs, own.errs...), own.looked
	}
}

// VolumeDirectory returns the directory that contains the volumes or their mounts, or that is the volume, with its key.
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

// fail adds an error about a path, with the command that fixes it.
func (c *fileCheck) fail(key, path string, info fs.FileInfo, why, cure string) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s (mode %04o, owner uid %d): %s: run %s", key, path, modeOf(info),
		ownerOf(info), why, cure))
}

// one checks one path: its owner must be root or this user, and its mode must have none of the bits in closed.
func (c *fileCheck) one(key, path string, closed fs.FileMode) {
	info, err := os.Stat(path)
	if err != nil {
		return // reported when it is used; a node must be able to start and unmount a dead device
	}
	if uid := ownerOf(info); uid != 0 && uid != c.uid {
		cure := fmt.Sprintf("chown %d %s", c.uid, path)
		if c.uid == 0 { // an operator who checks the configuration of a node that runs as its own user
			cure = fmt.Sprintf("holdfast as uid %d, or %s", uid, cure)
		}
		c.fail(key, path, info, "it belongs to somebody else", cure)
	}
	if info.Mode().Perm()&closed != 0 {
		c.fail(key, path, info, "others may use it", "chmod go= "+path)
	}
}

// volumes checks that no other user may write to root and the slots' directories below it. Others may read the root of
// a filesystem, as mkfs makes it; etcd's directory in it is made private when the member starts.
func (c *fileCheck) volumes(root string) {
	c.way("volumes", root)
	slots, err := os.ReadDir(root)
	if err != nil {
		return // reported when a volume is claimed
	}
	c.one("volumes", root, anyoneWrite)
	for _, slot := range slots {
		if path := filepath.Join(root, slot.Name()); slot.IsDir() && slot.Name() != "lost+found" {
			c.one("volumes", path, anyoneWrite)
		}
	}
}

// way checks the directories above path, by its name and by its real location. In a directory that everyone may write
// to, and without the sticky bit, anyone could replace the file.
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

// really returns path with all symbolic links resolved, or path itself if it does not exist.
func really(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return Abs(path)
}

func ownerOf(info fs.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

// modeOf returns the mode as chmod(1) writes it, with the sticky bit.
func modeOf(info fs.FileInfo) uint32 { return uint32(info.Sys().(*syscall.Stat_t).Mode) & 0o7777 }
