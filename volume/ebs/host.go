package ebs

import (
	"context"
	"time"

	"holdfast/volume"
)

// Host is this machine as the protocol sees it. Unlike a Cloud, it always reports the current state.
type Host struct {
	// Devices returns the volumes whose block devices are here: the path of the device by volume ID. It must ask the
	// kernel, and not rely on any link or cache.
	Devices func() (map[string]string, error)
	Disks   Disks
	Files   Files
	Memory  Memory
}

// Disks are the operations on block devices and filesystems.
type Disks interface {
	// Probe returns the content of a device. It writes nothing.
	Probe(ctx context.Context, device string) (Content, error)
	// Format makes a filesystem with this UUID on a device that nobody has open. It does not check the content.
	Format(ctx context.Context, device, uuid string) error
	// Mount checks a filesystem and mounts it at dir, which it creates. With readonly it does not even change the
	// journal. If the device is already mounted there, it stays mounted, and is remounted if it is read-only and should
	// be writable.
	Mount(ctx context.Context, device, dir string, readonly bool) error
	// Grow makes the filesystem of a device, which is mounted at dir for writing, as large as the device. After an error
	// the filesystem can be used at the size that it has.
	Grow(ctx context.Context, device, dir string) error
	// Unmount syncs and unmounts what is mounted at dir, if anything.
	Unmount(ctx context.Context, dir string) error
	// Mounted returns the mount points of a device in this process's mount namespace.
	Mounted(device string) ([]string, error)
	Guard
}

// Guard are the operations on the filesystem of a held volume, which may be lost at any time.
type Guard interface {
	// Check returns evidence that the volume is lost, or nil. Evidence is a device that is gone or another one, or a
	// filesystem that is not mounted at dir any more, is read-only, or has reported errors.
	Check(volume, device, dir string) error
	// Stalled returns since when the device of the last Check has not answered, or false while it does.
	Stalled() (since time.Time, ok bool)
	// Fence makes every write to the filesystem at dir fail from now on, even through open files, and detaches the mount.
	// It returns within a second, whatever the device does.
	Fence(dir string) error
}

// Files are the operations on a mounted filesystem.
type Files interface {
	// Inspect reads the content.
	Inspect(dir string) (volume.Found, error)
	// Running returns a file that a running etcd has locked, or "".
	Running(dir string) (locked string, err error)
	// Identify writes the identity durably.
	Identify(dir string, id volume.Identity) error
	// SetAside moves everything into a new directory below aside/.
	SetAside(dir string) error
}

// Memory is the durable memory of this machine's claims, and the lock for writing it.
type Memory interface {
	// Lock keeps other processes of this cluster on this machine from claiming, until unlock is called or the process
	// ends. If another process has the lock, the error wraps volume.ErrNoneFree.
	Lock() (unlock func(), err error)
	// Journal reads the journal, or returns the zero value if there is none.
	Journal() (Journal, error)
	// Remember writes the journal durably.
	Remember(j Journal) error
}

// Content is the content of a device.
type Content struct {
	// Blank means provably never used. Its first and last MiB are zero, it has no signature, and nobody has it open.
	Blank bool
	// Type, UUID and Label describe the filesystem; Type is "" if there is none that can be mounted.
	Type, UUID, Label string
	// Other describes content that is neither blank nor a filesystem that can be mounted.
	Other string
}

// Journal records this machine's requests and claims for one cluster. It survives the process and a restart of the
// machine. It belongs to one instance: a copy on another instance (from an image of this machine) is ignored.
type Journal struct {
	Version  int    `json:"version"` // 1
	Instance string `json:"instance"`
	// Held is the volume that was held last and not given up. It may be adopted without asking EC2.
	Held *Holding `json:"held,omitempty"`
	// Attaching has the volumes for which AttachVolume was sent and whose outcome is not known yet: the time of the last
	// request by volume ID.
	Attaching map[string]time.Time `json:"attaching,omitempty"`
	// Detaching has the volumes for which DetachVolume was sent and may still be executed. Until that is settled, such a
	// volume must not be used here: the late request would take it away from a running member.
	Detaching map[string]time.Time `json:"detaching,omitempty"`
	// Formatting has the volume whose device was proven blank and is being formatted with this UUID. Nothing else has
	// been written to it yet.
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
