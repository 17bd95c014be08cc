package ebs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"holdfast/volume"
)

// recall adds volumes that are known to be here to the list from EC2, which may be stale. Otherwise a second volume
// could be mounted beside one that an earlier process has left mounted.
func (a *claimAttempt) recall(ctx context.Context) error {
	j, err := a.requests.journal()
	if err != nil {
		return err
	}
	for _, id := range sortedKeys(a.devices) {
		if slices.ContainsFunc(a.volumes, func(v Volume) bool { return v.ID == id }) {
			continue
		}
		_, used := j.Attaching[id]
		used = used || j.Held != nil && j.Held.Volume == id
		dirs, err := a.host.Disks.Mounted(a.devices[id])
		if err != nil && used {
			return err
		}
		if !used && !slices.ContainsFunc(dirs, a.ours) {
			continue // the machine's own disk, or another cluster's
		}
		if !a.seen.stranger(id) { // that would be a request each second, for as long as the tags are missing
			v, ok, err := a.one(ctx, id)
			switch {
			case err != nil || !ok:
				a.seen.again()
				return none("EC2 does not show %s, which this machine has used and whose device is here", id)
			case a.cfg.selects(v):
				a.seen.again()
				a.volumes = append(slices.Clone(a.volumes), v)
				continue
			case len(dirs) > 0:
				a.log.Warn("unmounting a volume that is not the cluster's any more", zap.String("volume", id))
				if err := a.requests.unmountAll(ctx, a.devices[id]); err != nil {
					return err
				}
			}
			a.seen.estrange(id)
		}
		a.untagged = append(a.untagged, fmt.Sprintf("%s, which this machine has used, is attached to it and not used, "+
			"because it does not have the tags %s", id, strings.Join(a.cfg.Tags, ", ")))
	}
	return nil
}

// present returns the volume of the cluster to adopt, if the device of one is here. If several are here, it detaches
// the others, which are not mounted.
func (a *claimAttempt) present(ctx context.Context) (best Volume, ok bool, err error) {
	j, err := a.requests.journal()
	if err != nil {
		return Volume{}, false, err
	}
	rules := a.rules(a.want)
	var here []Volume
	for _, v := range a.volumes {
		if a.devices[v.ID] == "" {
			a.status.left(v.ID)
			continue
		}
		if _, leaving := j.Detaching[v.ID]; leaving {
			continue
		}
		v = rules.here(v)
		why := rules.unfit(v)
		if why != "" {
			why = fmt.Sprintf("%s is attached to this instance and not used: %s", v.ID, why)
		} else {
			here = append(here, v)
		}
		a.status.problem("unfit "+v.ID, why)
	}
	if len(here) == 0 {
		return Volume{}, false, nil
	}
	best = here[0]
	for _, v := range here[1:] {
		if rules.closer(v, best, j.Held) {
			best = v
		}
	}
	for _, v := range here {
		if v.ID != best.ID {
			a.requests.shed(ctx, v.ID, a.devices[v.ID], best.ID)
		}
	}
	return best, true, nil
}

// adopt takes over a volume whose device is here. With takeover: stopped another node may be about to detach the
// volume, because it saw this instance stopped. So the claim must settle first.
func (a *claimAttempt) adopt(ctx context.Context, v Volume) (*claim, error) {
	a.c = a.newClaim(v)
	device := a.devices[v.ID]
	if a.cfg.Takeover == takeoverStopped {
		if err := a.declare(ctx); err != nil {
			return nil, err
		}
		devices, err := a.host.Devices()
		if err != nil {
			return nil, err
		}
		now, ok, err := a.one(ctx, v.ID) // an accepted detach may take longer than the settling
		if err != nil {
			return nil, fmt.Errorf("ask whether %s is being detached: %w", v.ID, err)
		}
		if devices[v.ID] != device || !ok || !a.attachedHere(now) {
			a.seen.again()
			return nil, none("%s may not stay attached: this instance was seen stopped, and another node may be taking the "+
				"volume over", v.ID)
		}
	}
	return a.use(ctx, device)
}

// attachedHere reports whether, according to EC2, a volume is attached to this instance and not attaching or detaching.
func (a *claimAttempt) attachedHere(v Volume) bool {
	return slices.ContainsFunc(v.Attachments,
		func(at Attachment) bool { return at.Instance == a.me.Instance && at.State == Attached })
}

// adoptBlind adopts the volume that was held last although EC2 does not answer: an outage of its API must not keep a
// member down if its disk is here.
func (a *claimAttempt) adoptBlind(ctx context.Context, h Holding, cause error) (*claim, error) {
	a.c = newClaim(a.Provider, h.Volume, volume.Identity{Cluster: a.want.Cluster, Slot: h.Slot, Volume: h.Volume})
	a.c.rules = a.rules(a.want)
	a.c.blind, a.c.unsaid = true, true
	a.c.tag = a.newTag(h.Epoch + 1)
	a.log.Warn("EC2 cannot be asked; adopting the volume that this machine held last, whose device is here",
		zap.String("volume", h.Volume), zap.String("slot", h.Slot), zap.Error(cause))
	return a.use(ctx, a.devices[h.Volume])
}

// finish continues with the volume whose attachment is not settled. Nothing else may be tried meanwhile, because the
// late request would give this machine a second volume.
func (a *claimAttempt) finish(ctx context.Context) (*claim, error) {
	for _, v := range a.volumes {
		if v.ID != a.open {
			continue
		}
		switch who := holder(v); {
		case who == a.me.Instance:
			a.c = a.newClaim(v)
			device, err := a.await(ctx, "", false)
			if err != nil {
				return nil, err
			}
			return a.use(ctx, device)
		case who == "" && a.judge(a.want, a.volumes).of(v).take:
			a.log.Info("requesting again an attachment without an answer", zap.String("volume", a.open))
			return a.take(ctx, v)
		}
	}
	a.status.at(stateStandby, a.open, "an attachment is not settled")
	return nil, none("an attachment of %s was requested, and its outcome is not known yet; nothing else is tried for "+
		"at most %s", a.open, unsettled)
}

// vacate is run on an instance that is about to go. It claims no volume, and gives up the volumes that are still here,
// for example after a failed detach or a process that ended. These are in the journal or have this instance's claim:
// another program's volume stays. An old notice gives nothing up, because an instance that comes back from hibernation
// may remember one although it stays. The error always says why nothing is claimed.
func (a *claimAttempt) vacate(ctx context.Context, why string) error {
	why += ": it claims no volume"
	a.status.at(stateStandby, "", why)
	j, err := a.requests.journal()
	if err != nil {
		return fmt.Errorf("%s, and what is attached to it cannot be given back: %w", why, err)
	}
	own := len(a.devices) < 2 && j.Held == nil && len(j.Detaching) == 0 // only its root disk is here: no need to ask EC2
	if own || a.outlook.confirmed(ctx).Leaves() == "" {
		return none("%s", why)
	}
	dropped, err := a.dropAll(ctx, a.devices, false, func(v Volume) bool {
		_, leaving := j.Detaching[v.ID]
		t, err := a.cfg.claim(v)
		return leaving || j.Held != nil && j.Held.Volume == v.ID || err == nil && t.Instance == a.me.Instance
	})
	a.status.at(stateStandby, "", why)
	if len(dropped) > 0 {
		a.log.Warn("gave back volumes that were still attached", zap.Strings("volumes", dropped), zap.String("why", why))
	}
	if err != nil {
		return fmt.Errorf("%s, and what is attached to it could not be given back yet: %w", why, err)
	}
	return none("%s", why)
}
