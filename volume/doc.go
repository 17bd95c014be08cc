// Package volume claims the disk that gives a node its identity.
//
// A node has no slot until it holds a volume. The volume names the slot, the etcd member's name follows from the slot,
// and everything that must survive the node is stored on the volume. A Provider knows the volumes of one kind and lets
// this process claim one. The Claim says where the volume is mounted and to which cluster and slot it belongs, and
// notices when the volume is lost. The local provider is here. Package ebs has the one for AWS, and package volumetest
// the suite that both pass. docs/design.md says how to add a provider.
//
// # Where to look
//
//   - volume.go has the contract: Provider, Claim, Want.
//   - choose.go decides which volume a local claim takes. take.go takes it: lock, content, identity, epoch, tag.
//     held.go is the claim afterwards. For EBS these are attempt.go, choose.go and held.go in package ebs.
//   - hold.go, contents.go, identity.go, lock.go and volume.go have what all providers share.
//
// Package embedded/plan decides which slots a node leaves to others, and whether etcd starts on the volume.
//
// # Three things that must not be confused
//
//   - The lock decides. For the local provider it is flock(2): the kernel grants it to one open file and takes it
//     back when the process ends, even by a kill. (For a cloud disk it is the attachment.) Nothing else in this
//     package excludes another process.
//   - The tag (claimTag, `<slot>.claim`) records who holds the volume or held it last, in which epoch, and which disk
//     was formatted here. It is a hint: safety never rests on it. A torn tag proves nothing and is replaced.
//   - The identity (Identity, `identity.json` on the volume itself) proves that this directory is the volume we
//     believe it to be. An identity that is not ours is never overwritten.
//
// # Invariants
//
//   - At most one process holds a volume, and one process holds at most one volume of a provider.
//   - The epoch rises with every claim: it is higher than the one in the tag and the one in the identity. A claim
//     rewrites both, so losing either does not bring an old epoch back.
//   - A volume is formatted only when it is provably blank: the directory does not exist, or it is empty and its tag
//     names no disk. If the tag of an empty directory names a disk, its file system is taken to be unmounted.
//   - The marker (MarkerName) is outside the root. It remembers the last volume with data that this node held. If that
//     disk is not in its slot, a blank directory there is held but not touched. The claim then has a Mismatch and a
//     Missing until an operator has its content set aside. Release with drop, Yield and SetAside remove the marker.
//   - Foreign data is never touched. A volume that is not what its slot, cluster and tag say is held, so that no other
//     node takes it, but it has a Mismatch. Nothing is written to it until an operator has the content set aside, and
//     even then nothing is deleted.
//   - Want.Adopt is the one exception: etcd data made by etcd-manager or plain etcd, on a volume without an identity or
//     any other file of holdfast. It is claimed and given an identity, and nothing else on it is touched. The
//     exception does not apply if the tag or the marker names another disk, or while an etcd still runs on the data
//     ([layout.Running]).
//   - After a claim is lost, neither its volume nor its tag is written again.
//   - Every step can be repeated after the process was killed at any point in it.
//
// # Layout of the local provider
//
//	<root>/<slot>/                the volume
//	<root>/<slot>/identity.json   the identity of the volume
//	<root>/<slot>/aside/          what SetAside has set aside
//	<root>/<slot>.lock            the lock; never deleted, its content has no meaning
//	<root>/<slot>.claim           the tag
//	<data-dir>/last-volume.json   the marker of this node; a second one may lie elsewhere
//
// If volume.local.directory names the volume itself, the lock and the tag are inside it, and nothing is written beside
// it:
//
//	<directory>/.holdfast/volume.lock
//	<directory>/.holdfast/volume.claim
//
// Such a tag cannot show that a disk is not mounted, because it is on that disk. Only the marker can.
//
// The volume's directory is locked too, so that deleting the lock file cannot give the volume two holders.
//
// # Dangers
//
//   - The root must be on a file system of this machine. On a network file system, flock may be granted to one process
//     on each machine.
//   - A directory whose file system is not mounted looks blank. `volume.local.mount: auto` knows /etc/fstab and
//     systemd's units. If disks are mounted by other means, use `require`. A marker on the file system of the root
//     itself proves nothing.
//   - Watch looks at names, inodes and small files, which the kernel mostly answers from memory. It notices a volume
//     that was unmounted, replaced, taken or that no longer answers. A disk on which only reads and writes fail shows
//     up first as an error or a stall of etcd's own fsync.
//   - The kernel's file operations cannot be interrupted: Claim, SetAside and Release with drop do not return before
//     the disk answers. Release without drop touches no file.
package volume
