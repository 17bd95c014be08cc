package ebs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"holdfast/volume"
)

// List implements [volume.Provider] with every volume of the cluster in the region, as EC2 shows it now. On a machine
// that is not an instance no volume can be claimed.
func (p *Provider) List(ctx context.Context, want volume.Want) ([]volume.Info, error) {
	if err := errors.Join(ctx.Err(), want.Validate()); err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	held := p.held.Load()
	outside := p.identify(ctx)
	volumes, err := p.seen.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	devices, err := p.host.Devices()
	if err != nil {
		p.log.Debug("could not read the devices of this machine", zap.Error(err))
	}
	infos := make([]volume.Info, 0, len(volumes))
	judge := p.judge(want, volumes)
	for _, v := range volumes {
		i := judge.info(v)
		switch {
		case held != nil && held.vol == v.ID:
			i.Decision, i.Why = volume.DecisionKeep, "held by this process"
		case devices[v.ID] != "" && outside == nil:
			i.Decision, i.Why = volume.DecisionKeep, fmt.Sprintf("its device %s is on this machine", devices[v.ID])
		case outside != nil:
			i.Decision, i.Why = volume.DecisionWait, "this machine is not an EC2 instance"
		case held != nil && i.Decision == volume.DecisionTake:
			i.Decision, i.Why = volume.DecisionWait, fmt.Sprintf("this process holds %s (slot %s)", held.vol, held.Want.Slot)
		}
		infos = append(infos, i)
	}
	slices.SortStableFunc(infos, func(a, b volume.Info) int { return strings.Compare(a.Slot, b.Slot) })
	return infos, nil
}

func (j judge) info(v Volume) volume.Info {
	d := j.of(v)
	i := volume.Info{
		Slot: d.slot, Volume: v.ID, State: volume.StateUnknown, Decision: volume.DecisionWait, Why: d.why,
		Zone: v.Zone, Size: v.Size << 30, Type: v.Type, Encrypted: v.Encrypted, Cloud: v.State,
		Format: filesystem(v.Tags[TagFormat]),
	}
	if d.take {
		i.Decision = volume.DecisionTake
	}
	switch who := holder(v); {
	case who != "":
		i.State, i.Instance = volume.StateHeld, who
	case v.State == VolumeAvailable:
		i.State = volume.StateFree
	}
	if d.claim != nil {
		i.Claim = v.Tags[TagClaim]
		i.Holder, i.Epoch = d.claim.Node, d.claim.Epoch
	}
	return i
}

// Drop gives up every volume of the cluster whose device is on this machine: it unmounts and detaches them, and removes
// this machine's claims. It returns the volumes. Nothing may use them: if a process holds one, it has the lock, and
// Drop refuses. With dry it only returns what it would give up.
func (p *Provider) Drop(ctx context.Context, dry bool) ([]string, error) {
	if err := p.op.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer p.op.Release(1)
	if err := p.enter(ctx); err != nil {
		return nil, err
	}
	defer p.leave()
	devices, err := p.host.Devices()
	if err != nil {
		return nil, err
	}
	return p.dropAll(ctx, devices, dry, func(Volume) bool { return true })
}

// dropAll drops the chosen volumes. The caller has the provider's turn and the machine's lock. A volume that cannot be
// dropped does not keep the others.
func (p *Provider) dropAll(ctx context.Context, devices map[string]string, dry bool, chosen func(Volume) bool) (
	dropped []string, err error) {
	volumes, err := p.seen.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range volumes {
		if devices[v.ID] == "" || !chosen(v) || err != nil && ctx.Err() != nil {
			continue
		}
		if !dry {
			if e := p.drop(ctx, v, devices[v.ID]); e != nil {
				err = errors.Join(err, fmt.Errorf("release %s: %w", v.ID, e))
				continue
			}
		}
		dropped = append(dropped, v.ID)
	}
	return dropped, err
}

// drop unmounts and detaches a volume that this process does not hold.
func (p *Provider) drop(ctx context.Context, v Volume, device string) error {
	if err := p.requests.unmountAll(ctx, device); err != nil {
		return err
	}
	c := newClaim(p, v.ID, volume.Identity{})
	if t, err := p.cfg.claim(v); err == nil && t.Instance == p.me.Instance {
		c.tag = t
	}
	return c.drop(ctx)
}
