package ec2test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// Options are the settings of a Cloud. The zero value works.
type Options struct {
	Region  string        // default eu-test-1
	Devices DeviceBackend // nil: an attachment has no device
	// AttachDelay and DetachDelay are how long a volume is attaching or detaching. InstanceDelay is how long an instance
	// takes to change its state.
	AttachDelay, DetachDelay, InstanceDelay time.Duration
	// PowerOff is how long the devices of a terminated instance may stay in use before they are taken away by force. Its
	// processes should be dead by then. The default is 10 s.
	PowerOff time.Duration
	// PageSize is the page size of a Describe call that does not ask for one; the default is 1000.
	PageSize int
	// OwnOnly forbids an instance to attach or detach for another one, as the least-privilege policy does.
	OwnOnly bool
	// OwnTags, if any, forbid an instance to attach or detach a volume that does not have all of them, as the same policy
	// does.
	OwnTags map[string]string
	Log     func(format string, args ...any) // nil: no log
}

// history is how many past states are kept for stale reads.
const history = 2000

// Cloud is EC2. Its methods may be called from several goroutines. Call Close at the end.
type Cloud struct {
	options Options
	faults  faults
	record  record
	tokens  tokens
	jobs    sync.WaitGroup
	closing chan struct{}

	mu     sync.Mutex // guards the rest
	closed bool
	past   []*State // the last one is the current state
	serial uint64
	disks  map[string]*sync.Mutex // serialises the operations on a volume's device
}

// New makes an empty cloud.
func New(o Options) *Cloud {
	if o.Region == "" {
		o.Region = "eu-test-1"
	}
	if o.PowerOff == 0 {
		o.PowerOff = 10 * time.Second
	}
	if o.PageSize == 0 {
		o.PageSize = 1000
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Devices == nil {
		o.Devices = noDevices{}
	}
	return &Cloud{
		options: o,
		closing: make(chan struct{}),
		past:    []*State{{At: time.Now(), Volumes: map[string]*Volume{}, Instances: map[string]*Instance{}}},
		disks:   map[string]*sync.Mutex{},
	}
}

// Close ends all jobs, and removes all devices.
func (c *Cloud) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.closing)
	c.mu.Unlock()
	c.jobs.Wait()
	return c.options.Devices.Close()
}

// State returns the current state.
func (c *Cloud) State() *State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.past[len(c.past)-1]
}

// Volume returns the current state of a volume.
func (c *Cloud) Volume(id string) (Volume, bool) {
	v := c.State().Volumes[id]
	if v == nil {
		return Volume{}, false
	}
	return *v, true
}

// Instance returns the current state of an instance.
func (c *Cloud) Instance(id string) (Instance, bool) {
	i := c.State().Instances[id]
	if i == nil {
		return Instance{}, false
	}
	return *i, true
}

// change makes edit's state the current one, unless edit returns an error.
func (c *Cloud) change(edit func(s *State) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.past[len(c.past)-1].next(time.Now())
	if err := edit(s); err != nil {
		return err
	}
	c.past = append(c.past, s)
	if len(c.past) > history {
		c.past = c.past[len(c.past)-history:]
	}
	return nil
}

// changeVolume changes one volume.
func (c *Cloud) changeVolume(id string, edit func(v *Volume) error) error {
	return c.change(func(s *State) error {
		v := s.volume(id)
		if v == nil {
			return noVolume(id)
		}
		return edit(v)
	})
}

// disk returns the lock of a volume's device.
func (c *Cloud) disk(volume string) *sync.Mutex {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.disks[volume] == nil {
		c.disks[volume] = &sync.Mutex{}
	}
	return c.disks[volume]
}

// later runs a job after a delay, unless the cloud is closed before.
func (c *Cloud) later(d time.Duration, job func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.jobs.Go(func() {
		if c.wait(d) {
			job()
		}
	})
}

// wait waits, and returns false if the cloud is closed meanwhile.
func (c *Cloud) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.closing:
		return false
	}
}

func (c *Cloud) zone(zone string) string {
	if zone == "" {
		return c.options.Region + "a"
	}
	return zone
}

// newID makes an ID like AWS: 17 hexadecimal digits.
func newID(prefix string) string {
	var b [9]byte
	_, _ = rand.Read(b[:]) // it never fails
	return prefix + hex.EncodeToString(b[:])[:17]
}

func noVolume(id string) error {
	return &apiError{"InvalidVolume.NotFound", fmt.Sprintf("The volume '%s' does not exist.", id)}
}

func noInstance(id string) error {
	return &apiError{"InvalidInstanceID.NotFound", fmt.Sprintf("The instance ID '%s' does not exist", id)}
}
