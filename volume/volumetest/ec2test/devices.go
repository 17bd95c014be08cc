package ec2test

// DeviceBackend gives attached volumes a block device. Calls for one volume never overlap.
type DeviceBackend interface {
	// Host prepares a machine and returns its device root: the directory that imitates its root directory.
	Host(instance string) (root string, err error)
	// Resize sets the size of a volume in GiB. A new volume is blank.
	Resize(volume string, gib int64) error
	// Attach makes the device of a volume appear at a machine.
	Attach(instance, volume, device string) error
	// Detach makes the device disappear. Without force a device in use stays, and busy is true. With force everything that
	// uses the device fails from then on. Without a device Detach does nothing.
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
