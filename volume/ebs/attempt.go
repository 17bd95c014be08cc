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
	blindAfter = 5 * time.Second // how long EC2 may take to list the volumes if the last held volume is here
	unsettled  = 2 * time.Minute // after this, an AttachVolume without an answer blocks no other volume
	// An attachment whose device has not come by then is given up (as in aws-ebs-csi-driver).
	stuck      = 90 * time.Second
	deviceLook = 250 * time.Millisecond // between looks for the device
	cloudLook  = 5 * time.Second        // between looks at EC2, and the limit for one of them
	setback    = time.Minute            // before a volume that could not be attached is tried again
	patience   = 3                      // consecutive answers of EC2 that must agree
)

// claimAttempt is one run of the protocol, from the devices of this machine to a held volume. It is used once, by a
// goroutine that has the provider's turn. The steps are in the order in which they are taken. present.go has what is
// done with a volume that is already here, choose.go the choice, seize.go the takeover, and prepare.go the work on the
// device.
type claimAttempt struct {
	*Provider
	want     volume.Want
	devices  map[string]string // of this machine, by volume
	volumes  []Volume          // of the cluster
	untagged []string          // of each volume here that was the cluster's and has lost its tags: what to tell
	open     string            // the volume whose attachment is not settled, or ""
	c        *claim            // on the chosen volume
	adopted  []string          // directories on it with another program's etcd data, while it has no identity
}

// run is the protocol: steps 0 and 1, then the volume that is here, or the one whose attachment is not settled, or a
// free one.
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

// take does steps 3 to 9 for a free volume: it writes the claim, attaches the volume and prepares the device.
func (a *claimAttempt) take(ctx context.Context, v Volume) (*claim, error) {
	a.c = a.newClaim(v)
	if err := a.declare(ctx); err != nil {
		return nil, err
	}
	device, err := a.attach(ctx)
	if err != nil {
		if !errors.Is(err, volume.ErrNoneFree) { // it will fail again, and each new claim would keep the others waiting
			_ = a.claims.Remove(ctx, a.c.vol, a.c.tag.String())
			a.setbacks.fail(a.c.vol, err)
		}
		return nil, err
	}
	return a.use(ctx, device)
}

// local is step 0. It determines the instance, takes this machine's lock, checks that the instance stays, and lists its
// devices. It returns the volume that this machine held last if its device is here and it may be adopted without asking
// EC2, otherwise nil.
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

// scan is step 1: it lists the cluster's volumes. If last needs no answer of EC2, EC2 gets little time.
func (a *claimAttempt) scan(ctx context.Context, last *Holding) (err error) {
	if last != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, blindAfter)
		defer cancel()
	}
	a.volumes, err = a.seen.scan(ctx, a.devices)
	return err
}

// settle first settles earlier requests, then handles volumes that are here but not in the list, and volumes that are
// attached here according to the list but whose device is not here.
func (a *claimAttempt) settle(ctx context.Context) (err error) {
	if a.open, err = a.requests.settle(ctx, a.devices); err != nil {
		return err
	}
	if err := a.recall(ctx); err != nil {
		return err
	}
	return a.requests.strays(ctx, a.rules(a.want), a.volumes, a.devices)
}

// declare is steps 3 and 4: it writes the claim and checks that it stays. The last writer wins, so a node that reads
// its own claim back, after the others had time to write theirs, has most likely won. This saves the others a useless
// attachment. It does not exclude anyone.
func (a *claimAttempt) declare(ctx context.Context) error {
	c := a.c
	a.status.at(stateClaiming, c.vol, "writes its claim and lets it settle")
	a.step("before-claim-tag")
	if err := c.write(ctx); err != nil {
		return err
	}
	a.step("after-claim-tag")
	tagless := a.claims.isDenied()
	if tagless && a.cfg.Takeover != takeoverStopped { // otherwise wait for a node that has seen this instance stopped
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
			if err != nil {
				return none("the claim of %s could not be read back: %v", c.vol, err)
			}
			return none("another node's claim of %s came after ours", c.vol)
		}
		if err := pause(ctx, a.jitter(a.cfg.Settle/5+time.Millisecond)); err != nil {
			return err
		}
	}
}

// attach is step 5: it requests the attachment and waits for the device. The request is journaled before it is sent,
// and stays in the journal until it is known not to be executed, or the device is used.
func (a *claimAttempt) attach(ctx context.Context) (device string, err error) {
	vol := a.c.vol
	a.status.at(stateAttaching, vol, "requests the attachment")
	j, err := a.requests.journal()
	if err != nil {
		return "", err
	}
	_, earlier := j.Attaching[vol] // an earlier request whose outcome is unknown
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
		case m == Uncertain, m == InUse && earlier: // the volume may be in use by this instance
			a.log.Warn("requested an attachment whose outcome is unknown", zap.String("volume", vol),
				zap.Error(err))
			return a.await(ctx, name, false)
		default:
			return "", a.requests.refused(vol, m, err, earlier)
		}
	}
	return "", a.requests.refused(vol, NameTaken, errors.New("every device name is in use"), earlier)
}

// await is step 6: it waits until the device with the volume's serial is here. Only the device proves the attachment;
// EC2's answers only tell when to stop waiting. sure means that EC2 has accepted the request.
func (a *claimAttempt) await(ctx context.Context, name string, sure bool) (string, error) {
	vol := a.c.vol
	a.status.at(stateAttaching, vol, "waits for the device")
	last, looked := time.Now().Add(stuck), time.Now()
	free, others := 0, 0 // consecutive answers that showed the volume free, or with another instance
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
			return "", none("an attachment of %s was requested without an answer; nothing else is tried until its "+
				"outcome is known, for at most %s", vol, unsettled)
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
