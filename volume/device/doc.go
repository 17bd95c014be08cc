// Package device handles the block devices of this machine that are EBS volumes: it finds them, proves them blank,
// formats, checks, mounts, grows and unmounts them, and notices when one is lost. It knows nothing of EC2, of claims or
// of etcd. It is for Linux, and needs root.
//
// # What is proof
//
//   - Which volume a device is: the serial that the NVMe controller reported to the kernel, in sysfs. It is local and
//     always current. A link below /dev/disk/by-id is no proof, since udev may have left it behind for another volume.
//     Nor is a device name, which on Nitro instances is only a label.
//   - That a device was never used. Three proofs must agree. Its first and last MiB, read past the page cache, are
//     zero. blkid, after the cache was dropped, finds no signature (RAID, LVM, encryption, swap, filesystems and
//     partition tables count). O_EXCL succeeds, so nobody has it mounted in any mount namespace. blkid alone is not
//     enough: a device with a damaged superblock looks blank to it.
//   - What is mounted where: device numbers in /proc/self/mountinfo. Paths have aliases.
//   - That a volume is lost: see [Guard.Check]. Each of its findings is a fact that does not go away by itself. What
//     cannot be determined, because a file cannot be opened or the device does not answer, is unknown, never evidence.
//
// # What is not
//
//   - O_EXCL succeeds even if a program has opened the device without it, as dd does.
//   - A device that does not answer is not lost. EBS volumes stall and come back, and with the timeout that AWS
//     advises the kernel waits forever. [ErrStalled] reports it.
//   - An ext4 filesystem with an error does not always show "ro": since Linux 6.15 it shows emergency_ro.
//   - fsync on a mounted device that was set read-only (blockdev --setro) still succeeds. Only FS_IOC_SHUTDOWN stops a
//     writer that has files open. [Guard.Fence] uses it.
//   - `losetup -d` and lazy unmounting do not stop writes.
//
// # Formatting
//
// [Format] formats only a device that a [Probe] has found blank, and checks again under O_EXCL. There is a moment
// between giving up O_EXCL and mkfs taking it; mkfs refuses a device that another program has taken meanwhile. The
// caller chooses and records the UUID of the filesystem beforehand. So what a crash leaves of it is recognised, and may
// be formatted again. A device with any other signature is refused.
//
// # Dangers
//
//   - A process that waits for a device in the kernel cannot be killed. So every such operation runs in a goroutine of
//     its own. The caller continues when its context has ended, or after the time that the function's comment states.
//     The operation hangs until the device answers or the machine is restarted.
//   - If a container or a service has a copy of a mount in its own mount namespace, the filesystem stays in use after
//     it was unmounted here. It also keeps its state, such as being shut down. Mount then reports the device as in use.
//   - The shutdown request applies to the filesystem that a directory is on. Sent to a mount point on which nothing is
//     mounted any more, it would stop the machine. Fence compares device numbers on the open directory first, and
//     spares a filesystem that the Guard has not seen mounted.
//   - A filesystem is grown while it is mounted, by the kernel and its journal. resize2fs on an ext4 filesystem that is
//     not mounted writes without a journal: if it is killed, e2fsck -p may refuse what it leaves. Growing a mounted
//     ext4 filesystem needs the capability CAP_SYS_RESOURCE besides CAP_SYS_ADMIN.
//   - mkfs.xfs wants 300 MiB at least.
package device
