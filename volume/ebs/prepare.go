package ebs

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"holdfast/volume"
)

// Label is the label of the filesystems we make. One without it was made by somebody else, and is looked at
// read-only before anything is written.
const Label = "holdfast"

// use makes the volume whose device is here this node's: format if need be, mount, compare the identity, raise
// the epoch, and only then say that it is held.
func (p *Provider) use(ctx context.Context, c *claim, device string) (*claim, error) {
	p.at(StatePreparing, c.vol, "checks, mounts and identifies it")
	c.device, c.dir = device, p.dir(c.want.Slot)
	if !c.blind {
		if err := p.verify(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := p.prepare(ctx, c); err != nil {
		return nil, fmt.Errorf("prepare %s (slot %s): %w", c.vol, c.want.Slot, err)
	}
	if err := p.remember(func(j *Journal) {
		j.Held = &Holding{Volume: c.vol, Slot: c.want.Slot, Epoch: c.tag.Epoch}
		delete(j.Attaching, c.vol)
	}); err != nil {
		return nil, err
	}
	// Who has the device is who holds the volume, whatever the tag has come to say meanwhile.
	c.tag.Phase = volume.PhaseHeld
	if !c.blind {
		p.step("before-held-tag")
		if err := p.write(ctx, c); err != nil {
			c.unsaid = true
			p.log.Warn("the claim could not be written as held yet", zap.String("volume", c.vol), zap.Error(err))
		}
	}
	p.step("held")
	p.at(StateHeld, c.vol, c.mismatch)
	p.log.Info("claimed a volume", zap.String("volume", c.vol), zap.String("slot", c.want.Slot), zap.String("device", device), zap.String("path", c.dir),
		zap.Uint64("epoch", c.tag.Epoch), zap.String("disk", c.identity.Disk), zap.String("mismatch", c.mismatch))
	return c, nil
}

// verify asks EC2 for what only EC2 knows of the attachment. An answer that does not show it yet is old, and
// says nothing; Watch looks again.
func (p *Provider) verify(ctx context.Context, c *claim) error {
	v, ok, err := p.one(ctx, c.vol)
	if err != nil || !ok {
		return nil
	}
	if v.MultiAttach {
		return fmt.Errorf("%s is a Multi-Attach volume, which two instances could write to: never used", c.vol)
	}
	if c.formatted == "" {
		c.formatted = v.Tags[TagFormat]
	}
	p.checkAttachment(v)
	return nil
}

// checkAttachment warns of an attachment that would take the disk along when the instance ends.
func (p *Provider) checkAttachment(v Volume) {
	text := ""
	for _, a := range v.Attachments {
		if a.Instance == p.me.Instance && a.DeleteOnTermination {
			text = fmt.Sprintf("%s would be deleted with this instance: set DeleteOnTermination of %s to false (ec2 modify-instance-attribute)", v.ID, a.Device)
		}
	}
	p.problem("delete "+v.ID, text)
}

// prepare mounts the filesystem on the device and finds out whose it is.
func (p *Provider) prepare(ctx context.Context, c *claim) error {
	// What a former life has left mounted is unmounted, and looked at anew. Where that fails somebody still
	// has files open on it.
	if err := p.unmountAll(ctx, c.device); err != nil {
		return err
	}
	// So are the remains of a device that is gone. Nothing of them can be written any more; if they cannot
	// be unmounted, mounting says so.
	if err := p.host.Unmount(ctx, c.dir); err != nil {
		p.log.Warn("unmounted what a lost device has left", zap.String("path", c.dir), zap.Error(err))
	}
	content, err := p.host.Probe(ctx, c.device)
	if err != nil {
		return err
	}
	j, err := p.journal()
	if err != nil {
		return err
	}
	begun := j.Formatting != nil && j.Formatting.Volume == c.vol && c.formatted == "" && !c.blind
	switch {
	case begun && (content.Blank || content.Type == "" || content.UUID == j.Formatting.UUID):
		p.log.Warn("formatting a volume again, whose format was interrupted", zap.String("volume", c.vol))
		return p.format(ctx, c, j.Formatting.UUID)
	case content.Blank && c.blind:
		return fmt.Errorf("its device %s is blank, and EC2 cannot be asked whether it was ever formatted: waiting for EC2", c.device)
	case content.Blank && c.formatted != "":
		c.mismatch = fmt.Sprintf("its tag %s says that it was formatted (%s), but the device %s is blank: is it another volume, or was it wiped? remove the tag to have it formatted", TagFormat, c.formatted, c.device)
		return nil
	case content.Blank:
		return p.format(ctx, c, uuid.NewString())
	case content.Type == "":
		c.mismatch = fmt.Sprintf("its device %s holds %s, which is not touched; if it may be lost, wipe it (dd if=/dev/zero of=%s bs=1M) and restart this node", c.device, content.Other, c.device)
		return nil
	}
	return p.open(ctx, c, content)
}

// format makes the filesystem of a device that is provably blank. The journal says so first, for what a crash
// leaves of it looks like anything, and no more before anything is written to the filesystem.
func (p *Provider) format(ctx context.Context, c *claim, id string) error {
	if err := p.remember(func(j *Journal) { j.Formatting = &Formatting{Volume: c.vol, UUID: id} }); err != nil {
		return err
	}
	p.log.Info("formatting a blank volume", zap.String("volume", c.vol), zap.String("device", c.device), zap.String("filesystem", p.cfg.Filesystem))
	p.step("before-format")
	if err := p.host.Format(ctx, c.device, id); err != nil {
		return err
	}
	p.step("after-format")
	if err := p.remember(func(j *Journal) { j.Formatting = nil }); err != nil {
		return err
	}
	return p.open(ctx, c, Content{Type: p.cfg.Filesystem, UUID: id, Label: Label})
}

// open mounts a filesystem and judges what is in it. One that we did not make is only read.
func (p *Provider) open(ctx context.Context, c *claim, content Content) error {
	foreign := content.Label != Label
	p.step("before-mount")
	if err := p.host.Mount(ctx, c.device, c.dir, foreign); err != nil {
		return err
	}
	c.mounted = true
	p.step("after-mount")
	found, err := p.host.Inspect(c.dir)
	if err != nil {
		return err
	}
	id := c.want
	switch format := content.Type + ":" + content.UUID; {
	case found.Damaged != "":
		c.mismatch = found.Damaged
	case found.Identity == nil && found.Entries > 0:
		c.mismatch = fmt.Sprintf("its filesystem holds %d files or directories, but no identity of a holdfast volume", found.Entries)
	case found.Identity == nil && c.formatted != "" && c.formatted != format:
		c.mismatch = fmt.Sprintf("its tag %s says %s, but the filesystem, which is empty, is %s", TagFormat, c.formatted, format)
	case found.Identity == nil && c.blind:
		return fmt.Errorf("it has no identity, and EC2 cannot be asked about it: waiting for EC2")
	case found.Identity == nil:
		id = id.Fresh()
	default:
		id = *found.Identity
		if why := c.want.Mismatch(id); why != "" {
			c.mismatch = "its filesystem is that of another volume: " + why
		}
	}
	if c.mismatch != "" {
		c.identity = c.want
		c.identity.Epoch = c.tag.Epoch
		return nil
	}
	if foreign {
		if err := p.host.Mount(ctx, c.device, c.dir, false); err != nil {
			return err
		}
	}
	return p.identify(ctx, c, id, content.Type+":"+content.UUID)
}

// identify writes the identity with the epoch of this claim, which is above that of any claim before. The tag
// says first that there is a filesystem: then the volume is never taken for a blank one again.
func (p *Provider) identify(ctx context.Context, c *claim, id volume.Identity, format string) error {
	c.tag.Epoch = max(c.tag.Epoch, id.Epoch+1)
	id.Epoch = c.tag.Epoch
	if c.formatted != format && !c.blind && !p.isTagless() {
		if err := p.cloud.Tag(ctx, c.vol, map[string]string{TagFormat: format}); err != nil {
			p.log.Warn("the tag that says how the volume is formatted could not be written yet", zap.String("volume", c.vol), zap.Error(err))
		}
	}
	c.formatted = format
	p.step("before-identity")
	if err := p.host.Identify(c.dir, id); err != nil {
		return err
	}
	p.step("after-identity")
	c.identity = id
	return nil
}

// filesystem is the part of a format tag that people want to see.
func filesystem(tag string) string {
	fs, _, _ := strings.Cut(tag, ":")
	return fs
}
