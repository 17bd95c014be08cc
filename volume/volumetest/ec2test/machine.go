package ec2test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The models that NVMe devices report on EC2, here without their padding to 40 characters.
const (
	modelEBS   = "Amazon Elastic Block Store"
	modelStore = "Amazon EC2 NVMe Instance Storage"
)

// serial returns the serial number that the device of a volume reports.
func serial(volume string) string { return strings.Replace(volume, "-", "", 1) }

// machine is the device root of an instance.
type machine string

func (m machine) device(name string) string { return filepath.Join(string(m), "dev", name) }
func (m machine) system(name string) string { return filepath.Join(string(m), "sys/block", name) }

// publish makes a device appear at once: first its node, then its entry below /sys, where programs look.
func (m machine) publish(name, serial, model, target string, size int64) error {
	// The files are written elsewhere first, under a name that nobody takes for a device.
	hidden := filepath.Join(string(m), "hidden", name)
	files := []struct{ path, text string }{
		{"device/serial", fmt.Sprintf("%-20s", serial)},
		{"device/model", fmt.Sprintf("%-40s", model)},
		{"size", strconv.FormatInt(size/512, 10)},
	}
	for _, f := range files {
		path := filepath.Join(hidden, f.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("publish device %s: %w", name, err)
		}
		if err := os.WriteFile(path, []byte(f.text+"\n"), 0o444); err != nil {
			return fmt.Errorf("publish device %s: %w", name, err)
		}
	}
	err := errors.Join(
		os.MkdirAll(filepath.Dir(m.device(name)), 0o755), os.MkdirAll(filepath.Dir(m.system(name)), 0o755),
		os.Symlink(target, m.device(name)), os.Rename(hidden, m.system(name)))
	if err != nil {
		return fmt.Errorf("publish device %s: %w", name, err)
	}
	return nil
}

// resize sets the size that a device reports.
func (m machine) resize(name string, size int64) error {
	return os.WriteFile(filepath.Join(m.system(name), "size"), fmt.Appendln(nil, size/512), 0o444)
}

// unpublish makes a device disappear, in reverse order.
func (m machine) unpublish(name string) error {
	hidden := filepath.Join(string(m), "hidden", name)
	err := errors.Join(os.Rename(m.system(name), hidden), os.Remove(m.device(name)), os.RemoveAll(hidden))
	if err != nil {
		return fmt.Errorf("unpublish device %s: %w", name, err)
	}
	return nil
}
