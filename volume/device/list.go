package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// model is the model number that an EBS volume reports in NVMe's Identify Controller.
const model = "Amazon Elastic Block Store"

// Device is the block device of a volume.
type Device struct {
	Volume string // vol-0123456789abcdef0
	Name   string // nvme1n1: its name in sysfs
	Path   string // its node, with symbolic links resolved; "" if there is none yet
}

// namespace matches the first namespace of an NVMe controller; an EBS volume has no other. It does not match a hidden
// path of a multipath device (nvme1c0n1) or a partition (nvme1n1p1).
var namespace = regexp.MustCompile(`^nvme[0-9]+n1$`)

// Lookup returns the devices of this machine that are volumes, as the kernel reports them now, including those without
// a node yet. An error means that a device could not be read.
type Lookup func() ([]Device, error)

// EBS returns a Lookup of EBS volumes. It uses the serial in sysfs: links below /dev/disk/by-id can be stale and lead
// to another volume (aws-ebs-csi-driver#1224, #1082). root is the directory that contains sys and dev, normally /.
func EBS(root string) Lookup {
	return func() ([]Device, error) { return scan(root) }
}

// List returns the volumes that find knows, without those that have no node yet.
func List(find Lookup) ([]Device, error) {
	all, err := find()
	if err != nil {
		return nil, err
	}
	var devices []Device
	seen := make(map[string]string)
	for _, d := range all {
		if d.Path == "" {
			continue
		}
		if other := seen[d.Volume]; other != "" {
			return nil, fmt.Errorf("list devices: both %s and %s say that they are %s: one of them is going away", other,
				d.Name, d.Volume)
		}
		seen[d.Volume] = d.Name
		devices = append(devices, d)
	}
	return devices, nil
}

func scan(root string) ([]Device, error) {
	dir := filepath.Join(root, "sys/block")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var devices []Device
	for _, e := range entries {
		name := e.Name()
		if !namespace.MatchString(name) {
			continue
		}
		is, err := attribute(filepath.Join(dir, name, "device/model"))
		if err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		serial, err := attribute(filepath.Join(dir, name, "device/serial"))
		if err != nil {
			return nil, fmt.Errorf("list devices: %w", err)
		}
		volume, ok := parseSerial(serial)
		if strings.TrimSpace(is) != model || !ok {
			continue
		}
		path, err := filepath.EvalSymlinks(filepath.Join(root, "dev", name))
		if err != nil {
			path = ""
		}
		devices = append(devices, Device{Volume: volume, Name: name, Path: path})
	}
	return devices, nil
}

// attribute reads a file of sysfs. It returns "" if the file or its device is going away.
func attribute(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENXIO) {
		return "", nil
	}
	return string(data), err
}

var serialForm = regexp.MustCompile(`^vol-?([0-9a-f]{8,17})$`)

// parseSerial returns the volume ID of a serial, which lacks the dash (vol0123…) and is padded.
func parseSerial(serial string) (volume string, ok bool) {
	m := serialForm.FindStringSubmatch(strings.Trim(serial, " \t\r\n\x00"))
	if m == nil {
		return "", false
	}
	return "vol-" + m[1], true
}
