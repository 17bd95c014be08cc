// Package cmd is the command line of holdfast. Each command or small group of commands has a file with its flags, its
// call, its output and its exit code. What all of them say with --help is in help.md.
//
// `holdfast run` runs a node (package cmd/node), and `holdfast discover` runs an observer (cmd/observer). Most other
// commands are clients of a running node, on this machine or over TLS: package cmd/control connects them, and
// cmd/node/routes.go answers them. Others read or write the backup store, files of this machine or EC2, or run etcd's
// own tools.
//
// This package decides nothing and keeps no state. Package cmd/config reads the configuration, cmd/backups works on
// backups, cmd/proposal ends generations, cmd/certificates handles certificates, and cmd/takeover handles the data of
// another program's cluster. Work that may panic or hang runs in a process of its own (cmd/child). Package cmd/show
// prints what people read.
//
// Commands share the connection to a node (client.go), flags and formats (flags.go), questions (ask.go) and the exit
// code (root.go). Only this package imports cobra.
//
// Nothing below main ends the process: commands return errors, and [Execute] turns them into an exit code.
package cmd
