package ebs

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"go.uber.org/zap"

	"holdfast/volume"
)

// present returns the volume of the cluster whose device is here and is to be adopted, if there is one. This
// machine may have come to several; then the others, which are not mounted, are detached.
func (p *Provider) present(ctx context.Context, want volume.Want, volumes []Volume, devices map[string]string) (v Volume, ok bool, err error) {
	j, err := p.journal()
	if err != nil {
		return Volume{}, false, err
	}
	var here []Volume
	for _, v := range volumes {
		if devices[v.ID] == "" {
			continue
		}
		if _, leaving := j.Detaching[v.ID]; leaving {
			continue
		}
		v = p.here(v)
		why := p.unfit(want, v)
		if why != "" {
			why = fmt.Sprintf("%s is attached to this instance and not used: %s", v.ID, why)
		} else {
			here = append(here, v)
		}
		p.problem("unfit "+v.ID, why)
	}
	if len(here) == 0 {
		return Volume{}, false, nil
	}
	best := here[0]
	for _, v := range here[1:] {
		if p.closer(v, best, j.Held) {
			best = v
		}
	}
	for _, v := range here {
		if v.ID != best.ID {
			p.shed(ctx, v.ID, devices[v.ID], best.ID)
		}
	}
	return best, true, nil
}

// here is a volume whose device is on this machine: what EC2 says of it may be old, and that is not.
func (p *Provider) here(v Volume) Volume {
	v.Zone = p.me.Zone
	return v
}

// recall adds to what EC2 lists the volumes that are known to be here and are not in the list, which may be old:
// a second one must not be mounted beside one that a former life of this process has left mounted.
func (p *Provider) recall(ctx context.Context, volumes []Volume, devices map[string]string) ([]Volume, error) {
	j, err := p.journal()
	if err != nil {
		return nil, err
	}
	for _, id := range sortedKeys(devices) {
		if slices.ContainsFunc(volumes, func(v Volume) bool { return v.ID == id }) {
			continue
		}
		_, used := j.Attaching[id]
		used = used || j.Held != nil && j.Held.Volume == id
		dirs, err := p.host.Mounted(devices[id])
		if err != nil && used {
			return nil, err
		}
		if !used && !slices.ContainsFunc(dirs, p.ours) {
			continue // the machine's own disk, or another cluster's
		}
		p.again()
		v, ok, err := p.one(ctx, id)
		switch {
		case err != nil || !ok:
			return nil, none("EC2 does not show %s, which this machine has used and whose device is here", id)
		case p.cfg.selects(v):
			volumes = append(slices.Clone(volumes), v)
		case len(dirs) > 0:
			p.log.Warn("unmounting a volume that is not the cluster's any more", zap.String("volume", id))
			if err := p.unmountAll(ctx, devices[id]); err != nil {
				return nil, err
			}
		}
	}
	return volumes, nil
}

// closer reports whether a is to be adopted rather than b: what was held last, what bears our claim, what was
// formatted, and else the lower ID, which comes first in the list.
func (p *Provider) closer(a, b Volume, held *Holding) bool {
	rank := func(v Volume) int {
		t, err := ParseTag(v.Tags[p.cfg.ClaimTag])
		switch {
		case held != nil && held.Volume == v.ID:
			return 0
		case err == nil && t.Instance == p.me.Instance && t.Phase == volume.PhaseHeld:
			return 1
		case err == nil && t.Instance == p.me.Instance:
			return 2
		case v.Tags[TagFormat] != "":
			return 3
		}
		return 4
	}
	return rank(a) < rank(b)
}

// shed detaches a volume of the cluster that this machine has beside the one it uses.
func (p *Provider) shed(ctx context.Context, vol, device, keep string) {
	err := p.unmountAll(ctx, device)
	if err == nil {
		p.log.Warn("detaching a second volume of the cluster, which is not in use", zap.String("volume", vol), zap.String("kept", keep))
		err = p.detach(ctx, vol)
	}
	text := ""
	if err != nil {
		text = fmt.Sprintf("this instance has a second volume of the cluster, %s, which could not be detached: %v", vol, err)
	}
	p.problem("second "+vol, text)
}

// ours reports whether a mount point is one of this provider's.
func (p *Provider) ours(dir string) bool {
	return filepath.Dir(filepath.Clean(dir)) == filepath.Clean(p.cfg.MountRoot)
}

// adopt takes up a volume whose device is here. With takeover of stopped instances somebody may be about to
// detach it, having seen this one stopped: then the claim must settle first.
func (p *Provider) adopt(ctx context.Context, want volume.Want, v Volume, device string) (*claim, error) {
	c := p.newClaim(want, v)
	if p.cfg.Takeover == TakeoverStopped {
		if err := p.declare(ctx, c); err != nil {
			return nil, err
		}
		devices, err := p.host.Devices()
		if err != nil {
			return nil, err
		}
		now, ok, err := p.one(ctx, c.vol) // a detach that was accepted may take longer than the settling
		if err != nil {
			return nil, fmt.Errorf("ask whether %s is being detached: %w", c.vol, err)
		}
		if devices[c.vol] != device || !ok || !p.attachedHere(now) {
			p.again()
			return nil, none("%s is not attached to this instance to stay: it was seen stopped, and another node may be taking the volume over", c.vol)
		}
	}
	return p.use(ctx, c, device)
}

// left is the volume that this machine held last, if its device is here and it may be adopted without asking EC2;
// nil if not.
func (p *Provider) left(want volume.Want, devices map[string]string) *Holding {
	j, err := p.journal()
	if err != nil || j.Held == nil || p.cfg.Takeover == TakeoverStopped {
		return nil
	}
	_, leaving := j.Detaching[j.Held.Volume]
	if devices[j.Held.Volume] == "" || leaving || !slices.Contains(want.Slots, j.Held.Slot) {
		return nil
	}
	return j.Held
}

// attachedHere reports whether EC2 says that a volume is attached to this instance, and not on its way in or out.
func (p *Provider) attachedHere(v Volume) bool {
	return slices.ContainsFunc(v.Attachments, func(a Attachment) bool { return a.Instance == p.me.Instance && a.State == Attached })
}

// adoptBlind adopts it although EC2 does not answer: an outage of its API must not keep a member down whose disk
// is here.
func (p *Provider) adoptBlind(ctx context.Context, want volume.Want, h Holding, device string, cause error) (*claim, error) {
	c := newClaim(p, h.Volume, volume.Identity{Cluster: want.Cluster, Slot: h.Slot, Volume: h.Volume})
	c.blind, c.unsaid = true, true
	c.tag = Tag{Epoch: h.Epoch + 1, Instance: p.me.Instance, Node: p.node.Name, Nonce: newNonce(), Phase: volume.PhaseClaiming, Address: p.node.Address}
	p.log.Warn("EC2 cannot be asked; adopting the volume that this machine held last, whose device is here",
		zap.String("volume", h.Volume), zap.String("slot", h.Slot), zap.Error(cause))
	return p.use(ctx, c, device)
}
