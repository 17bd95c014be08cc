// Package cmd is the command line of holdfast and the wiring of a node.
//
// `holdfast run` (run.go) reads as one straight line: configuration, log, files, store, certificates, mesh, member,
// coordinator; then the servers run, and around the coordinator everything else; everything ends in the reverse order. The
// packages that do the work do not know each other; adapt.go fits them to the coordinator, certificates.go the
// certificates to all. routes.go is what a node can be asked for on its control socket.
//
// All other commands are clients: of a running node, on this machine or over TLS (package control), or of the backup
// store itself. Nothing is decided here, and nothing is kept: the configuration is in package config, generations and
// proposals in embedded/generations, the authorities of tls.mode auto in embedded/pki/authorities.
//
// Nothing below main ends the process: commands return errors, and [Execute] turns them into an exit code.
package cmd
