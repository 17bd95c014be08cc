// Package cmd is the command line of holdfast: a file for each command or small group of commands, with its
// flags, its call, what it prints and its exit code.
//
// `holdfast run` runs a node (package cmd/node), `holdfast discover` an observer (cmd/observer). Most other commands
// are clients: of a running node, on this machine or over TLS (package cmd/control; cmd/node/routes.go serves what they
// ask for), or of the backup store itself; the rest work on files of this machine or on EC2, or run etcd's own tools.
// Nothing is decided here, and nothing is kept: the configuration is in package cmd/config, what is done to backups in
// cmd/backups, how a generation ends in cmd/proposal, certificates in cmd/certificates, the data of another program's
// cluster in cmd/takeover, and what may panic or hang runs in a process of its own (package cmd/child). What people
// read is printed by cmd/show.
//
// What commands share is here as well, once each: the connection to a node (client.go), flags and formats
// (flags.go), questions (ask.go), and the exit code (root.go). Only this package knows cobra.
//
// Nothing below main ends the process: commands return errors, and [Execute] turns them into an exit code.
package cmd
