package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"holdfast/durable"
)

// IdentityName is the file on the volume with its Identity.
const IdentityName = "identity.json"

// found is what inspect finds in the directory of a volume.
type found struct {
	dir      *lock    // nil if there is no directory
	identity Identity // zero if there is none, or it cannot be read
	blank    bool     // it may be formatted
	foreign  []string // without an identity: the etcd data to adopt
	mismatch string   // why it is not the expected volume
}

// take locks the volume, checks that it is unchanged since the sighting, and makes it this node's. The error is ErrBusy
// if another process was faster.
func (l *Local) take(ctx context.Context, root string, s sighting, want Want) (_ *localClaim, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := newLocalClaim(l, root, Identity{Cluster: want.Cluster, Slot: s.slot, Volume: localVolume(s.slot)})
	c.adopt = want.Adopt
	defer func() {
		if err != nil {
			c.dir.release()
			c.file.release()
		}
	}()
	if c.file, err = lockPath(c.at.lock, os.O_RDWR|os.O_CREATE); err != nil {
		return nil, cure(err)
	}
	l.step("locked " + s.slot)
	tag, torn, err := readTag(c.at.tag)
	if err != nil {
		return nil, err
	}
	if !sameTag(tag, s.tag) {
		return nil, fmt.Errorf("%w: its claim has just changed", ErrBusy)
	}
	if torn != nil {
		l.log.Warn("replaced a torn claim", zap.String("slot", s.slot), zap.Error(torn))
	}
	if err := c.begin(tag); err != nil {
		return nil, err
	}
	l.log.Info("claimed a volume",
		zap.String("slot", s.slot), zap.String("path", c.Path()), zap.Uint64("epoch", c.tag.Epoch),
		zap.String("disk", c.Volume().Disk), zap.String("mismatch", c.Mismatch()))
	return c, nil
}

// begin makes the locked volume ours in three steps: the tag as claiming, the identity, the tag as held. If a step
// fails, the old tag is restored, so that a volume that this node could not use does not name it.
func (c *localClaim) begin(before *claimTag) (err error) {
	if before == nil {
		before = new(claimTag)
	}
	f, err := c.inspect(before.Disk)
	c.dir = f.dir
	if err != nil {
		return err
	}
	if err := c.heedLost(&f); err != nil {
		return err
	}
	c.tag = claimTag{
		Epoch: max(before.Epoch, f.identity.Epoch) + 1,
		Owner: c.local.node,
		Nonce: uuid.NewString(),
		Disk:  before.Disk,
	}
	if c.tag.Epoch > MaxEpoch {
		return fmt.Errorf("slot %s has used up its epochs: remove %s", c.Want.Slot, c.at.tag)
	}
	if f.blank {
		// The tag, or the root itself, shows that the disk in this slot's marker is no longer in use.
		if err := c.local.forget(c.Want.Slot); err != nil {
			return err
		}
		// If the process is killed before the identity is written, the empty directory must not look like the disk that
		// was here before.
		c.tag.Disk = ""
	}
	if f.foreign != nil {
		c.local.log.Warn("adopting the data of another program's etcd", zap.String("slot", c.Want.Slot),
			zap.String("path", c.Path()), zap.Strings("data", f.foreign))
	}
	if err := c.writeTag(PhaseClaiming); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.putBack(before)
		}
	}()
	if c.dir == nil {
		if err := c.makeDir(); err != nil {
			return err
		}
	}
	id := c.Want
	switch {
	case f.blank, f.foreign != nil:
		id = c.Want.Fresh()
	case f.mismatch == "":
		id = f.identity
	}
	id.Epoch = c.tag.Epoch
	c.Known(id, f.mismatch)
	if f.mismatch == "" {
		if err := id.Write(c.Path(), c.local.step); err != nil {
			return err
		}
		c.tag.Disk = id.Disk
	}
	return c.writeTag(PhaseHeld)
}

// heedLost makes a volume a mismatch if the disk that this node held last is missing: neither a blank disk nor another
// program's data may take that disk's place without an operator.
func (c *localClaim) heedLost(f *found) error {
	lost, err := c.local.gone(c.root)
	if err != nil || lost == nil || !lost.blank && lost.Slot != c.Want.Slot {
		return err
	}
	stranger, err := bare(c.Path())
	if err != nil {
		return err
	}
	if stranger = stranger || f.foreign != nil; stranger {
		f.blank, f.foreign, f.mismatch = false, nil, lost.String()
	}
	if stranger || f.mismatch == "" {
		c.gone = lost
	}
	return nil
}

// inspect locks the directory, if there is one, and examines its content. disk is the UUID of the disk that was
// formatted there, as the tag has it. Nothing is written.
func (c *localClaim) inspect(disk string) (f found, err error) {
	f.dir, err = lockPath(c.Path(), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		f.blank = true
		return f, nil
	}
	if err != nil {
		return f, cure(err)
	}
	c.local.step("locked the directory")
	in, err := Inspect(c.Path())
	if err == nil && c.adopt {
		err = noEtcd(c.Path())
	}
	switch {
	case err != nil:
		return f, cure(err)
	case in.Damaged != "":
		f.mismatch = in.Damaged
	case in.Foreign != nil && c.adopt && disk != "":
		f.mismatch = fmt.Sprintf("%s holds etcd's data and no %s, but disk %s was formatted there: is another one mounted?",
			c.Path(), IdentityName, disk)
	case in.Foreign != nil && c.adopt:
		f.foreign = in.Foreign
	case in.Foreign != nil:
		f.mismatch = fmt.Sprintf("%s holds data but no %s: it is that of another program's etcd; `cluster.adopt: true` "+
			"takes the cluster over in place (docs/migrate.md)", c.Path(), IdentityName)
	case in.Identity == nil && in.Entries > 0:
		f.mismatch = fmt.Sprintf("%s holds data but no %s", c.Path(), IdentityName)
	case in.Identity == nil && disk != "":
		f.mismatch = fmt.Sprintf("%s is empty, but disk %s was formatted there: is it not mounted?", c.Path(), disk)
	case in.Identity == nil:
		f.blank = true
	default:
		f.identity = *in.Identity
		should := c.Want
		should.Disk = disk
		if why := should.Mismatch(f.identity); why != "" {
			f.mismatch = fmt.Sprintf("%s is another volume: %s", c.Path(), why)
		}
	}
	return f, nil
}

// makeDir creates and locks the directory of a new volume.
func (c *localClaim) makeDir() (err error) {
	if err := os.Mkdir(c.Path(), 0o700); err != nil {
		return cure(err)
	}
	c.local.step("created the directory")
	if err := durable.SyncDir(c.root); err != nil {
		return cure(err)
	}
	c.dir, err = lockPath(c.Path(), os.O_RDONLY)
	return cure(err)
}

// putBack restores the tag after a failed claim, if it can. The lock is still ours.
func (c *localClaim) putBack(before *claimTag) {
	path := c.at.tag
	var err error
	if before.Nonce == "" {
		err = os.Remove(path)
	} else {
		err = ReplaceFile(path, before.String(), c.local.step)
	}
	if err != nil {
		c.local.log.Warn("could not undo a failed claim", zap.String("slot", c.Want.Slot), zap.Error(err))
	}
}

// writeTag puts the claim into a phase, on disk and in memory.
func (c *localClaim) writeTag(phase Phase) error {
	c.mu.Lock()
	c.tag.Phase, c.tag.Since = phase, time.Now().Unix()
	tag := c.tag
	c.mu.Unlock()
	return ReplaceFile(c.at.tag, tag.String(), c.local.step)
}

func sameTag(a, b *claimTag) bool {
	return a == b || a != nil && b != nil && *a == *b
}
