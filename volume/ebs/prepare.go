package ebs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"holdfast/volume"
)

// label is the label of the filesystems that holdfast makes. A filesystem without it was made by another program, and
// is read before anything is written to it.
const label = "holdfast"

// use is steps 7 to 9: it makes the volume whose device is here this node's, and only then reports it as held.
func (a *claimAttempt) use(ctx context.Context, device string) (*claim, error) {
	c := a.c
	a.status.at(statePreparing, c.vol, "checks, mounts and identifies it")
	c.device, c.dir = device, a.dir(c.Want.Slot)
	if !c.blind {
		if err := a.verify(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.prepare(ctx); err != nil {
		return nil, fmt.Errorf("prepare %s (slot %s): %w", c.vol, c.Want.Slot, err)
	}
	if err := a.requests.hold(Holding{Volume: c.vol, Slot: c.Want.Slot, Epoch: c.tag.Epoch}); err != nil {
		return nil, err
	}
	// The node that has the device holds the volume, whatever the tag says now.
	c.tag.Phase = volume.PhaseHeld
	if !c.blind {
		a.step("before-held-tag")
		if err := c.write(ctx); err != nil {
			c.unsaid = true
			a.log.Warn("could not write the claim as held yet", zap.String("volume", c.vol), zap.Error(err))
		}
	}
	a.step("held")
	a.status.at(stateHeld, c.vol, c.Mismatch())
	a.log.Info("claimed a volume", zap.String("volume", c.vol), zap.String("slot", c.Want.Slot),
		zap.String("device", device), zap.String("path", c.dir),
		zap.Uint64("epoch", c.tag.Epoch), zap.String("disk", c.Volume().Disk), zap.String("mismatch", c.Mismatch()))
	return c, nil
}

// verify is step 7: it asks EC2 for what only EC2 knows of the attachment. An answer that does not show the attachment
// yet is stale and means nothing; Watch asks again.
func (a *claimAttempt) verify(ctx context.Context) error {
	c := a.c
	v, ok, err := a.one(ctx, c.vol)
	if err != nil || !ok {
		return nil
	}
	if v.MultiAttach {
		return fmt.Errorf("%s is a Multi-Attach volume, which two instances could write to: never used", c.vol)
	}
	if c.formatted == "" {
		c.formatted = v.Tags[TagFormat]
	}
	a.checkAttachment(v)
	return nil
}

// prepare is steps 8 and 9: it mounts the filesystem on the device and determines which volume it is.
func (a *claimAttempt) prepare(ctx context.Context) error {
	c := a.c
	if err := a.stopped(); err != nil {
		return err
	}
	// Unmount and examine again what an earlier process has left mounted. If something has files open there, such as an
	// operator's shell, it stays mounted. It is no member of ours: that one's process had this machine's lock.
	left := a.requests.unmountAll(ctx, c.device)
	switch {
	case errors.Is(left, syscall.EBUSY):
		a.log.Warn("the volume stays mounted as an earlier process has left it", zap.String("path", c.dir), zap.Error(left))
	case left != nil:
		return left
	default:
		// Do the same with the remains of a device that is gone. Nothing can be written to them any more. If they cannot be
		// unmounted, the mount below fails and says so.
		if err := a.host.Disks.Unmount(ctx, c.dir); err != nil {
			a.log.Warn("the remains of a lost device did not unmount cleanly", zap.String("path", c.dir), zap.Error(err))
		}
	}
	content, err := a.host.Disks.Probe(ctx, c.device)
	if err != nil {
		return err
	}
	j, err := a.requests.journal()
	if err != nil {
		return err
	}
	begun := j.Formatting != nil && j.Formatting.Volume == c.vol && c.formatted == "" && !c.blind
	switch {
	case begun && (content.Blank || content.Type == "" || content.UUID == j.Formatting.UUID):
		a.log.Warn("formatting again a volume whose format was interrupted", zap.String("volume", c.vol))
		return a.format(ctx, j.Formatting.UUID)
	case content.Blank && c.blind:
		return fmt.Errorf("its device %s is blank, and EC2 cannot be asked whether it was ever formatted: waiting for EC2",
			c.device)
	case content.Blank && c.formatted != "":
		c.Known(c.Want,
			fmt.Sprintf("its tag %s says that it was formatted (%s), but the device %s is blank: is it another volume, or was "+
				"it wiped? to have it formatted, remove the tag and restart this node", TagFormat, c.formatted, c.device))
		return nil
	case content.Blank:
		return a.format(ctx, uuid.NewString())
	case content.Type == "":
		c.Known(c.Want,
			fmt.Sprintf("its device %s holds %s, which is not touched; if it may be lost, wipe it (dd if=/dev/zero of=%s "+
				"bs=1M) and restart this node", c.device, content.Other, c.device))
		return nil
	}
	return a.mount(ctx, content)
}

// stopped returns nil unless another program's etcd runs on the volume, which that program has mounted elsewhere. If
// the data is to be adopted, this etcd must stop first.
func (a *claimAttempt) stopped() error {
	if !a.want.Adopt {
		return nil
	}
	dirs, err := a.host.Disks.Mounted(a.c.device)
	for _, dir := range dirs {
		if a.ours(dir) {
			continue
		}
		locked, err := a.host.Files.Running(dir)
		if err != nil {
			return err
		}
		if locked != "" {
			return none("etcd still runs on %s: stop etcd-manager, or that etcd, on this machine, and unmount %s", locked, dir)
		}
	}
	return err
}

// format is step 8: it makes the filesystem on a device that is provably blank. The journal records that first, because
// after a crash the device may look like anything. It drops the record before anything is written to the filesystem.
func (a *claimAttempt) format(ctx context.Context, id string) error {
	c := a.c
	if err := a.requests.remember(func(j *Journal) { j.Formatting = &Formatting{Volume: c.vol, UUID: id} }); err != nil {
		return err
	}
	a.log.Info("formatting a blank volume", zap.String("volume", c.vol), zap.String("device", c.device),
		zap.String("filesystem", a.cfg.Filesystem))
	a.step("before-format")
	if err := a.host.Disks.Format(ctx, c.device, id); err != nil {
		return err
	}
	a.step("after-format")
	if err := a.requests.remember(func(j *Journal) { j.Formatting = nil }); err != nil {
		return err
	}
	return a.mount(ctx, Content{Type: a.cfg.Filesystem, UUID: id, Label: label})
}

// mount is step 9: it mounts a filesystem and judges its content. A filesystem is first mounted read-only, unless
// holdfast made it, or the tag says that holdfast has identified it before. Its journal is then not replayed, so what
// is read may be stale: it is judged again before anything is written.
func (a *claimAttempt) mount(ctx context.Context, content Content) error {
	c, format := a.c, content.Type+":"+content.UUID
	foreign := content.Label != label && c.formatted != format
	a.step("before-mount")
	if err := c.mount(ctx, foreign); err != nil {
		return err
	}
	c.mounted = true
	a.step("after-mount")
	id, mismatch, err := a.whose(format)
	if err == nil && mismatch == "" && foreign {
		if err = c.mount(ctx, false); err == nil {
			id, mismatch, err = a.whose(format)
		}
	}
	if err != nil {
		return err
	}
	if mismatch != "" {
		id = c.Want
		id.Epoch = c.tag.Epoch
		c.Known(id, mismatch)
		return nil
	}
	if a.adopted != nil {
		a.log.Warn("adopting the data of another program's etcd", zap.String("volume", c.vol),
			zap.String("path", c.dir), zap.Strings("data", a.adopted))
	}
	return a.identify(ctx, id, format)
}

// mount mounts the filesystem, and grows it if it is mounted for writing. A filesystem that cannot be grown is used at
// the size that it has: the next start tries again.
func (c *claim) mount(ctx context.Context, readonly bool) error {
	disks := c.p.host.Disks
	if err := disks.Mount(ctx, c.device, c.dir, readonly); err != nil || readonly {
		return err
	}
	err := disks.Grow(ctx, c.device, c.dir)
	if err != nil {
		err = fmt.Errorf("the filesystem of %s could not grow, and is used at the size that it has: %w", c.vol, err)
	}
	c.p.status.failure("grow", err)
	return nil
}

// whose returns the identity of the mounted filesystem: its own, a fresh one if it may be given one, or a mismatch.
func (a *claimAttempt) whose(format string) (id volume.Identity, mismatch string, err error) {
	c := a.c
	a.adopted = nil
	found, err := a.host.Files.Inspect(c.dir)
	adopt := a.want.Adopt && len(found.Foreign) > 0
	switch {
	case err != nil:
		return id, "", err
	case found.Damaged != "":
		return id, found.Damaged, nil
	case found.Identity != nil:
		if why := c.Want.Mismatch(*found.Identity); why != "" {
			return id, c.mistaken(*found.Identity, why), nil
		}
		return *found.Identity, "", nil
	case found.Entries > 0 && !adopt:
		return id, fmt.Sprintf("its filesystem holds %d files or directories, but no identity of a holdfast volume",
			found.Entries), nil
	case c.formatted != "" && c.formatted != format:
		what := "which is empty"
		if adopt {
			what = "which has another program's data"
		}
		return id, fmt.Sprintf("its tag %s says %s, but the filesystem, %s, is %s", TagFormat, c.formatted, what, format), nil
	case c.blind:
		return id, "", fmt.Errorf("it has no identity, and EC2 cannot be asked about it: waiting for EC2")
	}
	if adopt {
		a.adopted = found.Foreign
	}
	return c.Want.Fresh(), "", nil
}

// mistaken says in what the identity on a volume differs from its tags. If it was written on this very volume, the data
// is the member's own, and must not be set aside because someone has changed a tag.
func (c *claim) mistaken(found volume.Identity, why string) string {
	if found.Volume != c.vol {
		return "its filesystem is that of another volume: " + why
	}
	return fmt.Sprintf("its tags say slot %q of cluster %q, but it holds the data of slot %q of cluster %q: if the tags "+
		"are wrong, correct them and restart this node", c.Want.Slot, c.Want.Cluster, found.Slot, found.Cluster)
}

// identify writes the identity with the epoch of this claim, which is above that of any earlier claim. It first writes
// the tag that says that there is a filesystem: from then on the volume is never taken for a blank one.
func (a *claimAttempt) identify(ctx context.Context, id volume.Identity, format string) error {
	c := a.c
	c.tag.Epoch = max(c.tag.Epoch, id.Epoch+1)
	id.Epoch = c.tag.Epoch
	if c.formatted != format && !c.blind && !a.claims.isDenied() {
		if err := a.cloud.Tag(ctx, c.vol, map[string]string{TagFormat: format}); err != nil {
			a.log.Warn("could not write the format tag of the volume yet", zap.String("volume", c.vol),
				zap.Error(err))
		}
	}
	c.formatted = format
	a.step("before-identity")
	if err := a.host.Files.Identify(c.dir, id); err != nil {
		return err
	}
	a.step("after-identity")
	c.Known(id, "")
	return nil
}

// filesystem returns the filesystem type of a format tag.
func filesystem(tag string) string {
	fs, _, _ := strings.Cut(tag, ":")
	return fs
}
