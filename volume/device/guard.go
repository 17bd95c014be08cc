package device

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// readWait is how long reading the device may take. Longer is a stall, which is no evidence of a loss.
const readWait = 1500 * time.Millisecond

// Guard looks for evidence that a mounted volume is lost.
type Guard struct {
	find Lookup
	// read reads from the device and the filesystem, and may hang.
	read func(device, file string) error
	ours sync.Map // the numbers of the devices that were mounted

	mu     sync.Mutex
	errors map[string]uint64 // by device name: the error count of the filesystem when it was mounted
	asked  chan error        // gets the result of the read in progress
	since  time.Time         // when that read began
}

// NewGuard returns a Guard of the devices that find knows.
func NewGuard(find Lookup) *Guard {
	return &Guard{find: find, read: read, errors: make(map[string]uint64)}
}

// Target is a mounted volume.
type Target struct {
	Volume   string
	Device   string
	Dir      string
	File     string // on the volume; it is read to check that the filesystem still answers
	Readonly bool   // it was mounted read-only, so being read-only is no evidence
}

// Mounted records that a device has just been mounted: it may be fenced, and errors that its filesystem counted earlier
// are ignored.
func (g *Guard) Mounted(device string) {
	dev, err := numberAt(device)
	if err != nil {
		return
	}
	g.ours.Store(dev, true)
	name := kernelName(dev)
	n, _ := errorCount(name)
	g.mu.Lock()
	g.errors[name] = n
	g.mu.Unlock()
}

// Check returns evidence that the volume is lost, or nil. What cannot be determined for another reason is no evidence.
// An error that wraps [ErrStalled] is no evidence either: the device does not answer, but may do so later. Check takes
// at most 1.5 s, and at most one read hangs at any time.
func (g *Guard) Check(t Target) error {
	dev, device, err := g.look(t)
	if err != nil {
		return err
	}
	if device == "" {
		device = t.Device
	}
	g.mu.Lock()
	before := g.errors[kernelName(dev)]
	g.mu.Unlock()
	if n, ok := errorCount(kernelName(dev)); ok && n > before {
		return fmt.Errorf("the filesystem at %s has met %d errors: see the kernel log", t.Dir, n-before)
	}
	return g.ask(func() error { return g.read(device, t.File) })
}

// look checks what the kernel knows without asking the device. It returns the number of the mounted device.
func (g *Guard) look(t Target) (dev number, device string, err error) {
	there, err := at(t.Dir)
	if err == nil && there == nil {
		return dev, "", fmt.Errorf("%s is not mounted at %s any more", t.Volume, t.Dir)
	}
	if err == nil {
		dev = of(there)
		if why := failure(there); why != "" {
			return dev, "", fmt.Errorf("the filesystem at %s has failed (%s): see the kernel log", t.Dir, why)
		}
		if !t.Readonly && isReadonly(there) {
			return dev, "", fmt.Errorf("the filesystem at %s has become read-only: see the kernel log", t.Dir)
		}
	}
	mounted := err == nil
	list, err := g.find()
	if err != nil {
		return dev, "", nil // unknown
	}
	found := false
	for _, d := range list {
		if d.Volume != t.Volume {
			continue
		}
		found = true
		is, err := numberAt(d.Path)
		if err != nil || !mounted || is == dev {
			return dev, d.Path, nil
		}
		device = d.Path
	}
	if !found {
		return dev, "", fmt.Errorf("the device of %s is gone", t.Volume)
	}
	return dev, "", fmt.Errorf("what is mounted at %s is device %s, but %s is %s now", t.Dir, dev, t.Volume, device)
}

// ask calls read and waits for it, unless an earlier read still hangs.
func (g *Guard) ask(read func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	wait := time.Duration(0)
	if g.asked == nil {
		asked := make(chan error, 1)
		g.asked, g.since, wait = asked, time.Now(), readWait
		go func() { asked <- read() }()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-g.asked:
		g.asked = nil
		return err
	case <-timer.C:
	}
	select { // both may have been ready
	case err := <-g.asked:
		g.asked = nil
		return err
	default:
		return fmt.Errorf("%w since %s", ErrStalled, g.since.Format(time.RFC3339))
	}
}

// read reads the beginning of the device, and a file of the filesystem. The error is evidence.
func read(device, file string) error {
	if err := readDevice(device); isDead(err) {
		return fmt.Errorf("read the device: %w", err)
	}
	if err := readFile(file); errors.Is(err, unix.EIO) {
		return fmt.Errorf("read a file of the volume: %w", err)
	}
	return nil
}

// isDead reports whether an error is that of a device that is gone or whose volume was taken away.
func isDead(err error) bool {
	return errors.Is(err, unix.EIO) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ENODEV)
}

func readDevice(device string) error {
	const block = 4096
	f, err := open(device, os.O_RDONLY|unix.O_DIRECT)
	if err != nil {
		return err
	}
	defer f.Close()
	buffer, free, err := aligned(block)
	if err != nil {
		return err
	}
	defer free()
	_, err = f.ReadAt(buffer, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

func readFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

// kernelName returns the kernel's name for a device. Its node below /dev may have another name.
func kernelName(dev number) string {
	link, err := os.Readlink("/sys/dev/block/" + dev.String())
	if err != nil {
		return ""
	}
	return filepath.Base(link)
}

// errorCount returns how many errors an ext4 filesystem has counted, or false for any other filesystem.
func errorCount(name string) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join("/sys/fs/ext4", name, "errors_count"))
	if name == "" || err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}
