// Package snapshot saves, verifies and lists backups of an etcd database.
//
// # What it is for
//
// A snapshot is one open read transaction of the database ([Tx]). [Save] streams it to a [Store] without a client, a
// network or a copy on disk, reads the stored bytes back, and writes a sidecar ([Meta]) only when they hold what the
// transaction held. From then on it is a backup. [Verify] repeats the proof at any later time. [Keeper] does the saving
// on a schedule, on the node whose member is the raft leader.
//
// # Layout
//
// A store is a flat space of named objects. One backup is one directory, named by time as etcd-manager names its own,
// with microseconds in place of its counter, so that the order of names is the order of time:
//
//	<cluster>/2026-07-01T00:15:03Z-000042/holdfast.begin.json   reserves the name: who is saving here, since when
//	<cluster>/2026-07-01T00:15:03Z-000042/etcd.backup.zst       the data
//	<cluster>/2026-07-01T00:15:03Z-000042/holdfast.meta.json    the sidecar, written last: the commit mark
//
// Decompressed with any zstd, the data is what `etcdctl snapshot save` writes: the database, then its SHA-256.
// `etcdutl snapshot status` and `restore` accept it.
//
// # Invariants
//
//   - A sidecar exists only beside data that was read back and found equal. Whoever reads a sidecar may trust its
//     every byte or gets an error: it carries a checksum of itself.
//   - The identity in [Content] (revision, checksum, key count) is computed inside the very transaction that is copied.
//   - Two savers never share a name: the name is reserved with [Store.PutIfAbsent], not guessed to be unique.
//   - The transaction is open only while bytes flow. It is closed before the store has finished, when the context
//     ends, when the store fails, and when the store accepts nothing for a minute.
//   - What cannot be read is an error or is listed with a problem. It is never "there are no backups".
//   - Saving and verifying use the same memory for a database of any size, but for one bit a page while verifying.
//
// # What it never does
//
// It imports no etcd server, never writes to a database, and deletes nothing but what [Delete] was told to and what
// its own failed Save had begun.
//
// # Dangers
//
//   - While a [Tx] is open, a defragmentation blocks all reads and writes of the member, and stopping the member hangs.
//     Whoever implements [Source] must keep the three apart.
//   - bbolt's own Tx.Check must not be run in this process. etcd keeps no freelist on disk, and rebuilding it, bbolt
//     panics in a goroutine of its own when the tree is damaged: no recover can stop that, and it would take the live
//     member down with the backup. The page walk in pages.go finds the same faults, safely.
//   - A [Dir] whose mount is absent before its first use is an ordinary empty directory. Make the store a
//     sub-directory of the mount, so that an absent mount is an absent directory. Once used, its absence is noticed.
//   - Verifying needs as much free space as the database has bytes, in [Config.Scratch]; a scratch directory in memory
//     (/tmp often is) takes that much memory.
package snapshot
