// Package cmd is the command line of holdfast and the wiring of a node.
//
// `holdfast run` (run.go) reads as one straight line: configuration, log, store, mesh, member, coordinator,
// servers; everything ends in the reverse order. The packages that do the work know nothing of each other;
// adapt.go fits them to the coordinator. All other commands are clients: of a running node through its unix
// socket (control.go), or of the backup store itself.
//
// Nothing below main ends the process: commands return errors, and [Execute] turns them into an exit code.
package cmd
