// Package etcdmanager reads etcd-manager's command line and environment, as kops writes them, and says what they mean
// in the configuration of a node.
//
// It is a translation and nothing else: flags and variables become values of keys, each with the flag or variable as
// its origin, and the configuration is loaded, derived and judged as every other one is. It asks nobody over
// the network; of this machine it needs its address and what lies on its disks ([Machine]), at which [ThisMachine]
// looks and changes nothing.
//
// What a flag asks for is done. A flag that has no meaning here is a warning with the reason. A flag whose meaning
// cannot be kept is an error that says what to do: a node that serves with less than was asked for is worse than none.
// A variable HOLDFAST_… goes before all of it, as it goes before a file.
//
// Names, ports and layouts are those of etcd-manager v3.0.20260707 and of the manifests that kops wrote in August 2026.
package etcdmanager
