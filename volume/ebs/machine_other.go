//go:build !linux

package ebs

import (
	"errors"

	"go.uber.org/zap"
)

// Machine is a machine to which no volume can be attached: an operator's, from which volumes are listed and created. It
// cannot be locked, so the methods that it does not implement are never called.
type Machine struct {
	Disks
	Files
	Memory
}

// NewMachine returns such a machine.
func NewMachine(Config, string, *zap.Logger) *Machine { return &Machine{} }

// Host is this machine as the protocol sees it.
func (m *Machine) Host() Host { return Host{Devices: m.Devices, Disks: m, Files: m, Memory: m} }

// Lock implements [Memory].
func (*Machine) Lock() (unlock func(), err error) {
	return nil, errors.New("EBS volumes are claimed by Linux machines only")
}

// has reports whether a program is on this machine, which needs none.
func (*Machine) has(string) bool { return true }

// Devices is [Host.Devices].
func (*Machine) Devices() (map[string]string, error) { return nil, nil }
