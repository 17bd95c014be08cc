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

// zombie is how long a request without an answer may still be executed: EC2 refuses a request with an older signature
// (RequestExpired).
const zombie = 15 * time.Minute

// requests sends this machine's requests for volumes to EC2, and keeps the journal of their outcome.
type requests struct {
	*site
	status   *status
	seen     *scanner
	setbacks *setbacks

	known map[unanswered]time.Time // since when this process knows those of the journal
}

// unanswered is a request in the journal whose outcome is not known.
type unanswered struct {
	vol  string
	sent int64 // Unix time in ns
}

// age returns how long this process has known a request. Its time in the journal does not tell how old it is: the wall
// clock may have been set since. A request that is taken for older than it is may be executed on the next attachment.
func (r *requests) age(vol string, sent time.Time) time.Duration {
	if since, ok := r.known[unanswered{vol, sent.UnixNano()}]; ok {
		return time.Since(since)
	}
	return 0
}

// ages returns since when this process knows the requests in the journal.
func (r *requests) ages(j Journal) map[unanswered]time.Time {
	ages := map[unanswered]time.Time{}
	for _, all := range []map[string]time.Time{j.Attaching, j.Detaching} {
		for vol, sent := range all {
			q := unanswered{vol, sent.UnixNano()}
			if ages[q] = r.known[q]; ages[q].IsZero() {
				ages[q] = time.Now()
			}
		}
	}
	return ages
}

// journal returns this machine's journal. A journal of another instance, of which this machine is a copy, counts as
// empty.
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

// remember changes the journal durably.
func (r *requests) remember(change func(*Journal)) error {
	j, err := r.journal()
	if err != nil {
		return err
	}
	change(&j)
	if err := r.host.Memory.Remember(j); err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	maps.Copy(r.known, r.ages(j)) // one that is not in it for a moment is not forgotten
	return nil
}

// hold records the held volume. A full disk must not keep a member down: if the journal cannot be written, and has the
// volume from an earlier claim, that is enough, because the epoch is on the volume too.
func (r *requests) hold(h Holding) error {
	err := r.remember(func(j *Journal) {
		j.Held = &h
		delete(j.Attaching, h.Volume)
	})
	if err == nil {
		return nil
	}
	j, e := r.journal()
	if e != nil || j.Held == nil || j.Held.Volume != h.Volume || j.Held.Slot != h.Slot {
		return err
	}
	r.log.Warn("could not write the journal; continuing with what it has of an earlier claim of this volume",
		zap.String("volume", h.Volume), zap.Error(err))
	return nil
}

// detach requests the end of this instance's attachment of a volume, which must not be mounted. The request is
// journaled before it is sent: if it is executed late, it ends the next attachment too. nil means that EC2 has accepted
// the request, or that there is no attachment.
func (r *requests) detach(ctx context.Context, vol string) error {
	var before time.Time // when an earlier request without an answer was sent
	var known bool       // there was an earlier request, which may have been accepted
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
		return fmt.Errorf("detach %s: %w: until its outcome is known, %s is not used on this machine, for at most %s",
			vol, err, vol, zombie)
	}
	none := err != nil && (m == NotNow || m == NotFound) // there is no attachment to end
	if e := r.remember(func(j *Journal) {
		switch {
		case known && (err != nil || !before.IsZero()):
			j.Detaching[vol] = before // perhaps this request was only refused because the earlier one is being executed
		case err == nil:
			j.Detaching[vol] = time.Time{} // accepted: now only the device has to go
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

// forget drops what is only true while the volume stays attached to this machine.
func (j *Journal) forget(vol string) {
	if j.Held != nil && j.Held.Volume == vol {
		j.Held = nil
	}
	if j.Formatting != nil && j.Formatting.Volume == vol {
		j.Formatting = nil
	}
}

// settle determines the outcome of the requests in the journal, as far as it can be known now. It returns the volume
// whose attachment is not settled, or "".
func (r *requests) settle(ctx context.Context, devices map[string]string) (open string, err error) {
	j, err := r.journal()
	if err != nil {
		return "", err
	}
	r.known = r.ages(j)
	for _, vol := range sortedKeys(j.Detaching) {
		r.status.failure("detach "+vol, r.settleDetach(ctx, vol, j.Detaching[vol], devices[vol]))
	}
	for _, vol := range sortedKeys(j.Attaching) {
		switch {
		case devices[vol] != "": // it was executed: present handles the volume
		case r.age(vol, j.Attaching[vol]) < unsettled:
			open = vol
		default:
			if err := r.remember(func(j *Journal) { delete(j.Attaching, vol) }); err != nil {
				return "", err
			}
		}
	}
	return open, nil
}

// settleDetach completes a detach. sent is when the last request without an answer was sent, or the zero time.
func (r *requests) settleDetach(ctx context.Context, vol string, sent time.Time, device string) error {
	old := !sent.IsZero() && r.age(vol, sent) > zombie
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
	r.setbacks.postpone(vol, r.cfg.ScanEvery) // a detach takes some time
	return r.detach(ctx, vol)
}

// shed detaches a second volume of the cluster on this machine.
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

// strays detaches volumes that, according to EC2, have long been attached to this machine although no device has come,
// perhaps after an unanswered request. Nobody could have such a volume as long as it stays attached.
func (r *requests) strays(ctx context.Context, rules rules, volumes []Volume, devices map[string]string) error {
	j, err := r.journal()
	if err != nil {
		return err
	}
	for _, v := range volumes {
		sent, open := j.Attaching[v.ID]
		stray := devices[v.ID] == "" && rules.unfit(v) == "" && (!open || r.age(v.ID, sent) >= unsettled) &&
			slices.ContainsFunc(v.Attachments, func(a Attachment) bool {
				return a.Instance == r.me.Instance && a.State != Detaching && a.State != Detached
			})
		if !r.seen.since("stray "+v.ID, stray, stuck) {
			continue
		}
		r.seen.since("stray "+v.ID, false, stuck) // a detach takes some time
		r.log.Warn("detaching a volume that EC2 says is attached here, but whose device has not come",
			zap.String("volume", v.ID))
		if err := r.detach(ctx, v.ID); err != nil {
			r.log.Warn("could not detach the volume yet", zap.String("volume", v.ID), zap.Error(err))
		}
	}
	return nil
}

// unmountAll unmounts what an earlier process has left mounted. It refuses if the device is mounted elsewhere.
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

// refused handles an AttachVolume that was certainly not executed. If an earlier one may have been, the journal keeps
// it.
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
	return fmt.Errorf("attach %s to %s: %w%s", vol, r.me.Instance, cause, cure(m))
}

// giveUp ends an attachment without a device. It may be stuck, or EC2 may have taken it back, for example because it
// cannot decrypt the volume. The volume is detached, so that the attachment does not come true later.
func (r *requests) giveUp(ctx context.Context, vol, name string, back bool) error {
	r.setbacks.spoil(name)
	r.seen.again()
	if err := r.detach(ctx, vol); err != nil {
		r.log.Warn("could not undo an attachment without a device yet", zap.String("volume", vol), zap.Error(err))
	}
	if back {
		return fmt.Errorf("attach %s: EC2 accepted the request and then took it back: if the volume is "+
			"encrypted, look whether its KMS key is enabled and whether this instance's role may use it (kms:CreateGrant, "+
			"kms:Decrypt)", vol)
	}
	return fmt.Errorf("attach %s: no device appeared within %s; it is detached, and tried again under another device name",
		vol, stuck)
}

// cure returns what an operator can do about a refusal.
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
