package ebs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
)

// zombie is how long a request without an answer may still be executed: EC2 refuses one whose signature is
// older (RequestExpired).
const zombie = 15 * time.Minute

// requests are what this machine asks EC2 to do to volumes, and the journal of their outcome.
type requests struct {
	*site
	status   *status
	seen     *scanner
	setbacks *setbacks
}

// journal is what this machine remembers. What another instance wrote, of which this one is a copy, is not
// about this machine.
func (r *requests) journal() (Journal, error) {
	j, err := r.host.Memory.Journal()
	if err != nil {
		return Journal{}, err
	}
	if j.Instance != r.me.Instance {
		j = Journal{}
	}
	j.Version, j.Instance = 1, r.me.Instance
	j.Attaching, j.Detaching = maps.Clone(j.Attaching), maps.Clone(j.Detaching)
	if j.Attaching == nil {
		j.Attaching = map[string]time.Time{}
	}
	if j.Detaching == nil {
		j.Detaching = map[string]time.Time{}
	}
	return j, nil
}

// remember changes the journal, durably.
func (r *requests) remember(change func(*Journal)) error {
	j, err := r.journal()
	if err != nil {
		return err
	}
	change(&j)
	if err := r.host.Memory.Remember(j); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

// detach requests the end of this instance's attachment of a volume, which must not be mounted. The request is
// journaled before it is sent: if executed late, it would hit the next attachment just the same. nil means that EC2 has
// accepted it, or that there is no attachment.
func (r *requests) detach(ctx context.Context, vol string) error {
	var before time.Time // of an earlier request without an answer
	var known bool       // there was one before, which may have been accepted
	err := r.remember(func(j *Journal) {
		before, known = j.Detaching[vol]
		j.Detaching[vol] = time.Now()
		delete(j.Attaching, vol)
		j.forget(vol)
	})
	if err != nil {
		return err
	}
	r.step("before-detach")
	err = r.cloud.Detach(ctx, vol, r.me.Instance)
	r.step("after-detach")
	m := MeaningOf(err)
	if err != nil && m == Uncertain {
		return fmt.Errorf("detach %s: %w: until it is known what became of it, %s is not used on this machine, for at most "+
			"%s",
			vol, err, vol, zombie)
	}
	none := err != nil && (m == NotNow || m == NotFound) // there is no attachment that could be ended
	if e := r.remember(func(j *Journal) {
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

// forget drops what is known of a volume only as long as it stays attached to this machine.
func (j *Journal) forget(vol string) {
	if j.Held != nil && j.Held.Volume == vol {
		j.Held = nil
	}
	if j.Formatting != nil && j.Formatting.Volume == vol {
		j.Formatting = nil
	}
}

// settle finds out what became of the requests in the journal, as far as that can be known now, and returns
// the volume whose attachment is not settled; "" for none.
func (r *requests) settle(ctx context.Context, devices map[string]string) (open string, err error) {
	j, err := r.journal()
	if err != nil {
		return "", err
	}
	for _, vol := range sortedKeys(j.Detaching) {
		r.status.failure("detach "+vol, r.settleDetach(ctx, vol, j.Detaching[vol], devices[vol]))
	}
	for _, vol := range sortedKeys(j.Attaching) {
		switch {
		case devices[vol] != "": // it came true: present takes it from here
		case time.Since(j.Attaching[vol]) < unsettled:
			open = vol
		default:
			if err := r.remember(func(j *Journal) { delete(j.Attaching, vol) }); err != nil {
				return "", err
			}
		}
	}
	return open, nil
}

// settleDetach completes a detach: sent is when the last request without an answer was sent, the zero time if there is
// none.
func (r *requests) settleDetach(ctx context.Context, vol string, sent time.Time, device string) error {
	old := !sent.IsZero() && time.Since(sent) > zombie
	if device == "" {
		if sent.IsZero() || old {
			return r.remember(func(j *Journal) { delete(j.Detaching, vol) })
		}
		return nil
	}
	if old {
		if err := r.remember(func(j *Journal) { delete(j.Detaching, vol) }); err != nil {
			return err
		}
	}
	if until, _ := r.setbacks.of(vol); time.Now().Before(until) {
		return nil
	}
	if err := r.unmountAll(ctx, device); err != nil {
		return err
	}
	r.setbacks.postpone(vol, r.cfg.ScanEvery) // a detach takes its time
	return r.detach(ctx, vol)
}

// shed detaches a volume of the cluster that this machine has beside the one it uses.
func (r *requests) shed(ctx context.Context, vol, device, keep string) {
	err := r.unmountAll(ctx, device)
	if err == nil {
		r.log.Warn("detaching a second volume of the cluster, which is not in use", zap.String("volume", vol),
			zap.String("kept", keep))
		err = r.detach(ctx, vol)
	}
	if err != nil {
		err = fmt.Errorf("this instance has a second volume of the cluster, %s, which could not be detached: %w", vol, err)
	}
	r.status.failure("second "+vol, err)
}

// strays detaches what EC2 has long said to be attached to this machine although no device has come, as it may
// be after an unanswered request: nobody could have the volume as long as it lasts.
func (r *requests) strays(ctx context.Context, rules rules, volumes []Volume, devices map[string]string) error {
	j, err := r.journal()
	if err != nil {
		return err
	}
	for _, v := range volumes {
		stray := devices[v.ID] == "" && rules.unfit(v) == "" && time.Since(j.Attaching[v.ID]) >= unsettled &&
			slices.ContainsFunc(v.Attachments, func(a Attachment) bool {
				return a.Instance == r.me.Instance && a.State != Detaching && a.State != Detached
			})
		if !r.seen.since("stray "+v.ID, stray, stuck) {
			continue
		}
		r.seen.since("stray "+v.ID, false, stuck) // a detach takes its time
		r.log.Warn("detaching a volume that EC2 says is attached here, but whose device has not come",
			zap.String("volume", v.ID))
		if err := r.detach(ctx, v.ID); err != nil {
			r.log.Warn("it could not be detached yet", zap.String("volume", v.ID), zap.Error(err))
		}
	}
	return nil
}

// unmountAll unmounts what an earlier life of this process has left mounted. A mount elsewhere is not ours.
func (r *requests) unmountAll(ctx context.Context, device string) error {
	dirs, err := r.host.Disks.Mounted(device)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if !r.ours(dir) {
			return fmt.Errorf("%s is mounted at %s, which is not below %s: unmount it there", device, dir, r.cfg.MountRoot)
		}
		if err := r.host.Disks.Unmount(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// refused handles an AttachVolume that certainly was not executed. An earlier one may have been, and stays in the
// journal.
func (r *requests) refused(vol string, m Meaning, cause error, earlier bool) error {
	if !earlier {
		if err := r.remember(func(j *Journal) { delete(j.Attaching, vol) }); err != nil {
			return errors.Join(cause, err)
		}
	}
	r.seen.again()
	switch m {
	case InUse, NotNow, NotFound, Throttled:
		r.setbacks.postpone(vol, r.cfg.Settle)
		return none("%s could not be attached: %v", vol, cause)
	}
	return r.setbacks.fail(vol, fmt.Errorf("attach %s to %s: %w%s", vol, r.me.Instance, cause, cure(m)))
}

// giveUp ends an attachment that brings no device. It may be stuck, or EC2 may have taken it back, as it does
// when it cannot decrypt the volume. It is detached, so that it does not come true later.
func (r *requests) giveUp(ctx context.Context, vol, name string, back bool) error {
	r.setbacks.spoil(name)
	r.seen.again()
	if err := r.detach(ctx, vol); err != nil {
		r.log.Warn("an attachment that brought no device could not be undone yet", zap.String("volume", vol), zap.Error(err))
	}
	if back {
		return r.setbacks.fail(vol, fmt.Errorf("attach %s: EC2 accepted the request and then took it back: if the volume is "+
			"encrypted, look whether its KMS key is enabled and whether this instance's role may use it (kms:CreateGrant, "+
			"kms:Decrypt)", vol))
	}
	return r.setbacks.fail(vol, fmt.Errorf("attach %s: no device appeared within %s; it is detached, and tried again "+
		"under another device name", vol, stuck))
}

// cure says what an operator can do about a refusal.
func cure(m Meaning) string {
	switch m {
	case Denied:
		return " (`holdfast volume doctor` names the permission that is missing)"
	case NoRoom:
		return " (detach what this instance does not need, or take a larger instance type)"
	case Misplaced:
		return " (volume and instance must be in one zone)"
	case Invalid:
		return " (see `holdfast volume doctor`)"
	}
	return ""
}
