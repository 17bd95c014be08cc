// Package backups does the work of the commands on backups, on any machine. It lists, verifies, drills, prunes,
// deletes, copies and pins the backups in a store, saves a backup of any etcd, and makes a data directory from a
// backup.
//
// The proof of a backup is in package snapshot (verify.go). This package knows no flags and prints no answers; the
// commands do. It writes events to standard error: progress, the backups that latest skips, and results that could not be
// recorded.
//
// Deleting is dangerous: call [Backups.Deletable] first. Only force may delete what it refuses.
package backups
