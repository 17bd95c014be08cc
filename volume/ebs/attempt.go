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
// goroutine that has the provider's turn. The steps follow in the order in which they are taken; present.go has what is
// done with a volume that is here already, choose.go the choice, seize.go the takeover, and prepare.go what is done on
// the device itself.
type claimAttempt struct {
	*Provider
	want    volume.Want
	devices map[string]string // of this machine, by volume
	volumes []Volume          // of the cluster
	open    string            // the volume whose attachment is not settled; "" for none
	c       *claim            // on the volume that was chosen
	adopted []string          // data of another program's etcd on it, which has no identity yet
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

// take is steps 3 to 9 for a free volume: intent and its settling, the lock, and what is done with the device.
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
