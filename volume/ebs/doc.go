// Package ebs claims AWS EBS volumes: machines come and go, disks stay, and exactly one machine runs each member.
//
// # What decides
//
// The tag is a hint, AttachVolume is the lock, the local block device is the proof, and terminate and detach are the
// fence. A tag cannot be a lock: CreateTags has no condition, the last writer wins, and every Describe may be
// arbitrarily stale and go back in time. The attachment of a volume without Multi-Attach is linearizable: AttachVolume
// succeeds for one instance, and only that instance can read or write. So no step that matters for safety rests on a
// Describe. The worst that a stale tag or attachment can cause is a wasted AttachVolume, which EC2 answers with
// VolumeInUse.
//
// # A claim, step by step
//
// A claimAttempt goes through these steps once: attempt.go runs them in order, present.go adopts a volume whose device
// is here, choose.go picks a free one, seize.go takes over the volume of a stopped instance, requests.go keeps the
// journal, and prepare.go works on the device.
//
//  0. local: take this machine's lock, and look at its devices first. The NVMe serial in sysfs is the volume's ID; a
//     cached answer or a link below /dev/disk is not reliable. If a volume of the cluster is here, adopt it as soon as
//     earlier requests are settled. If several are, adopt one and detach the others, which were never mounted.
//  1. scan: list the cluster's volumes in this zone. A volume is free if it is available, has no attachment of any
//     kind, and has no claim of another node that has changed lately, on this process's own clock.
//  2. choose: the volume reserved for this instance, or the one it claimed before, otherwise one by a hash.
//  3. declare: write the claim (epoch, nonce, address) to the tag.
//  4. settle: wait, and read the claim back twice. This only spreads the nodes over the volumes; it excludes nobody.
//  5. attach: a request without an answer may be executed later. So it is journaled first, and for up to two minutes no
//     other volume is tried until its outcome is known. If it is executed after that, the machine has a second volume,
//     which is never mounted, and is detached.
//  6. await the device with exactly that serial.
//  7. verify what only EC2 knows of the attachment.
//  8. format the device if, and only if, it is provably blank.
//  9. mount the device, compare its identity file and raise the epoch. Then write the claim as held.
//
// # Afterwards
//
// Watch checks the device, the mount and the filesystem's error count twice a second, and asks EC2 once a minute. EC2
// may fail for any length of time: nothing needs to be renewed. Only positive evidence ends a claim: a device that is
// gone, a filesystem that has failed, or three reads over a minute that show the volume attached to another instance
// while the device does not answer. Then the filesystem is shut down, so that nothing can be written through open
// files, and the holder of the claim is told.
//
// Release with drop detaches. The request is journaled. Until it has been executed, or is too old to be executed, this
// machine does not use the volume again: a late detach would take the disk away from the next member.
//
// A volume of another instance is never detached, unless the operator allows it for stopped instances (takeover:
// stopped), and never by force. AWS itself detaches the volumes of a terminated instance.
//
// # How it is proved
//
// The code talks to a [Cloud] and a [Host]. The simulation runs it unchanged against both in memory, on a virtual
// clock, with stale, lost, late and repeated calls and a crash at any of them. The directory model has the protocol as
// a Spin model. Both have mutants that must be caught. The stories in package integration run the code with the real
// SDK, real block devices and real mounts.
//
// # Dangers
//
//   - Devices that are not NVMe devices (instances before Nitro) have no serials, so nothing can be claimed.
//   - A lock file keeps two processes of one cluster on one machine apart. Both must have the same state directory.
//   - A volume made from a snapshot has the identity of its original. It is refused until an operator has it adopted.
package ebs
