package ebs

import (
	"context"
	"time"

	"holdfast/volume"
)

// Host is this machine as the protocol sees it: what it says is true at the moment it is said.
type Host struct {
	// Devices returns the volumes whose block device is here, by volume ID, with the path of the device. It must ask the
	// kernel, and believe no link or cache.
	Devices func() (map[string]string, error)
	Disks   Disks
	Files   Files
	Memory  Memory
}

// Disks are what is done to block devices and filesystems.
type Disks interface {
	// Probe says what is on a device. Nothing is written.
	Probe(ctx context.Context, device string) (Content, error)
	// Format makes a filesystem with this UUID on a device that nobody has open. It does not look at what
	// is there.
	Format(ctx context.Context, device, uuid string) error
	// Mount checks a filesystem and mounts it at dir, which it creates. Read-only it changes not even the
	// journal; else it grows the filesystem to the size of the device. What is mounted there from this
	// device already stays, and is remounted when it should be writable and is not.
	Mount(ctx context.Context, device, dir string, readonly bool) error
	// Unmount syncs and unmounts what is mounted at dir. Nothing mounted is no error.
	Unmount(ctx context.Context, dir string) error
	// Mounted returns the mount points of a device in this process's mount namespace.
	Mounted(device string) ([]string, error)
	// Check returns evidence that the volume is lost: its device is gone or another, it is not mounted
	// at dir any more, or read-only, or has reported errors. nil: nothing speaks for it.
	Check(volume, device, dir string) error
	// Fence makes every write to the filesystem at dir fail from now on, also through open files, and
	// detaches the mount. It returns within a second, whatever the device does.
	Fence(dir string) error
}

// Files are what lies in a mounted filesystem.
type Files interface {
	// Inspect reads what lies in it.
	Inspect(dir string) (volume.Found, error)
	// Running returns the file by whose lock an etcd is known that runs on a filesystem, "" if none does.
	Running(dir string) (locked string, err error)
	// Identify writes the identity into it, durably.
	Identify(dir string, id volume.Identity) error
	// SetAside moves everything in it into a new directory below aside/.
	SetAside(dir string) error
}

// Memory is what this machine remembers of its claims, and the lock of who writes it.
type Memory interface {
	// Lock keeps other processes of this cluster on this machine from claiming, until unlock is called or
	// the process ends. When another one has it, the error wraps volume.ErrNoneFree.
	Lock() (unlock func(), err error)
	// Journal reads what is remembered; the zero value when there is nothing.
	Journal() (Journal, error)
	// Remember writes it, durably.
	Remember(j Journal) error
}

// Content is what is on a device.
type Content struct {
	// Blank: provably never used. Its first and last MiB are zero, no signature is found, and nobody has
	// it open.
	Blank bool
	// Type, UUID and Label are those of the filesystem; Type is "" when there is none that we can mount.
	Type, UUID, Label string
	// Other names what is there when it is neither blank nor a filesystem that we can mount.
	Other string
}

// Journal is what this machine remembers of its dealings with the volumes of one cluster. It survives the
// process and the machine's restart. It belongs to one instance: a copy on another one (an image made of
// this machine) is not heeded.
type Journal struct {
	Version  int    `json:"version"` // 1
	Instance string `json:"instance"`
	// Held is the volume that was held last and not given up: it may be adopted without asking EC2.
	Held *Holding `json:"held,omitempty"`
	// Attaching: AttachVolume was sent, and what became of it is not known yet. By volume ID, with the time
	// of the last request.
	Attaching map[string]time.Time `json:"attaching,omitempty"`
	// Detaching: DetachVolume was sent, and may yet be executed: until that is settled the volume must not
	// be used here, for the late request would take it away under a running member.
	Detaching map[string]time.Time `json:"detaching,omitempty"`
	// Formatting: the device of this volume was proven blank, and is being formatted with this UUID. Nothing else
	// was written to it yet.
	Formatting *Formatting `json:"formatting,omitempty"`
}

// Holding is a held volume.
type Holding struct {
	Volume string `json:"volume"`
	Slot   string `json:"slot"`
	Epoch  uint64 `json:"epoch"`
}

// Formatting is a format that has begun.
type Formatting struct {
	Volume string `json:"volume"`
	UUID   string `json:"uuid"`
}
