package ebs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// take claims a free volume: intent, settling, attachment, and then what adopt does.
func (p *Provider) take(ctx context.Context, want volume.Want, v Volume) (*claim, error) {
	c := p.newClaim(want, v)
	if err := p.declare(ctx, c); err != nil {
		return nil, err
	}
	device, err := p.attach(ctx, c)
	if err != nil {
		return nil, err
	}
	return p.use(ctx, c, device)
}

func (p *Provider) newClaim(want volume.Want, v Volume) *claim {
	slot, _ := parseSlot(v.Tags[p.cfg.SlotTag])
	c := newClaim(p, v.ID, volume.Identity{Cluster: want.Cluster, Slot: slot, Volume: v.ID})
	c.formatted = v.Tags[TagFormat]
	c.tag = Tag{Epoch: 1, Instance: p.me.Instance, Node: p.node.Name, Nonce: newNonce(), Phase: volume.PhaseClaiming, Address: p.node.Address}
	if t, err := ParseTag(v.Tags[p.cfg.ClaimTag]); err == nil && t.Epoch < maxEpoch {
		c.tag.Epoch = t.Epoch + 1
	}
	return c
}

// declare writes the claim and makes sure that it stays: the last writer wins, so who reads his own claim
// back, after the others had time to write theirs, has most likely won. It keeps the others from wasting an
// attachment, and nobody out.
func (p *Provider) declare(ctx context.Context, c *claim) error {
	p.at(StateClaiming, c.vol, "writes its claim and lets it settle")
	p.step("before-claim-tag")
	if err := p.write(ctx, c); err != nil {
		return err
	}
	p.step("after-claim-tag")
	tagless := p.isTagless()
	if tagless && p.cfg.Takeover != TakeoverStopped { // else the wait is also for who has seen us stopped
		return nil
	}
	if err := pause(ctx, p.cfg.Settle+time.Duration(p.random(int64(p.cfg.Settle/2+1)))); err != nil || tagless {
		return err
	}
	last := time.Now().Add(5*p.cfg.Settle + cloudLook)
	for seen := 0; ; {
		v, ok, err := p.one(ctx, c.vol)
		switch {
		case err != nil && MeaningOf(err) == Denied:
			return err
		case err == nil && ok && v.Tags[p.cfg.ClaimTag] == c.tag.String():
			if seen++; seen == 2 {
				return nil
			}
		default:
			seen = 0
		}
		if time.Now().After(last) {
			p.postpone(c.vol, p.cfg.Settle)
			p.again()
			return none("another node's claim of %s came after ours", c.vol)
		}
		if err := pause(ctx, p.jitter(p.cfg.Settle/5+time.Millisecond)); err != nil {
			return err
		}
	}
}

// write writes the claim to the tag as it is now. Without the permission the node goes on without tags: they
// decide nothing. Whether an uncertain write was executed does not matter, it will be repeated.
func (p *Provider) write(ctx context.Context, c *claim) error {
	c.mu.Lock()
	c.tag.Since = time.Now().UTC().Truncate(time.Second)
	text := c.tag.String()
	c.mu.Unlock()
	err := p.cloud.Tag(ctx, c.vol, map[string]string{p.cfg.ClaimTag: text})
	if err != nil && MeaningOf(err) == Denied {
		p.mu.Lock()
		p.tagless = true
		p.mu.Unlock()
		p.problem("tags", fmt.Sprintf("the claim of %s could not be written: %v; going on without: give this instance ec2:CreateTags, or set gossip.seeds, for the others cannot find it by the tag", c.vol, err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the claim of %s: %w", c.vol, err)
	}
	p.mu.Lock()
	p.tagless = false
	p.mu.Unlock()
	p.problem("tags", "")
	return nil
}

func (p *Provider) isTagless() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tagless
}

// one reads a single volume.
func (p *Provider) one(ctx context.Context, id string) (Volume, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, cloudLook) // who asks has more to do than to wait for EC2
	defer cancel()
	volumes, err := p.cloud.Volumes(ctx, Query{IDs: []string{id}})
	if err != nil {
		return Volume{}, false, err
	}
	for _, v := range volumes {
		if v.ID == id {
			return v, true, nil
		}
	}
	return Volume{}, false, nil
}

// attach asks for the attachment and waits for the device. The request is journaled before it is sent, and
// stays so until it is known not to be executed, or the device is used.
func (p *Provider) attach(ctx context.Context, c *claim) (device string, err error) {
	p.at(StateAttaching, c.vol, "asks for the attachment")
	j, err := p.journal()
	if err != nil {
		return "", err
	}
	_, earlier := j.Attaching[c.vol] // of that it is not known what became
	for _, name := range p.freeNames() {
		if err := p.remember(func(j *Journal) {
			j.Attaching[c.vol] = time.Now()
			j.forget(c.vol)
		}); err != nil {
			return "", err
		}
		p.step("before-attach")
		err := p.cloud.Attach(ctx, c.vol, p.me.Instance, name)
		p.step("after-attach")
		switch m := MeaningOf(err); {
		case err == nil:
			return p.await(ctx, c.vol, name, true)
		case m == NameTaken:
			p.spoil(name)
		case m == Uncertain, m == InUse && earlier: // it may be ourselves who use it
			p.log.Warn("an attachment was asked for, and it is not known what became of it", zap.String("volume", c.vol), zap.Error(err))
			return p.await(ctx, c.vol, name, false)
		default:
			return "", p.refused(c.vol, m, err, earlier)
		}
	}
	return "", p.refused(c.vol, NameTaken, errors.New("every device name is in use"), earlier)
}

// refused deals with an AttachVolume that certainly was not executed. Of an earlier one that is not certain,
// and it stays in the journal.
func (p *Provider) refused(vol string, m Meaning, cause error, earlier bool) error {
	if !earlier {
		if err := p.remember(func(j *Journal) { delete(j.Attaching, vol) }); err != nil {
			return errors.Join(cause, err)
		}
	}
	p.again()
	switch m {
	case InUse, NotNow, NotFound, Throttled:
		p.postpone(vol, p.cfg.Settle)
		return none("%s could not be attached: %v", vol, cause)
	}
	return p.fail(vol, fmt.Errorf("attach %s to %s: %w%s", vol, p.me.Instance, cause, cure(m)))
}

// await waits until the device with the volume's serial is here, which alone proves the attachment. What EC2
// says meanwhile only tells when to stop waiting. sure: EC2 has accepted the request.
func (p *Provider) await(ctx context.Context, vol, name string, sure bool) (string, error) {
	p.at(StateAttaching, vol, "waits for the device")
	last, looked := time.Now().Add(stuck), time.Now()
	free, others := 0, 0 // looks in a row that showed the volume free, or with another instance
	for {
		devices, err := p.host.Devices()
		if err != nil {
			return "", fmt.Errorf("look for the device of %s: %w", vol, err)
		}
		if device, ok := devices[vol]; ok {
			p.step("device")
			return device, nil
		}
		if time.Since(looked) >= cloudLook {
			looked = time.Now()
			if v, ok, err := p.one(ctx, vol); err == nil && ok {
				who := holder(v)
				free, others = next(free, who == "" && v.State == VolumeAvailable), next(others, who != "" && who != p.me.Instance)
			}
		}
		switch gone := time.Now().After(last); {
		case sure && (free == patience || gone):
			return "", p.giveUp(ctx, vol, name, free == patience)
		case !sure && (free == patience || others == patience || gone):
			p.postpone(vol, p.cfg.Settle)
			p.again()
			return "", none("an attachment of %s was asked for, and no answer came; nothing else is tried until it is known what became of it, for at most %s", vol, unsettled)
		}
		if err := pause(ctx, deviceLook); err != nil {
			return "", err
		}
	}
}

// giveUp ends an attachment that brings no device. It may be stuck, or EC2 may have taken it back, as it does
// when it cannot decrypt the volume. It is detached, so that it does not come true later.
func (p *Provider) giveUp(ctx context.Context, vol, name string, back bool) error {
	p.spoil(name)
	p.again()
	if err := p.detach(ctx, vol); err != nil {
		p.log.Warn("an attachment that brought no device could not be undone yet", zap.String("volume", vol), zap.Error(err))
	}
	if back {
		return p.fail(vol, fmt.Errorf("attach %s: EC2 accepted the request and then took it back: if the volume is encrypted, look whether its KMS key is enabled and whether this instance's role may use it (kms:CreateGrant, kms:Decrypt)", vol))
	}
	return p.fail(vol, fmt.Errorf("attach %s: no device appeared within %s; it is detached, and tried again under another device name", vol, stuck))
}

// fail leaves a volume alone for a while, and keeps the reason for those who ask meanwhile.
func (p *Provider) fail(vol string, err error) error {
	p.postpone(vol, setback)
	p.mu.Lock()
	p.failed[vol] = err.Error()
	p.mu.Unlock()
	return err
}

// postpone leaves a volume alone for about d.
func (p *Provider) postpone(vol string, d time.Duration) {
	p.mu.Lock()
	p.avoid[vol] = time.Now().Add(p.jitter(d))
	delete(p.failed, vol)
	p.mu.Unlock()
}
