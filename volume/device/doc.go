// Package device knows the block devices of this machine that are EBS volumes: it finds them, proves them
// blank, formats, checks, mounts, grows and unmounts them, and notices when one is lost. It knows nothing of
// EC2, of claims or of etcd. It is for Linux, and needs root.
//
// # What is proof
//
//   - Which volume a device is: the serial that the NVMe controller gave the kernel, in sysfs. It is local and
//     never old. A link below /dev/disk/by-id is no proof, since udev may have left it behind for another
//     volume, nor is a device name, which on Nitro instances is a label.
//   - That a device was never used: its first and last MiB, read past the page cache, are zero; blkid, which
//     has had the cache dropped for it, knows no signature (RAID, LVM, encryption, swap, filesystems and
//     partition tables count); and O_EXCL could be had, so that nobody has it mounted, in whichever mount
//     namespace. All three must agree. What blkid alone calls blank may be a damaged superblock.
//   - What is mounted where: device numbers in /proc/self/mountinfo. Paths have aliases.
//   - That a volume is lost: see [Guard.Check]. Each of its answers is a fact that does not go away by
//     itself. What could not be found out, because a file could not be opened or the device does not answer,
//     is unknown, and never evidence.
//
// # What is not
//
//   - O_EXCL says nothing of a program that has merely opened the device, as dd does.
//   - A device that does not answer is not lost: EBS volumes stall and come back, and AWS advises a timeout
//     for which the kernel waits forever. [ErrStalled] says so.
//   - An ext4 that has met an error does not always show "ro": since Linux 6.15 it shows emergency_ro.
//   - fsync on a device set read-only (blockdev --setro) still succeeds once it is mounted: only
//     FS_IOC_SHUTDOWN stops a writer that has files open. That is what [Fence] uses.
//   - `losetup -d` and unmounting lazily end no writes.
//
// # Formatting
//
// [Format] formats only what a [Probe] has found blank before, and looks once more under O_EXCL. There is an
// instant between giving that up and mkfs taking it, in which mkfs refuses a device that somebody else has
// taken. The filesystem gets a UUID that was chosen before, and recorded by the caller: what a crash leaves of
// it is recognised, and may be formatted again. Everything that bears another signature is refused.
//
// # Dangers
//
//   - The kernel holds up who waits for a device, and such a process cannot be killed. Whatever may be held up
//     runs beside the caller, which continues after its context has ended, or after the time that the function
//     names. What is held up stays until the device answers, or the machine is restarted.
//   - Mount namespaces: a filesystem that a container or a service has got a copy of stays in use after it was
//     unmounted here, and keeps the state it had, also that of having been shut down. Mount then says that the
//     device is in use.
//   - The shutdown request is for the filesystem that a directory is on: sent to a mount point on which
//     nothing is mounted any more it would stop the machine. Fence compares device numbers on the open
//     directory before it sends it.
//   - To grow a mounted ext4 needs the capability CAP_SYS_RESOURCE beside CAP_SYS_ADMIN. It is not done while
//     it is unmounted: that is not safe against a crash.
//   - mkfs.xfs wants 300 MiB at least.
package device
