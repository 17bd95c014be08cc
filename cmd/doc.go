// Package cmd is the command line of holdfast and the wiring of a node.
//
// `holdfast run` (run.go) reads as one straight line: configuration, log, files, store, certificates, mesh, member,
// coordinator; then the servers run, and around the coordinator all else; everything ends in the reverse order. The
// packages that do the work know nothing of each other; adapt.go fits them to the coordinator, certificates.go the
// certificates to all. All other commands are clients: of a running node through its unix socket (control.go) or from
// another machine over TLS (control_access.go), or of the backup store itself. The authorities of tls.mode auto are the
// only thing that is decided here: editions.go keeps them in the store, editions_next.go is the pure decision,
// rotation.go what is said of it. issued.go keeps the ends of clients' certificates there.
//
// Nothing below main ends the process: commands return errors, and [Execute] turns them into an exit code.
package cmd
