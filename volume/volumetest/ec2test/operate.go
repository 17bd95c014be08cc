package ec2test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"time"
)

// AddInstance adds a machine and returns its device root, or "" if the cloud has no devices.
func (c *Cloud) AddInstance(i Instance) (root string, err error) {
	if i.ID == "" {
		i.ID = newID("i-")
	}
	i.Zone = c.zone(i.Zone)
	if i.Type == "" {
		i.Type = "m7g.large"
	}
	if i.State == "" {
		i.State = running
	}
	if i.MaxVolumes == 0 {
		i.MaxVolumes = 27
	}
	i.Tags = maps.Clone(i.Tags)
	root, err = c.options.Devices.Host(i.ID)
	if err != nil {
		return "", fmt.Errorf("prepare machine %s: %w", i.ID, err)
	}
	return root, c.change(func(s *State) error {
		if s.Instances[i.ID] != nil {
			return fmt.Errorf("instance %s exists", i.ID)
		}
		i.Launched = s.At
		s.Instances[i.ID] = &i
		return nil
	})
}

// AddVolume adds a volume without attachments and returns its ID.
func (c *Cloud) AddVolume(v Volume) (id string, err error) {
	v.Attachments = nil
	v.State = cmp.Or(v.State, available)
	return c.addVolume(v)
}

func (c *Cloud) addVolume(v Volume) (string, error) {
	if v.ID == "" {
		v.ID = newID("vol-")
	}
	v.Zone = c.zone(v.Zone)
	if v.Size == 0 {
		v.Size = 1
	}
	if v.Type == "" {
		v.Type = "gp3"
	}
	v.Tags = maps.Clone(v.Tags)
	if v.Tags == nil {
		v.Tags = map[string]string{}
	}
	if c.State().Volumes[v.ID] != nil {
		return "", fmt.Errorf("volume %s exists", v.ID)
	}
	if err := c.options.Devices.Resize(v.ID, v.Size); err != nil {
		return "", fmt.Errorf("make the disk of volume %s: %w", v.ID, err)
	}
	return v.ID, c.change(func(s *State) error {
		v.Created = s.At
		s.Volumes[v.ID] = &v
		return nil
	})
}

// TerminateInstance ends a machine forever, and returns when it is terminated. The processes on it must be dead or
// dying: devices that stay in use are finally taken away by force (Options.PowerOff). Its volumes are detached before
// it is seen as terminated.
func (c *Cloud) TerminateInstance(id string) error {
	if err := c.SetInstanceState(id, shuttingDown); err != nil {
		return err
	}
	c.wait(c.options.InstanceDelay)
	for volume, a := range c.State().held(id) {
		c.powerOff(volume, a)
	}
	return c.SetInstanceState(id, terminated)
}

// powerOff detaches a volume of a machine that is being terminated.
func (c *Cloud) powerOff(volume string, a Attachment) {
	force := time.Now().Add(c.options.PowerOff)
	mark := func(edit func(*Attachment)) {
		_ = c.changeVolume(volume, func(v *Volume) error {
			if now := v.attachment(a.serial); now != nil {
				edit(now)
			}
			return nil
		})
	}
	mark(func(now *Attachment) { now.State = detaching })
	for !c.tryDetach(volume, a) && c.wait(poll) {
		if time.Now().After(force) {
			c.options.Log("%s is in use after the end of %s: taken away by force", volume, a.Instance)
			mark(func(now *Attachment) { now.Force = true })
		}
	}
}

// StopInstance stops a machine, whose processes must be dead. It keeps its volumes.
func (c *Cloud) StopInstance(id string) error { return c.pass(id, running, stopping, stopped) }

// StartInstance starts a stopped machine.
func (c *Cloud) StartInstance(id string) error { return c.pass(id, stopped, pending, running) }

// pass takes an instance from one state through a second to a third.
func (c *Cloud) pass(id, from, through, to string) error {
	step := func(from, to string) error {
		return c.change(func(s *State) error {
			i := s.instance(id)
			if i == nil {
				return noInstance(id)
			}
			if i.State != from {
				return fmt.Errorf("instance %s is %s, not %s", id, i.State, from)
			}
			i.State = to
			return nil
		})
	}
	if err := step(from, through); err != nil {
		return err
	}
	c.wait(c.options.InstanceDelay)
	return step(through, to)
}

// SetInstanceState changes only what EC2 says of an instance. Terminated is final.
func (c *Cloud) SetInstanceState(id, state string) error {
	return c.change(func(s *State) error {
		i := s.instance(id)
		if i == nil {
			return noInstance(id)
		}
		if i.State == terminated {
			return fmt.Errorf("instance %s is terminated", id)
		}
		i.State = state
		return nil
	})
}

// SetPrivateIP gives an instance another address, as if its host had moved. AWS does not do that.
func (c *Cloud) SetPrivateIP(id, address string) error {
	return c.change(func(s *State) error {
		i := s.instance(id)
		if i == nil {
			return noInstance(id)
		}
		i.PrivateIP = address
		return nil
	})
}

// SetMetadata sets the answer of an instance's metadata service for a path below meta-data/, such as
// autoscaling/target-lifecycle-state. With "" it removes the path.
func (c *Cloud) SetMetadata(id, path, text string) error {
	return c.change(func(s *State) error {
		i := s.instance(id)
		switch {
		case i == nil:
			return noInstance(id)
		case text == "":
			delete(i.Metadata, path)
			return nil
		case i.Metadata == nil:
			i.Metadata = map[string]string{}
		}
		i.Metadata[path] = text
		return nil
	})
}

// SetTag sets a tag of a volume as an operator does, but without EC2's limits.
func (c *Cloud) SetTag(volume, key, value string) error {
	return c.changeVolume(volume, func(v *Volume) error {
		v.Tags[key] = value
		return nil
	})
}

// DeleteTag removes a tag of a volume, whatever its value.
func (c *Cloud) DeleteTag(volume, key string) error {
	return c.changeVolume(volume, func(v *Volume) error {
		delete(v.Tags, key)
		return nil
	})
}

// GrowVolume makes a volume larger, in GiB. An attached device grows at once, but its filesystem does not.
func (c *Cloud) GrowVolume(volume string, gib int64) error {
	disk := c.disk(volume)
	disk.Lock()
	defer disk.Unlock()
	v := c.State().Volumes[volume]
	if v == nil {
		return noVolume(volume)
	}
	if gib < v.Size {
		return fmt.Errorf("volume %s has %d GiB: a volume never shrinks", volume, v.Size)
	}
	if err := c.options.Devices.Resize(volume, gib); err != nil {
		return fmt.Errorf("grow volume %s: %w", volume, err)
	}
	return c.changeVolume(volume, func(v *Volume) error {
		v.Size = gib
		return nil
	})
}

// AttachManaged attaches a volume to something that AWS manages: the attachment has no instance.
func (c *Cloud) AttachManaged(volume string) error {
	return c.change(func(s *State) error {
		v := s.volume(volume)
		if v == nil {
			return noVolume(volume)
		}
		if v.State != available {
			return fmt.Errorf("volume %s is %s", volume, v.State)
		}
		c.serial++
		a := Attachment{State: attached, Device: "/dev/sdf", Since: s.At, serial: c.serial}
		v.State, v.Attachments = inUse, append(v.Attachments, a)
		c.record.begin(volume, a)
		return nil
	})
}

// ForceDetach takes a volume away from its holder, as an operator can: the device vanishes while it is used. It returns
// when the volume is available.
func (c *Cloud) ForceDetach(volume string) error {
	v := c.State().Volumes[volume]
	if v == nil {
		return noVolume(volume)
	}
	for _, a := range v.Attachments {
		_ = c.changeVolume(volume, func(v *Volume) error {
			if now := v.attachment(a.serial); now != nil {
				now.State, now.Force = detaching, true
			}
			return nil
		})
		if !c.tryDetach(volume, a) {
			return fmt.Errorf("the device of volume %s cannot be removed", volume)
		}
	}
	return nil
}

// Yank makes the device of a volume fail and vanish, unnoticed by EC2.
func (c *Cloud) Yank(volume string) error { return c.breakDevice(volume, breaker.Yank) }

// Freeze makes every write to the mounted filesystem of a volume hang.
func (c *Cloud) Freeze(volume string) error { return c.breakDevice(volume, breaker.Freeze) }

// Thaw ends Freeze.
func (c *Cloud) Thaw(volume string) error { return c.breakDevice(volume, breaker.Thaw) }

func (c *Cloud) breakDevice(volume string, how func(breaker, string) error) error {
	b, ok := c.options.Devices.(breaker)
	if !ok {
		return errors.New("this cloud has no devices")
	}
	disk := c.disk(volume)
	disk.Lock()
	defer disk.Unlock()
	return how(b, volume)
}
