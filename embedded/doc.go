// Package embedded runs one etcd member inside this process. It starts, stops and observes the member, changes the
// member list, opens snapshots, defragments, and keeps a few keys of holdfast's own in etcd (keys.go, disruption.go).
//
// It also works on data directories on which no etcd runs. It rebuilds one from a backup, or from a survivor's own log
// (replay.go). It repairs a log that etcd 3.5 left behind (repairwal.go), and compares the member lists in a directory
// (memberships.go). It reads another program's data and takes it up (foreign.go, origin.go, takeup.go).
//
// The package decides nothing. Whether to found, join, promote, remove, set aside or take up is decided in
// embedded/plan, whose types this package uses. The coordinator drives Member and Disk. What etcd is configured with is
// in embedded/settings.
//
// # What it never does
//
//   - It never deletes data that is in use. SetAside renames; Reclaim deletes what was set aside.
//   - It never founds or joins by its own judgement, and never retries.
//   - It never runs etcd without fsync, with self-signed certificates, or on an http URL where a certificate is
//     configured.
//   - It never waits without bound: every wait ends with a context or a constant. To report a member's state it does
//     not even wait for a disk (glimpse).
//   - It never believes that a leader is there because raft shows one: the leader must have answered (confirmation).
//
// # Invariants
//
//   - One Member runs at most one etcd at a time, and a data directory has at most one Member. The directory is locked
//     from the first check to the last close.
//   - No snapshot is open while etcd defragments or closes its database (gate).
//   - Once Stop has begun, no snapshot opens. Once Stop has returned nil, nothing of etcd runs.
//   - After Kill no client is answered and no raft message leaves.
//
// # Dangers of etcd 3.7.3
//
// Close waits forever on a member that was never ready, and 7 s for an open watch; see life.shut and errCut. StartEtcd
// waits forever, and logs nothing, while another process has the database open; see lockDir and probeBackend. It panics
// on a damaged database; see checkBackend. It panics on the data of a newer etcd, and on entries that etcd 3.5 wrote;
// see checkNewer and checkWAL. A defragmentation under an open snapshot blocks every read and write, so clients' own
// snapshot and defragment calls pass our gate too.
//
// A disk that accepts no writes, and reports no error, stops the loop through which etcd gets raft's state. It also
// stops everything that reads the database. The member then shows the leader it had, perhaps itself, and blocks its
// callers. See confirmation, glimpse and TestStalledDisk.
//
// etcd ends the process (zap Fatal, or a panic in a goroutine of its own) when the disk is full, failing or corrupt. So
// every caller must be able to continue after a kill at any line, and a supervisor must start the process again.
//
// Two things reach into etcd where it has no API. Connected reads a private field by reflection, and errRemoved is
// concluded from what etcd does not do (life.wait). Both have tests that fail when a new etcd changes them.
//
// etcd's metrics are global to the process and keep their last value after the member has ended. Use Status instead.
package embedded
