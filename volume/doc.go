// Package volume claims the disk that gives a node its identity.
//
// A node is nobody until it holds a volume. The volume names the slot, from which the etcd member's name follows, and
// everything that must survive the node lies on it. A Provider knows the volumes there are and lets
// this process Claim one; the Claim says where the volume is mounted, whose it is, and notices when
// it is lost. The local provider is here; package ebs has the one of AWS, and package volumetest the suite that both
// pass. docs/design.md says how to add a provider.
//
// # Where to look
//
//   - volume.go has the contract: Provider, Claim, Want.
//   - choose.go decides which volume a local claim takes; take.go takes it: lock, content, identity, epoch, tag.
//     held.go is the claim afterwards. For EBS these are attempt.go, choose.go and held.go in package ebs.
//   - hold.go, found.go, identity.go, lock.go and carrier.go have what every provider does the same way.
//
// Which slots a node leaves to others, and whether etcd starts on the volume, is decided in embedded/plan.
//
// # Three things that must not be confused
//
//   - The lock decides. For the local provider that is flock(2): the kernel grants it to one open file and takes it
//     back when the process ends, however it ends. (For a cloud disk it is the attachment.) Nothing else in this
//     package excludes another process.
//   - The tag (claimTag, `<slot>.claim`) is intent and memory: who holds the volume or held it last, in
//     which epoch, and which disk was formatted here. Safety never rests on it. A torn tag is not
//     evidence of anything and is replaced.
//   - The identity (Identity, `identity.json` on the volume itself) is the proof that the directory
//     in front of us is the volume we believe it to be. It is never overwritten when it is not ours.
//
// # Invariants
//
//   - At most one process holds a volume, and one process holds at most one volume of a provider.
//   - The epoch rises with every claim: it is higher than that of the tag and of the identity. Both
//     are rewritten by a claim, so losing either one does not bring an old epoch back.
//   - A volume is formatted only when it is provably blank: the directory does not exist, or it is
//     empty and its tag names no disk. An empty directory whose tag does name a disk is taken for a
//     file system that is not mounted.
//   - The marker (MarkerName), outside of the root, remembers the last volume with data that this node held. If that
//     disk is not in its slot, a blank directory there is held without being touched, and has a Mismatch and a Missing,
//     until an operator has its content set aside. Release with drop, Yield and SetAside end the memory.
//   - Foreign data is never touched. A volume that is not what its slot, cluster and tag say is held, so that no other
//     node takes it, but has a Mismatch: nothing is written to it until an operator has it set aside; it is not deleted
//     then either.
//   - Want.Adopt has one exception: data of etcd's that etcd-manager or plain etcd made, on a volume without an
//     identity and without a trace of holdfast. It is claimed and given an identity, and nothing else of it is touched.
//     It is no exception where the claim or the marker names another disk, nor while an etcd still runs on the data
//     ([layout.Running]).
//   - A claim that is lost is never written to again, neither its volume nor its tag.
//   - Every step can be repeated after the process was killed at any line of it.
//
// # Layout of the local provider
//
//	<root>/<slot>/                the volume
//	<root>/<slot>/identity.json   whose volume it is
//	<root>/<slot>/aside/          what was set aside by SetAside
//	<root>/<slot>.lock            the lock; never deleted, its content means nothing
//	<root>/<slot>.claim           the tag
//	<data-dir>/last-volume.json   the marker of this node; a second one may lie elsewhere
//
// Where volume.local.directory names the volume itself, nothing is written beside it:
//
//	<directory>/.holdfast/volume.lock
//	<directory>/.holdfast/volume.claim
//
// There the tag is no evidence of a disk that is not mounted: only the marker is.
//
// The directory of the volume is locked as well, so that deleting the lock file does not give the volume two holders.
//
// # Dangers
//
//   - The root must be on a file system of this machine. On a network file system flock may be
//     granted to one process of each machine.
//   - A directory whose file system is not mounted looks blank. `volume.local.mount: auto` knows /etc/fstab and the
//     units of systemd; where disks are mounted by other means, use `require`. A marker on the file system of the root
//     itself is no evidence.
//   - Watch looks at names, inodes and small files, most of which the kernel answers from memory.
//     It notices a volume that was unmounted, replaced, taken or that no longer answers, but a disk
//     that fails only reads and writes shows first as an error or a stall of etcd's own fsync.
//   - File operations of the kernel cannot be interrupted: Claim, SetAside and Release(drop) do not
//     return before the disk answers. Release without drop touches no file.
package volume
