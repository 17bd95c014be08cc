package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"go.uber.org/zap"
)

// Adopt implements Adopter. Killed half-way it leaves a volume that still has a Mismatch, and can be
// repeated; what was on the volume then lies in more than one directory below aside/.
func (c *localClaim) Adopt(ctx context.Context) error {
	c.op.Lock()
	defer c.op.Unlock()
	why := c.Mismatch()
	err := c.writable(ctx)
	if err == nil {
		err = c.adopt()
	}
	if err != nil {
		return fmt.Errorf("adopt the volume of slot %s: %w", c.want.Slot, err)
	}
	c.local.log.Warn("adopted a foreign volume", zap.String("slot", c.want.Slot),
		zap.String("disk", c.Volume().Disk), zap.String("mismatch", why))
	return nil
}

func (c *localClaim) adopt() error {
	// Meanwhile there is no identity on the volume, which is no evidence of its loss.
	c.mu.Lock()
	if c.mismatch == "" {
		c.mismatch = "what is on it was to be set aside, and that has not ended"
	}
	c.mu.Unlock()
	if err := c.setAside(); err != nil {
		return err
	}
	// The operator has said that what was here before is given up, this disk or one that is missing.
	if err := c.forget(); err != nil {
		return err
	}
	id := c.want.Fresh()
	c.mu.Lock()
	id.Epoch = c.tag.Epoch
	c.tag.Disk = id.Disk
	c.mu.Unlock()
	// The tag first: killed in between, it names a disk that is not there, which is a Mismatch.
	if err := c.writeTag(PhaseHeld); err != nil {
		return err
	}
	if err := c.writeIdentity(id); err != nil {
		return err
	}
	c.mu.Lock()
	c.identity, c.mismatch, c.gone = id, "", nil
	c.mu.Unlock()
	return nil
}

// forget removes the marker of this volume, and of the one that is missing.
func (c *localClaim) forget() error {
	slot := c.want.Slot
	c.mu.Lock()
	if c.gone != nil {
		slot = c.gone.Slot
	}
	c.mu.Unlock()
	return c.local.forget(c.root, slot)
}

// setAside moves everything on the volume into a new directory below aside/.
func (c *localClaim) setAside() error { return SetAside(c.Path(), c.local.step) }

// Yield implements Yielder. Killed half-way it leaves a released volume that is blank or holds
// nothing but its identity; whoever claims that one can yield again.
func (c *localClaim) Yield(ctx context.Context) error {
	c.op.Lock()
	defer c.op.Unlock()
	err := c.writable(ctx)
	if err == nil {
		err = c.blank()
	}
	if err == nil {
		err = c.wipe()
		c.unlock()
	}
	if err != nil {
		return fmt.Errorf("yield slot %s: %w", c.want.Slot, err)
	}
	return nil
}

// blank is nil when the volume holds nothing but its identity.
func (c *localClaim) blank() error {
	if why := c.Mismatch(); why != "" {
		return errors.New(why)
	}
	n, err := content(c.Path())
	if err == nil && n != 1 {
		err = fmt.Errorf("%s holds data", c.Path())
	}
	return err
}

// wipe removes a blank volume, file by file: what is not known stays, and keeps the directory.
func (c *localClaim) wipe() error {
	if err := c.local.forget(c.root, c.want.Slot); err != nil {
		return err
	}
	c.end() // from here on the volume does not look like ours
	c.mu.Lock()
	c.tag.Disk = ""
	c.mu.Unlock()
	if err := c.writeTag(PhaseReleased); err != nil {
		return err
	}
	path := filepath.Join(c.Path(), IdentityName)
	for _, name := range []string{path + TempSuffix, path} {
		if err := missing(os.Remove(name)); err != nil {
			return cure(err)
		}
		c.local.step("removed " + filepath.Base(name))
	}
	// A mount point, or a file system's lost+found, cannot be removed and need not be.
	err := os.Remove(c.Path())
	if err != nil && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
		return cure(err)
	}
	c.local.step("removed the directory")
	if err != nil {
		return cure(syncDir(c.Path()))
	}
	return cure(syncDir(c.root))
}
