package ebs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

const (
	blindAfter = 5 * time.Second // that EC2 may take to list the volumes while the one that was held last is here
	unsettled  = 2 * time.Minute // after this an AttachVolume without an answer blocks no other volume
	// an attachment that has not brought the device by then is given up (as in aws-ebs-csi-driver)
	stuck      = 90 * time.Second
	deviceLook = 250 * time.Millisecond // between looks for the device
	cloudLook  = 5 * time.Second        // between looks at what EC2 says of it, and what one may take
	setback    = time.Minute            // before a volume is tried again that could not be attached
	patience   = 3                      // looks at EC2 in a row that must agree
)

// claimAttempt is one run of the protocol, from the devices of this machine to a held volume. It is used once, by a
// goroutine that has the provider's turn. The steps follow in the order in which they are taken; choose.go has the
// choice, seize.go the takeover, and prepare.go what is done on the device itself.
type claimAttempt struct {
	*Provider
	want    volume.Want
	devices map[string]string // of this machine, by volume
	volumes []Volume          // of the cluster
	open    string            // the volume whose attachment is not settled; "" for none
	c       *claim            // on the volume that was chosen
	adopted []string          // data of another program's etcd on it, which has no identity yet
}

// run is the protocol.
func (a *claimAttempt) run(ctx context.Context) (*claim, error) {
	last, err := a.local(ctx)
	if err != nil {
		return nil, err
	}
	switch err := a.scan(ctx, last); {
	case err != nil && last != nil && ctx.Err() == nil:
		return a.adoptBlind(ctx, *last, err)
	case err != nil:
		return nil, err
	}
	if err := a.settle(ctx); err != nil {
		return nil, err
	}
	v, here, err := a.present(ctx)
	switch {
	case err != nil:
		return nil, err
	case here:
		return a.adopt(ctx, v)
	case a.open != "":
		return a.finish(ctx)
	}
	if v, err = a.choose(ctx); err != nil {
		return nil, err
	}
	return a.take(ctx, v)
}

// take claims a free volume: intent and its settling, the lock, and what is done with the device.
func (a *claimAttempt) take(ctx context.Context, v Volume) (*claim, error) {
	a.c = a.newClaim(v)
	if err := a.declare(ctx); err != nil {
		return nil, err
	}
	device, err := a.attach(ctx)
	if err != nil {
		return nil, err
	}
	return a.use(ctx, device)
}

// local is step 0: who this is, this machine's lock, whether it stays, and its devices. It returns the volume that this
// machine held last if its device is here and it may be adopted without asking EC2; nil if not.
func (a *claimAttempt) local(ctx context.Context) (last *Holding, err error) {
	if err := errors.Join(ctx.Err(), a.want.Validate()); err != nil {
		return nil, err
	}
	if err := a.enter(ctx); err != nil {
		return nil, err
	}
	if a.devices, err = a.host.Devices(); err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	if why := a.outlook.look(ctx).Leaves(); why != "" {
		return nil, a.vacate(ctx, why)
	}
	j, err := a.requests.journal()
	if err != nil || j.Held == nil || a.cfg.Takeover == takeoverStopped {
		return nil, nil
	}
	_, leaving := j.Detaching[j.Held.Volume]
	if a.devices[j.Held.Volume] == "" || leaving || !slices.Contains(a.want.Slots, j.Held.Slot) {
		return nil, nil
	}
	return j.Held, nil
}

// vacate is all that an instance does that is about to go: it claims no volume, and gives up what it has still, as
// after a detach that failed, or where a process ended under the notice. What it has is in the journal, or bears its
// claim: another program's volume stays. An old notice gives nothing up: an instance that comes back from hibernation
// knows one, and stays. The error says in any case why nothing is claimed.
func (a *claimAttempt) vacate(ctx context.Context, why string) error {
	why += ": it claims no volume"
	a.status.at(stateStandby, "", why)
	j, err := a.requests.journal()
	if err != nil {
		return fmt.Errorf("%s, and what is attached to it cannot be given back: %w", why, err)
	}
	own := len(a.devices) < 2 && j.Held == nil && len(j.Detaching) == 0 // its disk alone is here: EC2 need not be asked
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
		a.log.Warn("gave volumes back that were attached still", zap.Strings("volumes", dropped), zap.String("why", why))
	}
	if err != nil {
		return fmt.Errorf("%s, and what is attached to it could not be given back yet: %w", why, err)
	}
	return none("%s", why)
}

// scan is step 1: the cluster's volumes. EC2 gets little time to answer while there is a volume that needs no answer.
func (a *claimAttempt) scan(ctx context.Context, last *Holding) (err error) {
	if last != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, blindAfter)
		defer cancel()
	}
	a.volumes, err = a.seen.scan(ctx, a.devices)
	return err
}

// settle is what comes first: the outcome of earlier requests, the volumes that are here and not in the list, and those
// that are in the list and not here.
func (a *claimAttempt) settle(ctx context.Context) (err error) {
	if a.open, err = a.requests.settle(ctx, a.devices); err != nil {
		return err
	}
	if err := a.recall(ctx); err != nil {
		return err
	}
	return a.requests.strays(ctx, a.rules(a.want), a.volumes, a.devices)
}

// recall adds to what EC2 lists the volumes that are known to be here and are not in the list, which may be old:
// a second one must not be mounted beside one that a former life of this process has left mounted.
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
		a.seen.again()
		v, ok, err := a.one(ctx, id)
		switch {
		case err != nil || !ok:
			return none("EC2 does not show %s, which this machine has used and whose device is here", id)
		case a.cfg.selects(v):
			a.volumes = append(slices.Clone(a.volumes), v)
		case len(dirs) > 0:
			a.log.Warn("unmounting a volume that is not the cluster's any more", zap.String("volume", id))
			if err := a.requests.unmountAll(ctx, a.devices[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// present returns the volume of the cluster whose device is here and is to be adopted, if there is one. This
// machine may have come to several; then the others, which are not mounted, are detached.
func (a *claimAttempt) present(ctx context.Context) (best Volume, ok bool, err error) {
	j, err := a.requests.journal()
	if err != nil {
		return Volume{}, false, err
	}
	rules := a.rules(a.want)
	var here []Volume
	for _, v := range a.volumes {
		if a.devices[v.ID] == "" {
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

// adopt takes over a volume whose device is here. With takeover of stopped instances another node may be about to
// detach it, because it saw this one stopped: then the claim must settle first.
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
		now, ok, err := a.one(ctx, v.ID) // a detach that was accepted may take longer than the settling
		if err != nil {
			return nil, fmt.Errorf("ask whether %s is being detached: %w", v.ID, err)
		}
		if devices[v.ID] != device || !ok || !a.attachedHere(now) {
			a.seen.again()
			return nil, none("%s is not attached to this instance to stay: it was seen stopped, and another node may be taking "+
				"the volume over", v.ID)
		}
	}
	return a.use(ctx, device)
}

// attachedHere reports whether EC2 says that a volume is attached to this instance, and not on its way in or out.
func (a *claimAttempt) attachedHere(v Volume) bool {
	return slices.ContainsFunc(v.Attachments,
		func(at Attachment) bool { return at.Instance == a.me.Instance && at.State == Attached })
}

// adoptBlind adopts the volume that was held last although EC2 does not answer: an outage of its API must not keep a
// member down whose disk is here.
func (a *claimAttempt) adoptBlind(ctx context.Context, h Holding, cause error) (*claim, error) {
	a.c = newClaim(a.Provider, h.Volume, volume.Identity{Cluster: a.want.Cluster, Slot: h.Slot, Volume: h.Volume})
	a.c.rules = a.rules(a.want)
	a.c.blind, a.c.unsaid = true, true
	a.c.tag = a.newTag(h.Epoch + 1)
	a.log.Warn("EC2 cannot be asked; adopting the volume that this machine held last, whose device is here",
		zap.String("volume", h.Volume), zap.String("slot", h.Slot), zap.Error(cause))
	return a.use(ctx, a.devices[h.Volume])
}

// finish continues with the volume whose attachment is not settled: nothing else may be tried meanwhile, because the
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
			a.log.Info("asking again for an attachment of which nothing was heard", zap.String("volume", a.open))
			return a.take(ctx, v)
		}
	}
	a.status.at(stateStandby, a.open, "an attachment is not settled")
	return nil, none("an attachment of %s was asked for, and it is not known yet what became of it; nothing else is "+
		"tried for at most %s", a.open, unsettled)
}

// declare is steps 3 and 4: it writes the claim and makes sure that it stays. The last writer wins, so a node that
// reads its own claim back after the others had time to write theirs has most likely won. That saves the others a
// useless attachment; it excludes nobody.
func (a *claimAttempt) declare(ctx context.Context) error {
	c := a.c
	a.status.at(stateClaiming, c.vol, "writes its claim and lets it settle")
	a.step("before-claim-tag")
	if err := c.write(ctx); err != nil {
		return err
	}
	a.step("after-claim-tag")
	tagless := a.claims.isDenied()
	if tagless && a.cfg.Takeover != takeoverStopped { // else the wait is also for who has seen us stopped
		return nil
	}
	if err := pause(ctx, a.cfg.Settle+time.Duration(a.random(int64(a.cfg.Settle/2+1)))); err != nil || tagless {
		return err
	}
	last := time.Now().Add(5*a.cfg.Settle + cloudLook)
	for seen := 0; ; {
		text, err := a.claims.Read(ctx, c.vol)
		switch {
		case err != nil && MeaningOf(err) == Denied:
			return err
		case err == nil && text == c.tag.String():
			if seen++; seen == 2 {
				return nil
			}
		default:
			seen = 0
		}
		if time.Now().After(last) {
			a.setbacks.postpone(c.vol, a.cfg.Settle)
			a.seen.again()
			return none("another node's claim of %s came after ours", c.vol)
		}
		if err := pause(ctx, a.jitter(a.cfg.Settle/5+time.Millisecond)); err != nil {
			return err
		}
	}
}

// attach is step 5: it asks for the attachment and waits for the device. The request is journaled before it is sent,
// and stays so until it is known not to be executed, or the device is used.
func (a *claimAttempt) attach(ctx context.Context) (device string, err error) {
	vol := a.c.vol
	a.status.at(stateAttaching, vol, "asks for the attachment")
	j, err := a.requests.journal()
	if err != nil {
		return "", err
	}
	_, earlier := j.Attaching[vol] // of that it is not known what became
	for _, name := range a.setbacks.freeNames() {
		if err := a.requests.remember(func(j *Journal) {
			j.Attaching[vol] = time.Now()
			j.forget(vol)
		}); err != nil {
			return "", err
		}
		a.step("before-attach")
		err := a.cloud.Attach(ctx, vol, a.me.Instance, name)
		a.step("after-attach")
		switch m := MeaningOf(err); {
		case err == nil:
			return a.await(ctx, name, true)
		case m == NameTaken:
			a.setbacks.spoil(name)
		case m == Uncertain, m == InUse && earlier: // it may be ourselves who use it
			a.log.Warn("an attachment was asked for, and it is not known what became of it", zap.String("volume", vol),
				zap.Error(err))
			return a.await(ctx, name, false)
		default:
			return "", a.requests.refused(vol, m, err, earlier)
		}
	}
	return "", a.requests.refused(vol, NameTaken, errors.New("every device name is in use"), earlier)
}

// await is step 6: it waits until the device with the volume's serial is here, which alone proves the attachment. What
// EC2 says meanwhile only tells when to stop waiting. sure: EC2 has accepted the request.
func (a *claimAttempt) await(ctx context.Context, name string, sure bool) (string, error) {
	vol := a.c.vol
	a.status.at(stateAttaching, vol, "waits for the device")
	last, looked := time.Now().Add(stuck), time.Now()
	free, others := 0, 0 // looks in a row that showed the volume free, or with another instance
	for {
		devices, err := a.host.Devices()
		if err != nil {
			return "", fmt.Errorf("look for the device of %s: %w", vol, err)
		}
		if device, ok := devices[vol]; ok {
			a.step("device")
			return device, nil
		}
		if time.Since(looked) >= cloudLook {
			looked = time.Now()
			if v, ok, err := a.one(ctx, vol); err == nil && ok {
				who := holder(v)
				free, others = next(free, who == "" && v.State == VolumeAvailable), next(others, who != "" && who != a.me.Instance)
			}
		}
		switch gone := time.Now().After(last); {
		case sure && (free == patience || gone):
			return "", a.requests.giveUp(ctx, vol, name, free == patience)
		case !sure && (free == patience || others == patience || gone):
			a.setbacks.postpone(vol, a.cfg.Settle)
			a.seen.again()
			return "", none("an attachment of %s was asked for, and no answer came; nothing else is tried until it is known "+
				"what became of it, for at most %s", vol, unsettled)
		}
		if err := pause(ctx, deviceLook); err != nil {
			return "", err
		}
	}
}

func next(count int, again bool) int {
	if again {
		return count + 1
	}
	return 0
}
