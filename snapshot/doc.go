// Package snapshot saves, proves, lists, copies, prunes and fetches backups of an etcd database.
//
// # What it is for
//
// A snapshot is one open read transaction of the database ([Tx]). [Save] streams it to a [Store] without a client or a
// copy on disk, reads the stored bytes back, and writes a sidecar ([Meta]) only when they hold what the transaction
// held. From then on it is a backup. [Verify] repeats the proof at any later time; [Fetch] does so while it writes a
// file that can be restored. [Keeper] saves on a schedule, on the node whose member is the raft leader. If there is a
// spool directory it saves into that, so that the transaction never waits for a network, and copies the backup to the
// main store ([Copy]). It also prunes, and drills: it restores the newest backup in a process of its own and compares.
// [Dir] is the store in a directory, package s3 the one in a bucket.
//
// # Where to look
//
//   - save.go saves. verify.go proves a backup: the stored bytes, the stream, then the database, whose pages pages.go
//     walks and whose content content.go sums. fetch.go writes a file to restore; drill.go restores one aside.
//   - proof.go records what was proven; order.go says which backup is the newest; prune.go says which ones go.
//     keeper.go runs the schedule.
//   - store.go is the contract of a store; layout.go has the names of its objects; scan.go and list.go read what is
//     there.
//
// # Layout
//
// A store is a flat space of named objects. One backup is one directory. Save names it by time as etcd-manager does,
// with microseconds in place of its counter, so that the order of our names is the order of time:
//
//	2026-07-01T00:15:03Z-000042/holdfast.begin.json   reserves the name: who is saving here, since when
//	2026-07-01T00:15:03Z-000042/etcd.backup.zst       the data; .gz in etcd-manager's format, .age after it if encrypted
//	2026-07-01T00:15:03Z-000042/holdfast.verify.json  the last verification since, by anyone; .digest.json without a key
//	2026-07-01T00:15:03Z-000042/holdfast.drill.json   the last drill of it
//	2026-07-01T00:15:03Z-000042/holdfast.pin.json     only while the backup is pinned: it is never pruned, and why
//	2026-07-01T00:15:03Z-000042/holdfast.meta.json    the sidecar: the commit mark
//	2026-07-01T00:15:03Z-000042/_etcd_backup.meta     only in etcd-manager's format: its commit mark, the very last
//	holdfast/<cluster>/...                            what nodes tell each other: records, proposals, the last drill
//	control/...                                       etcd-manager's: commands ([Commands]), its cluster's specification
//	holdfast-store-id                                 the store's identity ([StoreID])
//
// Except for the pin and the proofs, each is written after the one above it, and deleted before it. So wherever a save
// or a deletion is cut short, a backup with a sidecar is whole, etcd-manager sees no backup that we do not see, and the
// object that says whose backup it was goes last.
//
// Decompressed with any zstd or gzip, the data is what `etcdctl snapshot save` writes: the database, then its SHA-256.
// `etcdutl snapshot status` and `restore` accept it.
//
// A name may be any single part of a path, because etcd-manager's may ([Verify], [Copy], [Delete] and the others take
// all of them). But only Save gives names, and a sidecar is valid only in the directory that it names: a directory that
// was renamed or copied by hand is listed with a problem.
//
// # Formats
//
// [FormatNative] is zstd and our sidecar. [FormatManager] is what etcd-manager lists and restores: gzip, and its mark,
// with our sidecar beside them. The mark holds the version of etcd, the time and the number of members, and nothing
// else: etcd-manager refuses the file if it has a key that it does not know. It restores only with versions of etcd
// that it carries: for 3.5 and 3.6 the latest patch that it knows stands in for the others, for 3.7 the patch must
// match (as of its v3.0.20260707; none before kops 1.37). We write the true version, so a backup of a 3.7 that it lacks
// is listed there but cannot be restored there.
//
// A crash between the sidecar and the mark leaves a backup that is good, counts, is pruned and restored by us, and that
// etcd-manager does not see. It is listed as unmarked ([Backup].Unmarked); Copy writes the mark in the copy.
//
// A backup without a sidecar that has etcd-manager's mark is legacy. Nothing proves whose it is, or what was in it when
// it was made: it is listed, verified as far as its own trailer allows, copied and restored, but never pruned.
//
// # Whose backup it is
//
// A cluster is its name and its lineage, the id of the record with which it was founded ([Identity]). A backup is
// foreign if its sidecar has another name, or another lineage where both are known: a cluster that was founded again
// under an old name does not prune the backups of the old one, nor restore them unless it is told to. An unfinished
// backup is judged by the object that reserved its name. Where the lineage is not known the name alone decides; Prune
// then refuses if the store holds backups of several.
//
// # Which one is the newest
//
// Backups of one lineage are ordered by generation, then by revision; times only order those that hold the same
// ([Newest]). That is the order of [Latest], of drills, of the status, and of those that are kept whatever their age.
// The schedule is about time and goes by that. Legacy backups, and those of an etcd that we do not run, tell no
// generation: they are ordered by time and stand behind all others.
//
// # What was proven since
//
// Anyone who verifies or drills a backup records the result beside it ([Record]), one object for each kind: the last
// one replaces that before. A bad one stands ([Backup].Failed) until a good one of its kind or of a stronger one is
// stored later, by the store's clock; a drill proves more than a verification, and that more than a digest. While it
// stands the backup is not the newest, is not counted by the schedule, and is never pruned. It can be restored by its
// name. A proof that cannot be read says nothing of the backup and is listed as unknown.
//
// # Retention
//
// [Keep] keeps every backup for a while, the last of each hour and then of each day for longer, and the newest few
// always. Never pruned are foreign, legacy, pinned, damaged and unverified backups, and those from the future.
//
// Clocks are sometimes wrong, and a deletion cannot be undone:
//
//   - Ages count from the last backup, and a long gap counts only in part. A clock that jumps a year ahead, and a year
//     in which no backups were made, cost a few of the older ones, never all of them. While nothing is saved, nothing
//     expires.
//   - Prune, and everything else that needs the age of an unfinished backup, goes by the local clock or the store's,
//     whichever is behind: so a save under way is not mistaken for one that failed a day ago.
//   - A backup from the future neither holds up the schedule nor takes the place of one of the newest. It is never
//     pruned.
//
// # Invariants
//
//   - A sidecar exists only beside data that was read back and found equal. A reader of a sidecar can trust every byte
//     of it or gets an error: it carries a checksum of itself.
//   - The identity in [Content] (revision, checksum, key count) is computed inside the transaction that is copied.
//   - Two writers never share a name: it is reserved with [Store.PutIfAbsent], not guessed to be unique. Two copiers of
//     the same bytes may help each other; of two different backups of one name one stays, and the other is an error.
//   - The transaction is open only while bytes flow. It is closed before the store has finished, when the context
//     ends, when its member is about to stop, when the store fails, and when it accepts nothing for a minute.
//   - What cannot be read is an error or is listed with a problem. It is never "there are no backups".
//   - The newest verified backup, by generation and revision, is never pruned.
//   - Saving, verifying and copying use the same memory for a database of any size, except one bit a page while
//     verifying. Listing reads one small object for each backup and no data.
//
// # What it never does
//
// It imports no etcd server, never writes to a database that is served, and deletes nothing but what [Delete] was told
// to, what [Prune] may, and what its own failed Save had begun. It touches no object that is not in the layout above.
//
// # Dangers
//
//   - While a [Tx] is open, a defragmentation blocks all reads and writes of the member, and stopping the member hangs.
//     An implementation of [Source] must keep the three apart.
//   - bbolt's own Tx.Check must not be run in this process. etcd keeps no freelist on disk, and while it rebuilds it
//     bbolt panics in a goroutine of its own when the tree is damaged: no recover can stop that, and it would take the
//     live member down with the backup. A child process would not be enough either: docs/dependencies.md says what that
//     check does not find. The page walk in pages.go does, safely.
//   - What a store holds may be forged by somebody who knows the formats. What is decompressed, listed or read into
//     memory is bounded, the page walk by the size of the file, and faults of the reader's own goroutine are errors. A
//     process that serves sets [Options].Examine nevertheless, so that a crafted database can end only a child.
//   - A [Dir] whose mount is absent before its first use is an ordinary empty directory. Make the store a
//     sub-directory of the mount, so that an absent mount is an absent directory. Once used, its absence is noticed.
//   - Verifying needs as much free space as the database has bytes, in [Config.Scratch]; a scratch directory in memory
//     (/tmp often is) takes that much memory.
//   - An encrypted backup is worth as much as the identity file: without it nobody can restore, nor prove more than
//     that the stored bytes are those that were written. Keep it apart from the store, and where the drill can read it.
//   - etcd-manager, pointed at the same store, prunes by its own rules everything that carries its mark, pinned or not,
//     foreign or not. It leaves alone a name that is no time; Save gives none.
//   - Anyone who can write to the store can record that a good backup is bad: then it is passed over, which every
//     listing says, and nothing is deleted. A new verify or drill ends it.
//   - An unfinished backup without a readable begin object is nobody's, and stays until somebody deletes it.
//   - In a directory on a disk whose machine's clock is wrong, names and times of objects are wrong alike. The newest
//     backups and one of each day survive it; hourly ones of the last week may be thinned to daily ones.
package snapshot
