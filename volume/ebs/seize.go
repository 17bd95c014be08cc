package ebs

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// seizeWithin is how long the detach may still be sent after EC2 has said that an instance is stopped. If the instance
// starts at that moment, the volume is protected because its node lets its claim settle first.
const seizeWithin = 3 * time.Second

// settleStopped is the least settling time with takeover: stopped. It must be longer than seizeWithin and the request.
const settleStopped = 5 * time.Second

// seize detaches a volume from a stopped instance and returns it once it is free. Only the configuration takeover:
// stopped allows it. An instance that can hibernate never counts as stopped, because it may come back with etcd in its
// memory. The detach is not forced.
func (a *claimAttempt) seize(ctx context.Context, judged []verdict) (Volume, bool, error) {
	var ids []string
	holders := map[string]verdict{}
	for _, j := range judged {
		if who := holder(j.Volume); who != "" && who != "AWS" && who != a.me.Instance && j.fit {
			ids = append(ids, who)
			holders[who] = j
		}
	}
	if len(ids) == 0 || a.claims.isDenied() {
		return Volume{}, false, nil
	}
	instances, err := a.cloud.Instances(ctx, ids)
	if err != nil {
		return Volume{}, false, fmt.Errorf("ask whether the holders of the volumes are stopped: %w", err)
	}
	for _, i := range instances {
		j, ok := holders[i.ID]
		if !ok || !a.stoppedLong(i) {
			continue
		}
		return a.seizeFrom(ctx, j, i)
	}
	return Volume{}, false, nil
}

// stoppedLong reports whether an instance has been seen only in the state stopped for TakeoverAfter.
func (a *claimAttempt) stoppedLong(i Instance) bool {
	since := a.seen.instance(i)
	return i.State == InstanceStopped && !i.Hibernate && time.Since(since) >= a.cfg.TakeoverAfter
}

func (a *claimAttempt) seizeFrom(ctx context.Context, j verdict, i Instance) (Volume, bool, error) {
	a.log.Warn("taking over the volume of a stopped instance", zap.String("volume", j.ID), zap.String("slot", j.slot),
		zap.String("instance", i.ID))
	a.c = a.newClaim(j.Volume)
	if err := a.declare(ctx); err != nil {
		return Volume{}, false, err
	}
	asked := time.Now()
	now, err := a.cloud.Instances(ctx, []string{i.ID})
	if err != nil || len(now) != 1 || now[0].State != InstanceStopped {
		return Volume{}, false, none("instance %s, which holds %s, may not be stopped any more", i.ID, j.ID)
	}
	if time.Since(asked) > seizeWithin {
		return Volume{}, false, none("EC2 took too long to say whether %s is stopped", i.ID)
	}
	a.step("before-seize")
	if err := a.cloud.Detach(ctx, j.ID, i.ID); err != nil {
		a.setbacks.postpone(j.ID, setback)
		return Volume{}, false, fmt.Errorf("detach %s from stopped instance %s: %w%s", j.ID, i.ID, err, cure(MeaningOf(err)))
	}
	for last := time.Now().Add(releaseWait); time.Now().Before(last); {
		v, ok, err := a.one(ctx, j.ID)
		if err == nil && ok && holder(v) == "" && v.State == VolumeAvailable {
			return v, true, nil
		}
		if err := pause(ctx, releaseLook); err != nil {
			return Volume{}, false, err
		}
	}
	return Volume{}, false, none("%s was detached from stopped instance %s, and is not free yet", j.ID, i.ID)
}
