package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"holdfast/durable"
)

// asideName is the directory of the volume that holds what was set aside.
const asideName = "aside"

// SetAside implements SetAsider. Killed half-way it leaves a volume that still has a Mismatch, and can be
// repeated; what was on the volume then lies in more than one directory below aside/.
func (c *localClaim) SetAside(ctx context.Context) error {
	c.op.Lock()
	defer c.op.Unlock()
	why := c.Mismatch()
	err := c.writable(ctx)
	if err == nil {
		err = c.renew()
	}
	if err != nil {
		return fmt.Errorf("set the content of slot %s aside: %w", c.Want.Slot, err)
	}
	c.local.log.Warn("set the content of the volume aside", zap.String("slot", c.Want.Slot),
		zap.String("disk", c.Volume().Disk), zap.String("mismatch", why))
	return nil
}

// renew moves everything aside and makes the volume another, blank disk.
func (c *localClaim) renew() error {
	return c.SetAsideWith(c.tag.Epoch, func() error { return SetAside(c.Path(), c.local.step) }, func(id Identity) error {
		// The operator has said that what was here before is given up, this disk or one that is missing.
		if err := c.forget(); err != nil {
			return err
		}
		c.mu.Lock()
		c.tag.Disk = id.Disk
		c.mu.Unlock()
		// The tag first: killed in between, it names a disk that is not there, which is a Mismatch.
		if err := c.writeTag(PhaseHeld); err != nil {
			return err
		}
		if err := id.Write(c.Path(), c.local.step); err != nil {
			return err
		}
		c.mu.Lock()
		c.gone = nil
		c.mu.Unlock()
		return nil
	})
}

// forget removes the marker of this volume, and of the one that is missing.
func (c *localClaim) forget() error {
	slot := c.Want.Slot
	c.mu.Lock()
	if c.gone != nil {
		slot = c.gone.Slot
	}
	c.mu.Unlock()
	return c.local.forget(slot)
}

// SetAside moves everything in a directory into a new directory below its aside/, durably, but for what was
// set aside before and a lost+found. It calls step, if not nil, between the steps a crash can separate.
func SetAside(dir string, step func(string)) error {
	names, err := movable(dir)
	if err != nil || len(names) == 0 {
		return err
	}
	aside := filepath.Join(dir, asideName)
	n, err := nextAside(aside)
	if err != nil {
		return err
	}
	target := filepath.Join(aside, fmt.Sprintf("%d-by-operator", n))
	if err := MakeDirs(target); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(target, name)); err != nil {
			return cure(err)
		}
		if step != nil {
			step("set aside " + name)
		}
	}
	return cure(errors.Join(durable.SyncDir(target), durable.SyncDir(dir)))
}

// movable are the entries of a volume that SetAside moves. What was set aside before stays where it
// is, lost+found belongs to the file system, and ownName to the claim.
func movable(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, cure(err)
	}
	var names []string
	for _, e := range entries {
		if e.Name() != asideName && e.Name() != "lost+found" && e.Name() != ownName {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// nextAside is one more than the highest number a name below aside/ begins with.
func nextAside(aside string) (int, error) {
	entries, err := os.ReadDir(aside)
	if err := missing(err); err != nil {
		return 0, cure(err)
	}
	next := 1
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "-")
		if n, err := strconv.Atoi(number); err == nil && n >= next {
			next = n + 1
		}
	}
	return next, nil
}

// Yield implements Yielder. Killed half-way it leaves a released volume that is blank or holds
// nothing but its identity; anyone who claims that one can yield again.
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
		return fmt.Errorf("yield slot %s: %w", c.Want.Slot, err)
	}
	return nil
}

// blank is nil when the volume holds nothing but its identity.
func (c *localClaim) blank() error {
	if why := c.Mismatch(); why != "" {
		return errors.New(why)
	}
	n, err := dataIn(c.Path())
	if err == nil && n > 0 {
		err = fmt.Errorf("%s holds data", c.Path())
	}
	return cure(err)
}

// wipe removes a blank volume, file by file: what is not known stays, and keeps the directory.
func (c *localClaim) wipe() error {
	if err := c.local.forget(c.Want.Slot); err != nil {
		return err
	}
	c.End() // from here on the volume does not look like ours
	c.mu.Lock()
	c.tag.Disk = ""
	c.mu.Unlock()
	if err := c.writeTag(PhaseReleased); err != nil {
		return err
	}
	path := filepath.Join(c.Path(), IdentityName)
	for _, name := range []string{path + tempSuffix, path} {
		if err := missing(os.Remove(name)); err != nil {
			return cure(err)
		}
		c.local.step("removed " + filepath.Base(name))
	}
	// A mount point, or one with a file system's lost+found or ownName, cannot be removed and need not be.
	err := os.Remove(c.Path())
	if err != nil && !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
		return cure(err)
	}
	c.local.step("removed the directory")
	if err != nil {
		return cure(durable.SyncDir(c.Path()))
	}
	return cure(durable.SyncDir(c.root))
}
