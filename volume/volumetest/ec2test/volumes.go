package ec2test

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// poll is how often a device in use is checked again.
const poll = 20 * time.Millisecond

// deviceName matches the device names that AttachVolume accepts for Linux.
var deviceName = regexp.MustCompile(`^(/dev/)?(sd[a-z][1-9]?[0-5]?|xvd[a-z]{1,2})$`)

// attach is AttachVolume up to its answer: the attachment then exists, in the state attaching.
func (s *State) attach(volume, instance, device string, serial uint64) (Attachment, error) {
	v, i := s.volume(volume), s.Instances[instance]
	switch {
	case v == nil:
		return Attachment{}, noVolume(volume)
	case i == nil:
		return Attachment{}, noInstance(instance)
	}
	if err := s.attachable(v, i, device); err != nil {
		return Attachment{}, err
	}
	a := Attachment{Instance: instance, Device: device, State: attaching, Since: s.At, serial: serial}
	v.State = inUse
	v.Attachments = append(v.Attachments, a)
	return a, nil
}

func (s *State) attachable(v *Volume, i *Instance, device string) error {
	held := s.held(i.ID)
	_, mine := held[v.ID]
	switch {
	case !deviceName.MatchString(device):
		return &apiError{"InvalidParameterValue",
			fmt.Sprintf("Value (%s) for parameter device is invalid. %[1]s is not a valid EBS device name.", device)}
	case v.Zone != i.Zone:
		return &apiError{"InvalidVolume.ZoneMismatch",
			fmt.Sprintf("The volume '%s' is not in the same availability zone as instance '%s'", v.ID, i.ID)}
	case i.State != running && i.State != stopped:
		return &apiError{"IncorrectState", fmt.Sprintf("Instance '%s' is not 'running'.", i.ID)}
	case mine || len(v.Attachments) > 0 && !v.MultiAttach:
		return &apiError{"VolumeInUse", fmt.Sprintf("%s is already attached to an instance", v.ID)}
	case v.State != available && v.State != inUse:
		return &apiError{"IncorrectState", fmt.Sprintf("%s is not 'available'.", v.ID)}
	case len(v.Attachments) >= 16:
		return &apiError{"AttachmentLimitExceeded", fmt.Sprintf("Multi-Attach volume %s has 16 attachments", v.ID)}
	case len(held) >= i.MaxVolumes:
		return &apiError{"AttachmentLimitExceeded",
			fmt.Sprintf("Instance %s has %d volumes, and can have no more", i.ID, len(held))}
	}
	for _, a := range held {
		if strings.TrimPrefix(a.Device, "/dev/") == strings.TrimPrefix(device, "/dev/") {
			return &apiError{"InvalidParameterValue",
				fmt.Sprintf("Invalid value '%s' for unixDevice. Attachment point %[1]s is already in use", device)}
		}
	}
	return nil
}

// detach is DetachVolume up to its answer. fresh is false if the volume was already detaching.
func (s *State) detach(volume, instance, device string, force bool) (a Attachment, fresh bool, err error) {
	v := s.volume(volume)
	if v == nil {
		return a, false, noVolume(volume)
	}
	if instance != "" && s.Instances[instance] == nil {
		return a, false, noInstance(instance)
	}
	if len(v.Attachments) == 0 {
		return a, false, &apiError{"IncorrectState", fmt.Sprintf("Volume '%s' is in the '%s' state.", volume, v.State)}
	}
	for i := range v.Attachments {
		at := &v.Attachments[i]
		if instance != "" && at.Instance != instance || device != "" && at.Device != device {
			continue
		}
		if at.Instance == "" {
			return a, false, &apiError{"UnsupportedOperation",
				fmt.Sprintf("The attachment of volume '%s' is managed by a service", volume)}
		}
		fresh = at.State == attaching || at.State == attached
		if fresh {
			at.State = detaching
		}
		at.Force = at.Force || force
		return *at, fresh, nil
	}
	return a, false, &apiError{"InvalidAttachment.NotFound",
		fmt.Sprintf("The volume '%s' is not attached to instance '%s'", volume, instance)}
}

// attach starts an attachment, and a job that finishes it.
func (c *Cloud) attach(volume, instance, device string, f effects) (Attachment, error) {
	var a Attachment
	err := c.change(func(s *State) (err error) {
		c.serial++
		a, err = s.attach(volume, instance, device, c.serial)
		if err == nil {
			c.record.begin(volume, a)
		}
		return err
	})
	if err == nil {
		c.later(c.options.AttachDelay+f.delay(Slow), func() { c.finishAttach(volume, a, f.has(KMSFailure)) })
	}
	return a, err
}

func (c *Cloud) finishAttach(volume string, a Attachment, keyDenied bool) {
	disk := c.disk(volume)
	disk.Lock()
	defer disk.Unlock()
	v := c.State().Volumes[volume]
	if now := v.attachment(a.serial); now == nil || now.State != attaching {
		return // it was detached meanwhile
	}
	if keyDenied {
		c.end(volume, a)
		return
	}
	if err := c.options.Devices.Attach(a.Instance, volume, a.Device); err != nil {
		c.options.Log("the device of %s did not appear at %s: %v", volume, a.Instance, err)
		return // it stays attaching
	}
	_ = c.changeVolume(volume, func(v *Volume) error {
		// It may be detaching by now. That job waits for the lock of the disk and takes the device away again.
		if now := v.attachment(a.serial); now != nil && now.State == attaching {
			now.State = attached
		}
		return nil
	})
}

// detach starts a detach, and a job that finishes it.
func (c *Cloud) detach(volume, instance, device string, force bool, delay time.Duration) (Attachment, error) {
	var a Attachment
	var fresh bool
	err := c.change(func(s *State) (err error) {
		a, fresh, err = s.detach(volume, instance, device, force)
		return err
	})
	if err == nil && fresh {
		c.later(c.options.DetachDelay+delay, func() { c.finishDetach(volume, a) })
	}
	return a, err
}

// finishDetach takes the device away as soon as it is not in use.
func (c *Cloud) finishDetach(volume string, a Attachment) {
	for !c.tryDetach(volume, a) {
		if !c.wait(poll) {
			return
		}
	}
}

// tryDetach returns false if the device is in use; the attachment is then busy.
func (c *Cloud) tryDetach(volume string, a Attachment) bool {
	disk := c.disk(volume)
	disk.Lock()
	defer disk.Unlock()
	v := c.State().Volumes[volume]
	if v == nil || v.attachment(a.serial) == nil {
		return true
	}
	inUse, err := c.options.Devices.Detach(a.Instance, volume, v.attachment(a.serial).Force)
	if err != nil {
		c.options.Log("the device of %s did not leave %s: %v", volume, a.Instance, err)
	}
	if !inUse && err == nil {
		c.end(volume, a)
		return true
	}
	if v.attachment(a.serial).State != busy {
		_ = c.changeVolume(volume, func(v *Volume) error {
			if now := v.attachment(a.serial); now != nil {
				now.State = busy
			}
			return nil
		})
	}
	return false
}

// end removes an attachment.
func (c *Cloud) end(volume string, a Attachment) {
	_ = c.changeVolume(volume, func(v *Volume) error {
		now := v.attachment(a.serial)
		if now == nil {
			return nil
		}
		c.record.end(volume, *now)
		v.drop(a.serial)
		return nil
	})
}
