package ebs

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// seizeWithin is how long after EC2 has said that an instance is stopped the detach may still be sent. What
// protects the volume if the instance starts in that very moment is that its node lets its claim settle
// first.
const seizeWithin = 3 * time.Second

// settleStopped is the shortest that the settling may then be: it must outlast seizeWithin and the request.
const settleStopped = 5 * time.Second

// seize detaches a volume from a stopped instance, which only the configuration takeover: stopped allows, and
// returns it once it is free. An instance that can hibernate is never taken for stopped: it may come back with
// etcd in its memory. The detach is not forced.
func (p *Provider) seize(ctx context.Context, want volume.Want, judged []verdict) (Volume, bool, error) {
	var ids []string
	holders := map[string]verdict{}
	for _, j := range judged {
		if who := holder(j.Volume); who != "" && who != "AWS" && who != p.me.Instance && j.fit {
			ids = append(ids, who)
			holders[who] = j
		}
	}
	if len(ids) == 0 || p.isTagless() {
		return Volume{}, false, nil
	}
	instances, err := p.cloud.Instances(ctx, ids)
	if err != nil {
		return Volume{}, false, fmt.Errorf("ask whether the holders of the volumes are stopped: %w", err)
	}
	for _, i := range instances {
		j, ok := holders[i.ID]
		if !ok || !p.stoppedLong(i) {
			continue
		}
		return p.seizeFrom(ctx, want, j, i)
	}
	return Volume{}, false, nil
}

// stoppedLong reports whether an instance has been seen stopped, and nothing else, for TakeoverAfter.
func (p *Provider) stoppedLong(i Instance) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sights[i.ID]; s.text != i.State {
		p.sights[i.ID] = sight{i.State, time.Now()}
	}
	return i.State == InstanceStopped && !i.Hibernate && time.Since(p.sights[i.ID].since) >= p.cfg.TakeoverAfter
}

func (p *Provider) seizeFrom(ctx context.Context, want volume.Want, j verdict, i Instance) (Volume, bool, error) {
	p.log.Warn("taking over the volume of a stopped instance", zap.String("volume", j.ID), zap.String("slot", j.slot), zap.String("instance", i.ID))
	c := p.newClaim(want, j.Volume)
	if err := p.declare(ctx, c); err != nil {
		return Volume{}, false, err
	}
	asked := time.Now()
	now, err := p.cloud.Instances(ctx, []string{i.ID})
	if err != nil || len(now) != 1 || now[0].State != InstanceStopped {
		return Volume{}, false, none("instance %s, which holds %s, is not known to be stopped any more", i.ID, j.ID)
	}
	if time.Since(asked) > seizeWithin {
		return Volume{}, false, none("EC2 took too long to say whether %s is stopped", i.ID)
	}
	p.step("before-seize")
	if err := p.cloud.Detach(ctx, j.ID, i.ID); err != nil {
		p.postpone(j.ID, setback)
		return Volume{}, false, fmt.Errorf("detach %s from stopped instance %s: %w%s", j.ID, i.ID, err, cure(MeaningOf(err)))
	}
	for last := time.Now().Add(releaseWait); time.Now().Before(last); {
		v, ok, err := p.one(ctx, j.ID)
		if err == nil && ok && holder(v) == "" && v.State == VolumeAvailable {
			return v, true, nil
		}
		if err := pause(ctx, releaseLook); err != nil {
			return Volume{}, false, err
		}
	}
	return Volume{}, false, none("%s was detached from stopped instance %s, and is not free yet", j.ID, i.ID)
}
