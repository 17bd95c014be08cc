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

// asideName is the directory on the volume with everything that was set aside.
const asideName = "aside"

// SetAside implements Claim. If it is killed, the volume still has a Mismatch, and SetAside can be repeated. The
// content is then in more than one directory below aside/.
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

// renew moves everything aside and makes the volume a new, blank disk.
func (c *localClaim) renew() error {
	return c.SetAsideWith(c.tag.Epoch, func() error { return SetAside(c.Path(), c.local.step) }, func(id Identity) error {
		// The operator has given up the disk that was here before, or the one that is missing.
		if err := c.forget(); err != nil {
			return err
		}
		c.mu.Lock()
		c.tag.Disk = id.Disk
		c.mu.Unlock()
		// The tag is written first: if killed in between, it names a disk that is not there, which is a Mismatch.
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

// forget removes the marker of this volume, or of the missing one.
func (c *localClaim) forget() error {
	slot := c.Want.Slot
	c.mu.Lock()
	if c.gone != nil {
		slot = c.gone.Slot
	}
	c.mu.Unlock()
	return c.local.forget(slot)
}

// SetAside moves everything in a directory durably into a new directory below aside/, except aside/ itself, lost+found
// and ownName. It calls step, if not nil, between the steps that a crash can separate.
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

// movable returns the entries of a volume that SetAside moves. aside/ stays where it is, lost+found belongs to the file
// system, and ownName to the claim.
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

// nextAside returns the next free number for a directory below aside/.
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

// Yield implements Yielder. If it is killed, the volume is released, and is blank or holds only its identity. The next
// claim can then yield it again.
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

// blank returns nil if the volume holds nothing but its identity.
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

// wipe removes a blank volume file by file. An unknown file stays, and with it the directory.
func (c *localClaim) wipe() error {
	if err := c.local.forget(c.Want.Slot); err != nil {
		return err
	}
	c.End() // from here on the volume no longer looks like ours
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
	// A mount point, or a directory with lost+found or ownName, cannot be removed and need not be.
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
