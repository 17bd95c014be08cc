// Package snapshot saves, proves, lists, copies, prunes and fetches backups of an etcd database.
//
// # What it is for
//
// A snapshot is one open read transaction of the database ([Tx]). [Save] streams it to a [Store] without a client or a
// copy on disk. It reads the stored bytes back, and writes a sidecar ([Meta]) only if they hold what the transaction
// held. From then on it is a backup. [Verify] repeats the proof at any later time; [Fetch] does so while it writes a
// file that can be restored. [Keeper] saves on a schedule, on the node whose member is the raft leader. If there is a
// spool directory, it saves into that first, so that the transaction never waits for a network, and then copies the
// backup to the main store ([Copy]). It also prunes, and drills: it restores the newest backup in a separate process
// and compares the result. [Dir] is the store in a directory, package s3 the one in a bucket.
//
// # Where to look
//
//   - save.go saves. verify.go proves a backup: the stored bytes, the stream, then the database. pages.go walks the
//     pages of the database, and content.go sums its content. drill.go restores one aside.
//   - proof.go records what was proven, order.go orders backups, and prune.go decides which are deleted. keeper.go runs
//     the schedule.
//   - store.go is the contract of a store, timely.go limits how long one may take, layout.go has the names of its
//     objects, and scan.go and list.go read them. mark.go knows the newest backup without a listing.
//
// # Layout
//
// A store is a flat space of named objects. One backup is one directory. Save names it by time as etcd-manager does,
// but with microseconds in place of etcd-manager's counter, so that holdfast's names are ordered by time:
//
//	2026-07-01T00:15:03Z-000042/holdfast.begin.json   reserves the name: which node is saving here, since when
//	2026-07-01T00:15:03Z-000042/etcd.backup.zst       the data; .gz in etcd-manager's format, plus .age if encrypted
//	2026-07-01T00:15:03Z-000042/holdfast.verify.json  the last verification; .digest.json without a key
//	2026-07-01T00:15:03Z-000042/holdfast.drill.json   the last drill
//	2026-07-01T00:15:03Z-000042/holdfast.pin.json     only while the backup is pinned (never pruned), with the reason
//	2026-07-01T00:15:03Z-000042/holdfast.meta.json    the sidecar: the commit mark
//	2026-07-01T00:15:03Z-000042/_etcd_backup.meta     only in etcd-manager's format: its commit mark, written last
//	holdfast/<cluster>/...                            what nodes tell each other: records, proposals, the last drill
//	holdfast/<cluster>/newest.json                    a copy of the newest backup's sidecar, for when it is not listed
//	control/...                                       etcd-manager's: commands ([Commands]), its cluster's specification
//	holdfast-store-id                                 the store's identity ([StoreID])
//
// Except for the pin and the proofs, each object is written after the one above it, and deleted before it. So whenever
// a save or a deletion is interrupted, a backup with a sidecar is whole, etcd-manager sees no backup that holdfast does
// not see, and the object that says whose backup it was goes last.
//
// Decompressed with any zstd or gzip, the data is what `etcdctl snapshot save` writes: the database, then its SHA-256.
// `etcdutl snapshot status` and `restore` accept it.
//
// A name may be any single part of a path, because etcd-manager's may ([Verify], [Copy], [Delete] and others accept all
// such names). But only Save makes names, and a sidecar is valid only in the directory that it names. A directory that
// was renamed or copied by hand is listed with a problem.
//
// # Formats
//
// [FormatNative] is zstd and a sidecar. [FormatManager] is what etcd-manager lists and restores: gzip and its own mark,
// with a sidecar beside them. The mark holds the version of etcd, the time and the number of members, and nothing else:
// etcd-manager refuses the file if it has an unknown key. It restores only with versions of etcd that it contains. For
// 3.5 and 3.6 the latest patch that it knows replaces the others; for 3.7 the patch must match (as of its
// v3.0.20260707; none before kops 1.37). holdfast writes the true version, so a backup of a 3.7 that etcd-manager lacks
// is listed there but cannot be restored there.
//
// A crash between the sidecar and the mark leaves a good backup that etcd-manager does not see. For holdfast it counts,
// and is pruned and restored. It is listed as unmarked ([Backup].Unmarked), and Copy writes the mark in the copy.
//
// A backup that has etcd-manager's mark but no sidecar is legacy. Nothing proves whose it is, or what was in it when it
// was made. It is listed, verified as far as its own trailer allows, copied and restored, but never pruned.
//
// # Whose backup it is
//
// A cluster is its name and its lineage, the ID of the record with which it was founded ([Identity]). A backup is
// foreign if its sidecar has another name, or another lineage where both are known. So a cluster that was founded again
// under an old name does not prune the backups of the old one, and restores them only if it is told to. An unfinished
// backup is judged by the object that reserved its name. If the lineage is not known, the name alone decides. Prune
// then refuses if the store holds backups of several lineages.
//
// # Which one is the newest
//
// Backups of one lineage are ordered by generation, then by revision; times only order backups with the same content
// ([Newest]). [Latest], drills, the status and the backups that are always kept use this order. The schedule is about
// time and uses the times of the present generation's backups. Legacy backups, and those of an etcd that holdfast does
// not run, have no generation: they are ordered by time, behind all others.
//
// # What was proven since
//
// Every verification or drill of a backup records its result beside it ([Record]), in one object for each kind: the
// last result replaces the one before. A bad result stands ([Backup].Failed) until a good one of the same or a stronger
// kind is stored later, by the store's clock. A drill proves more than a verification, and a verification more than a
// digest. While a bad result stands, the backup is not the newest, does not count for the schedule, and is never
// pruned. It can be restored by its name. A proof that cannot be read says nothing about the backup and is listed as
// unknown.
//
// # Retention
//
// [Keep] keeps every backup for a while, the last of each hour and then of each day for longer, and always the newest
// few. Foreign, legacy, pinned, damaged and unverified backups, and those from the future, are never pruned.
//
// Clocks are sometimes wrong, and a deletion cannot be undone:
//
//   - Ages count from the last backup, and a long gap counts only in part. A clock that jumps a year ahead, or a year
//     without backups, costs a few of the older ones, never all of them. While nothing is saved, nothing expires.
//   - Prune, and everything else that needs the age of an unfinished backup, uses the local clock or the store's,
//     whichever is behind. So a save in progress is not mistaken for one that failed a day ago.
//   - A backup from the future neither holds up the schedule nor takes the place of one of the newest. It is never
//     pruned.
//
// # Invariants
//
//   - A sidecar exists only beside data that was read back and found equal. It carries a checksum of itself, so its
//     reader can trust every byte or gets an error.
//   - The identity in [Content] (revision, checksum, key count) is computed inside the transaction that is copied.
//   - Two writers never share a name: [Store.PutIfAbsent] reserves it. Two copiers of the same bytes may help each
//     other. If two different backups have the same name, one stays and the other is an error.
//   - The transaction is open only while bytes flow. It is closed before the store has finished, when the context ends,
//     when its member is about to stop, when the store fails, and when the store accepts nothing for a minute.
//   - What cannot be read is an error or is listed with a problem. It is never reported as "there are no backups".
//   - The newest verified backup, by generation and revision, is never pruned.
//   - Saving, verifying and copying use the same memory for a database of any size, except one bit per page while
//     verifying, and at most 16 MiB for the keys written since the last compaction. Listing reads one small object for
//     each backup, and no data.
//
// # What it never does
//
// It imports no etcd server and never writes to a database in use. It deletes only what [Delete] was told to delete,
// what [Prune] may delete, and what its own failed Save had begun. It touches no object that is not in the layout
// above.
//
// # Dangers
//
//   - While a [Tx] is open, a defragmentation blocks all reads and writes of the member, and stopping the member hangs.
//     An implementation of [Source] must keep the three apart.
//   - bbolt's own Tx.Check must not be run in this process. etcd keeps no freelist on disk. While bbolt rebuilds it, it
//     panics in a goroutine of its own if the tree is damaged: no recover can stop that, and the live member would go
//     down with the backup. A child process would not be enough either: docs/dependencies.md lists what that check does
//     not find. The page walk in pages.go finds it, safely.
//   - Someone who knows the formats may forge the content of a store. What is decompressed, listed or read into memory
//     is bounded, the page walk by the size of the file, and faults of the reader's own goroutine become errors. A
//     process that serves still sets [Options].Examine, so that a crafted database can only end a child process.
//   - A [Dir] whose mount is absent before its first use is an ordinary empty directory. Make the store a
//     sub-directory of the mount, so that an absent mount is an absent directory. Once used, its absence is noticed.
//   - Verifying needs as much free space in [Config.Scratch] as the database has bytes. If the scratch directory is in
//     memory (as /tmp often is), it takes that much memory.
//   - Without the identity file nobody can restore an encrypted backup, or prove more than that the stored bytes are
//     those that were written. Keep it apart from the store, but where the drill can read it.
//   - etcd-manager, pointed at the same store, prunes everything with its mark by its own rules, even if it is pinned
//     or foreign. It leaves a name alone that is not a time; Save makes no such names.
//   - Anyone who can write to the store can record that a good backup is bad. Then it is passed over, which every
//     listing shows, and nothing is deleted. A new verification or drill ends it.
//   - An unfinished backup without a readable begin object belongs to nobody, and stays until someone deletes it.
//   - In a directory on a disk whose machine's clock is wrong, names and times of objects are wrong alike. The newest
//     backups and one of each day survive it; hourly ones of the last week may be thinned to daily ones.
package snapshot
