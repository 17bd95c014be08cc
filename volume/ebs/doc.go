// Package ebs claims AWS EBS volumes: masters come and go, disks stay, and exactly one machine runs each
// member.
//
// # What decides
//
// The tag is intent, AttachVolume is the lock, the local block device is the proof, terminate and detach
// are the fence. A tag cannot be a lock: CreateTags has no condition, the last writer wins, and every
// Describe may be stale without bound and go back in time. What is linearizable is the attachment of a
// volume that is not a Multi-Attach one: AttachVolume succeeds for one instance, and only that instance can
// read or write. So no step whose safety matters rests on what a Describe said: the worst that a stale tag
// or attachment can do is a wasted AttachVolume, which is answered VolumeInUse.
//
// # A claim, step by step
//
// A claimAttempt is one walk through these steps: attempt.go runs them in order, present.go adopts a volume that is
// here, choose.go picks a free one, seize.go takes over that of a stopped instance, requests.go keeps the journal, and
// prepare.go works on the device.
//
//  0. local: take this machine's lock and look at its devices first (the NVMe serial in sysfs is the volume's ID;
//     neither a cached answer nor a link below /dev/disk is). A volume of the cluster that is here is adopted, as soon
//     as earlier requests are settled. When there are several, one is, and the others, which were never mounted, are
//     detached.
//  1. scan: list the cluster's volumes in this zone. Free is what is available, has no attachment of any
//     kind, and bears no other node's claim that has changed lately, on this process's own clock.
//  2. choose: the volume reserved for this instance, or that it claimed before, else one by a hash.
//  3. declare: write the claim (epoch, nonce, address) to the tag,
//  4. let it settle, and read it back twice. This only spreads the nodes over the volumes; it keeps nobody out.
//  5. attach: a request without an answer may be executed later, so it is journaled first, and no other
//     volume is tried until it is known what became of it, for at most two minutes. Should it come true
//     after that, the machine has a second volume, which is never mounted, and detached.
//  6. await the device with that very serial.
//  7. verify what only EC2 knows of the attachment.
//  8. format the device if, and only if, it is provably blank.
//  9. mount it, compare the identity file on it and raise its epoch. Then write the claim as held.
//
// # Afterwards
//
// Watch looks at the device, the mount and the filesystem's error count twice a second, and asks EC2 once a
// minute. EC2 may fail for any time: nothing is renewed, and nothing but positive evidence ends a claim: a
// device that is gone, a filesystem that has failed, or three reads over a minute that show the volume
// attached to another instance. Then the filesystem is shut down, so that nothing can be written through
// files that are still open, and the holder of the claim is told.
//
// Release with drop detaches. The request is journaled, and until it is known to be executed, or too old
// to be, the volume is not used on this machine again: a late one would take the disk away from the next
// life's member.
//
// A volume of another instance is never detached, unless the operator allows it for stopped ones
// (takeover: stopped), and never by force. Of a terminated instance AWS detaches the volumes by itself.
//
// # How it is proved
//
// The code talks to a [Cloud] and a [Host]. The simulation runs it unchanged against both in memory, on a
// virtual clock, with stale, lost, late and repeated calls and a crash at any of them; the directory model
// has the protocol as a spin model; both have mutants that must be caught. The stories in package
// integration run it with the real SDK, real block devices and real mounts.
//
// # Dangers
//
//   - An instance whose devices are no NVMe devices (before Nitro) shows no serials: nothing can be claimed.
//   - Two processes of one cluster on one machine are kept apart by a lock file; both must have the same
//     state directory.
//   - A volume made from a snapshot carries the identity of its original, and is refused until an operator
//     has it adopted.
package ebs
