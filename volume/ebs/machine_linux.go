package ebs

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"holdfast/volume"
	"holdfast/volume/device"
)

// Machine is this machine. Its methods may be called from several goroutines.
type Machine struct {
	filesystem string // that blank devices get: ext4 or xfs
	journal    string // file of the journal, of one cluster; the lock is beside it, <journal>.lock

	log   *zap.Logger
	find  device.Lookup
	guard *device.Guard

	mu       sync.Mutex
	readonly map[string]bool // mount points that are meant to be read-only
	stalled  time.Time       // since when the device has not answered; zero while it does
}

// NewMachine returns this machine, for the volumes of a cluster. It does no I/O.
func NewMachine(cfg Config, cluster string, lg *zap.Logger) *Machine {
	find := device.EBS(cfg.DeviceRoot)
	return &Machine{filesystem: cfg.Filesystem, journal: filepath.Join(cfg.State, cluster+".json"), log: lg, find: find,
		guard: device.NewGuard(find), readonly: make(map[string]bool)}
}

// Host is this machine as the protocol sees it.
func (m *Machine) Host() Host { return Host{Devices: m.Devices, Disks: m, Files: m, Memory: m} }

// Lock implements [Memory] with flock(2), which the kernel gives up in any case when the process ends.
func (m *Machine) Lock() (unlock func(), err error) {
	path := m.journal + ".lock"
	if err := volume.MakeDirs(filepath.Dir(path)); err != nil {
		return nil, err
	}
	unlock, err = volume.LockFile(path)
	if errors.Is(err, volume.ErrBusy) {
		return nil, none("another process of this cluster claims on this machine: it has the lock %s", path)
	}
	return unlock, err
}

// has reports whether a program is on this machine.
func (m *Machine) has(program string) bool { return device.Has(program) }

// Devices is [Host.Devices].
func (m *Machine) Devices() (map[string]string, error) {
	list, err := device.List(m.find)
	if err != nil {
		return nil, err
	}
	devices := make(map[string]string, len(list))
	for _, d := range list {
		devices[d.Volume] = d.Path
	}
	return devices, nil
}

// Probe implements [Disks]. If a device seems empty but is in use, Probe returns an error: its user may be
// writing to it.
func (m *Machine) Probe(ctx context.Context, path string) (c Content, err error) {
	err = device.RetryBusy(ctx, func() error {
		found, err := device.Probe(ctx, path)
		if err == nil && found.Busy && found.Type == "" {
			err = fmt.Errorf("probe %s: it holds %s: %w", path, found.Other, device.ErrBusy)
		}
		c = Content{Blank: found.Blank, Type: found.Type, UUID: found.UUID, Label: found.Label, Other: found.Other}
		return err
	})
	return c, err
}

// Format implements [Disks]. It still checks that the device is blank, or has what an interrupted format with this UUID
// may have left.
func (m *Machine) Format(ctx context.Context, path, uuid string) error {
	return device.Format(ctx, path, device.Filesystem{Type: m.filesystem, UUID: uuid, Label: label})
}

// Mount implements [Disks].
func (m *Machine) Mount(ctx context.Context, path, dir string, readonly bool) error {
	if err := device.Mount(ctx, path, dir, readonly); err != nil {
		return err
	}
	m.guard.Mounted(path)
	m.mu.Lock()
	m.readonly[filepath.Clean(dir)] = readonly
	m.mu.Unlock()
	return nil
}

// Grow implements [Disks].
func (m *Machine) Grow(ctx context.Context, path, dir string) error {
	before, after, err := device.Grow(ctx, path, dir)
	if after > before {
		m.log.Info("grew the filesystem", zap.String("device", path), zap.Int64("before", before), zap.Int64("after", after))
	}
	return err
}

// Unmount implements [Disks].
func (m *Machine) Unmount(ctx context.Context, dir string) error {
	return device.Unmount(ctx, dir)
}

// Mounted implements [Disks].
func (m *Machine) Mounted(path string) ([]string, error) { return device.Mounted(path) }

// Check implements [Disks]. A device that does not answer is no evidence; Stalled reports it.
func (m *Machine) Check(vol, path, dir string) error {
	dir = filepath.Clean(dir)
	m.mu.Lock()
	readonly := m.readonly[dir]
	m.mu.Unlock()
	begun := time.Now()
	err := m.guard.Check(device.Target{Volume: vol, Device: path, Dir: dir, File: filepath.Join(dir, volume.IdentityName),
		Readonly: readonly})
	m.mu.Lock()
	defer m.mu.Unlock()
	switch stall := errors.Is(err, device.ErrStalled); {
	case stall && m.stalled.IsZero():
		m.stalled = begun
		m.log.Warn("the device of the volume does not answer", zap.String("volume", vol), zap.String("device", path))
	case !stall && err == nil && !m.stalled.IsZero():
		m.log.Info("the device of the volume answers again", zap.String("volume", vol),
			zap.Duration("after", time.Since(m.stalled)))
		m.stalled = time.Time{}
	case !stall:
		m.stalled = time.Time{}
		return err
	}
	return nil
}

// Stalled implements [Disks].
func (m *Machine) Stalled() (since time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stalled, !m.stalled.IsZero()
}

// Fence implements [Disks].
func (m *Machine) Fence(dir string) error { return m.guard.Fence(dir) }
