// Package embedded runs one etcd member inside this process: it starts and stops it, tells
// how it is, changes the member list, opens snapshots, defragments, keeps a few keys of
// holdfast's own in etcd (keys.go, disruption.go), and reads, moves and rebuilds data
// directories: from a backup, from a survivor's own log (replay.go), from what etcd 3.5 left
// (repairwal.go), tells which members each of its lists has (memberships.go), and reads and
// takes up the data of another program (foreign.go, origin.go, takeup.go). It decides nothing.
// Whether to found, join, promote, remove, set aside or take up is decided in embedded/plan, whose
// words this package speaks: Member and Disk are what the coordinator drives. What etcd is
// configured with is embedded/settings. It does what it is told and says exactly what went wrong.
//
// # What it never does
//
//   - It never deletes data that is in use. SetAside renames; Reclaim deletes what was set aside.
//   - It never founds or joins by its own judgement, and never retries.
//   - It never runs etcd without fsync, with self-made certificates, or on an http URL where
//     a certificate is configured.
//   - It never waits without bound: every wait ends with a context or a constant. To say how the
//     member is it does not wait for a disk either (glimpse).
//   - It never takes a leader that raft has shown for one that is there (confirmation).
//
// # Invariants
//
//   - One Member runs at most one etcd at a time, and a data directory has at most one
//     Member: it is locked from the first check to the last close.
//   - No snapshot is open while etcd defragments or closes its database (gate).
//   - Once Stop has begun no snapshot opens; once it has returned nil nothing of etcd runs.
//   - After Kill no client is answered and no raft message leaves.
//
// # Dangers, all of etcd 3.7.3
//
// Close waits forever on a member that was never ready, and 7 s for an open watch; see
// life.shut and cut. StartEtcd waits forever, without a word, when somebody has the database
// open; see lockDir and probeBackend. It panics on a damaged database; see checkBackend. It
// panics on the data of a newer etcd, and on entries that etcd 3.5 wrote; see checkNewer and
// checkWAL. A defragmentation under an open snapshot blocks every read and write; clients' own
// snapshot and defragment calls therefore pass our gate too.
//
// A disk that accepts no writes, without an error, stops the loop that brings etcd raft's state,
// and all that reads the database: the member shows the leader it had, itself perhaps, and hangs
// those who ask. See confirmation, glimpse and TestStalledDisk.
//
// etcd ends the process (zap Fatal, or a panic in a goroutine of its own) when the disk is
// full, failing or corrupt. So every caller must be able to continue after a kill at any line,
// and a supervisor must start the process again.
//
// Two things reach into etcd where it offers no door: Connected reads a private field by
// reflection, and errRemoved follows from what etcd does not do (life.wait). Both have tests
// that fail when a new etcd changes them.
//
// etcd's metrics are global to the process and keep their last value after the member has
// ended; Status is the truth.
package embedded
