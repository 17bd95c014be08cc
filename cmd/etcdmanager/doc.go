// Package etcdmanager translates etcd-manager's command line and environment, as kops writes them, into the
// configuration of a node.
//
// Flags and variables become values of keys, each with the flag or variable as its origin. After that, the
// configuration is loaded, derived and checked like any other. The package sends nothing over the network. It needs
// this machine's address and the names of some directories ([Machine]), which [ThisMachine] reads without changing
// anything.
//
// A flag with a meaning in holdfast is honored. A flag without one is a warning with the reason. A flag whose meaning
// cannot be kept is an error that says what to do, because a node that serves with less than was asked for is worse
// than none. A HOLDFAST_… variable overrides the flags, as it overrides a file.
//
// Names, ports and layouts are those of etcd-manager v3.0.20260707, and of the manifests that kops wrote in August
// 2026.
package etcdmanager
