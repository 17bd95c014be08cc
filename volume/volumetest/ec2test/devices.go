package ec2test

// DeviceBackend gives the attached volumes a block device. Of one volume it is asked one thing at a time.
type DeviceBackend interface {
	// Host prepares a machine and returns the directory that stands for its root: the device root.
	Host(instance string) (root string, err error)
	// Resize gives a volume this size in GiB. A new one is blank.
	Resize(volume string, gib int64) error
	// Attach makes the device of a volume appear at a machine.
	Attach(instance, volume, device string) error
	// Detach makes it disappear. Without force a device that is in use stays, which is reported; with it
	// everything that uses the device fails from then on. No device is no error.
	Detach(instance, volume string, force bool) (busy bool, err error)
	// Close removes everything.
	Close() error
}

// breaker is a DeviceBackend whose devices can fail while the volume stays attached.
type breaker interface {
	Yank(volume string) error
	Freeze(volume string) error
	Thaw(volume string) error
}

// noDevices is the backend of a cloud without devices.
type noDevices struct{}

func (noDevices) Host(string) (string, error)               { return "", nil }
func (noDevices) Resize(string, int64) error                { return nil }
func (noDevices) Attach(string, string, string) error       { return nil }
func (noDevices) Detach(string, string, bool) (bool, error) { return false, nil }
func (noDevices) Close() error                              { return nil }
