package ebs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
)

// detach asks for the end of this instance's attachment of a volume, which must not be mounted. The request is
// journaled before it is sent: executed late, it would hit the next attachment just the same. nil means that
// EC2 has accepted it, or that there is no attachment.
func (p *Provider) detach(ctx context.Context, vol string) error {
	var before time.Time // of an earlier request without an answer
	var known bool       // there was one before, which may have been accepted
	err := p.remember(func(j *Journal) {
		before, known = j.Detaching[vol]
		j.Detaching[vol] = time.Now()
		delete(j.Attaching, vol)
		j.forget(vol)
	})
	if err != nil {
		return err
	}
	p.step("before-detach")
	err = p.cloud.Detach(ctx, vol, p.me.Instance)
	p.step("after-detach")
	m := MeaningOf(err)
	if err != nil && m == Uncertain {
		return fmt.Errorf("detach %s: %w: until it is known what became of it, %s is not used on this machine, for at most %s", vol, err, vol, zombie)
	}
	none := err != nil && (m == NotNow || m == NotFound) // there is no attachment that could be ended
	if e := p.remember(func(j *Journal) {
		switch {
		case known && (err != nil || !before.IsZero()):
			j.Detaching[vol] = before // that this one was refused may well be because that one is being executed
		case err == nil:
			j.Detaching[vol] = time.Time{} // accepted: only the device has to go
		default:
			delete(j.Detaching, vol)
		}
	}); e != nil {
		return e
	}
	if err != nil && !none {
		return fmt.Errorf("detach %s: %w%s", vol, err, cure(m))
	}
	return nil
}

// settle finds out what became of the requests in the journal, as far as that can be known now, and returns
// the volume whose attachment is not settled; "" for none.
func (p *Provider) settle(ctx context.Context, devices map[string]string) (open string, err error) {
	j, err := p.journal()
	if err != nil {
		return "", err
	}
	for _, vol := range sortedKeys(j.Detaching) {
		if err := p.settleDetach(ctx, vol, j.Detaching[vol], devices[vol]); err != nil {
			p.problem("detach "+vol, err.Error())
		} else {
			p.problem("detach "+vol, "")
		}
	}
	for _, vol := range sortedKeys(j.Attaching) {
		switch {
		case devices[vol] != "": // it came true: present takes it from here
		case time.Since(j.Attaching[vol]) < unsettled:
			open = vol
		default:
			if err := p.remember(func(j *Journal) { delete(j.Attaching, vol) }); err != nil {
				return "", err
			}
		}
	}
	return open, nil
}

// settleDetach brings a detach to its end: sent is when the last request without an answer was sent, the zero
// time when there is none.
func (p *Provider) settleDetach(ctx context.Context, vol string, sent time.Time, device string) error {
	old := !sent.IsZero() && time.Since(sent) > zombie
	if device == "" {
		if sent.IsZero() || old {
			return p.remember(func(j *Journal) { delete(j.Detaching, vol) })
		}
		return nil
	}
	if old {
		if err := p.remember(func(j *Journal) { delete(j.Detaching, vol) }); err != nil {
			return err
		}
	}
	p.mu.Lock()
	soon := time.Now().Before(p.avoid[vol])
	p.mu.Unlock()
	if soon {
		return nil
	}
	if err := p.unmountAll(ctx, device); err != nil {
		return err
	}
	p.postpone(vol, p.cfg.ScanEvery) // a detach takes its time
	return p.detach(ctx, vol)
}

// strays detaches what EC2 has long said to be attached to this machine although no device has come, as it may
// be after a request of which nothing was heard any more: nobody could have the volume as long as it lasts.
func (p *Provider) strays(ctx context.Context, volumes []Volume, devices map[string]string) error {
	j, err := p.journal()
	if err != nil {
		return err
	}
	for _, v := range volumes {
		stray := devices[v.ID] == "" && p.unfit(p.want, v) == "" && time.Since(j.Attaching[v.ID]) >= unsettled &&
			slices.ContainsFunc(v.Attachments, func(a Attachment) bool {
				return a.Instance == p.me.Instance && a.State != Detaching && a.State != Detached
			})
		if !p.since("stray "+v.ID, stray, stuck) {
			continue
		}
		p.since("stray "+v.ID, false, stuck) // a detach takes its time
		p.log.Warn("detaching a volume that EC2 says is attached here, but whose device has not come", zap.String("volume", v.ID))
		if err := p.detach(ctx, v.ID); err != nil {
			p.log.Warn("it could not be detached yet", zap.String("volume", v.ID), zap.Error(err))
		}
	}
	return nil
}

// since reports whether something has been so at every look for d at least.
func (p *Provider) since(what string, so bool, d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.sights[what]
	switch {
	case !so:
		delete(p.sights, what)
	case !known:
		p.sights[what] = sight{since: time.Now()}
	}
	return so && known && time.Since(s.since) >= d
}

// unmountAll unmounts what a former life of this process has left mounted. A mount elsewhere is not ours.
func (p *Provider) unmountAll(ctx context.Context, device string) error {
	dirs, err := p.host.Mounted(device)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if !p.ours(dir) {
			return fmt.Errorf("%s is mounted at %s, which is not below %s: unmount it there", device, dir, p.cfg.MountRoot)
		}
		if err := p.host.Unmount(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// finish goes on with the volume whose attachment is not settled: nothing else may be tried meanwhile, for the
// late request would give this machine a second volume.
func (p *Provider) finish(ctx context.Context, want volume.Want, vol string, volumes []Volume) (*claim, error) {
	for _, v := range volumes {
		if v.ID != vol {
			continue
		}
		switch who := holder(v); {
		case who == p.me.Instance:
			device, err := p.await(ctx, vol, "", false)
			if err != nil {
				return nil, err
			}
			return p.use(ctx, p.newClaim(want, v), device)
		case who == "" && p.judge(want, v, volumes).take:
			p.log.Info("asking again for an attachment of which nothing was heard", zap.String("volume", vol))
			return p.take(ctx, want, v)
		}
	}
	p.at(StateStandby, vol, "an attachment is not settled")
	return nil, none("an attachment of %s was asked for, and it is not known yet what became of it; nothing else is tried for at most %s", vol, unsettled)
}
