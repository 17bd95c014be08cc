// Package backups is what the commands on backups do, on any machine: list, verify, drill, prune, delete, copy and pin
// those in a store, save one of an etcd that is not ours, and make a data directory of one.
//
// It knows no flags and prints no answers: those are the command's. What happens on the way, such as progress, which
// backup latest passes over, or a result that could not be recorded, it writes to standard error, which the command
// gives it.
//
// Dangerous is what deletes: [Backups.Deletable] comes first, and what it refuses only force deletes.
package backups
