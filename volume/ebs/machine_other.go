//go:build !linux

package ebs

import (
	"errors"

	"go.uber.org/zap"
)

// MachineConfig says where a [Machine] finds things; here nothing is.
type MachineConfig struct{ DeviceRoot, FSType, JournalPath string }

// Machine is a machine that no volume can be attached to: an operator's, from which volumes are listed and made.
// Since it cannot be locked, none of the methods that it leaves out is ever called.
type Machine struct {
	Disks
	Files
	Memory
}

// NewMachine returns it.
func NewMachine(MachineConfig, *zap.Logger) *Machine { return &Machine{} }

// Host is this machine as the protocol sees it.
func (m *Machine) Host() Host { return Host{Devices: m.Devices, Disks: m, Files: m, Memory: m} }

// Lock implements [Memory].
func (*Machine) Lock() (unlock func(), err error) {
	return nil, errors.New("EBS volumes are claimed by Linux machines only")
}

// Devices is [Host.Devices].
func (*Machine) Devices() (map[string]string, error) { return nil, nil }
