// Package hosts makes machines out of one: hosts with an address, a hostname and mounts of their own, on a
// network that can be cut.
//
// The stories of integration and the program integration/demo run real holdfast processes on such hosts, so that
// what happens to machines can happen to them: a power cut, another address, a partition, a freeze. The package
// knows nothing of holdfast, imports none of its packages and nothing of testing. It needs root; [Check] says
// what else is missing.
//
// # What a host is
//
//	this process's namespace         the switch             host n1, n2, ...
//	hf-0a4d0700  10.77.7.1 ──────── outside ┐      ┌ n1 ──── eth0  10.77.7.2
//	                                        bridge ┤
//	                                               └ n2 ──── eth0  10.77.7.3
//
// A [Host] is a network namespace with one link, and an anchor: a process that does nothing but keep the host's
// mount and UTS namespace. [Host.Command] starts processes in all three. They see the machine's file system as
// it was mounted when the host was added, but a /run and a hostname of their own; what one of them mounts, the
// next one of the same host sees, and nobody else. [Host.Path] and [Host.Mounts] look in from outside.
//
// The bridge is in a namespace of its own because the machine's is not ours: Docker sets the policy of the
// FORWARD chain to DROP, and with br_netfilter loaded a bridge hands its frames to that chain of the namespace
// it is in, so that bridged hosts would not reach each other. The switch's namespace has no rules but ours. This
// process takes part with the address [Network.Gateway], and so do the servers that it runs for the hosts. The
// hosts' default route leads there too, but nothing goes further: the switch drops it.
//
// # Faults
//
// All of them are nftables rules of the switch, which see every frame but those that a host sends to itself: the
// set of the faults in force is rendered again for each change ([Host.Isolate], [Host.Block], [Host.Loss],
// [Network.Partition], [Network.Cut], [Network.Heal]) and replaced in one transaction. A host does not notice
// them but by silence, as with a switch that broke rather than a cable that was pulled.
//
// # Nothing stays
//
// Namespaces have no names here and no files. The kernel frees the switch when its last descriptor is closed, which is
// in this process, and a host with its last process, and with them the links, the rules and the mounts. An anchor
// ends when the pipe to this process closes, a command's process when the thread that started it is gone: so also
// when this process is killed. What might survive that, a grandchild that made itself a daemon, keeps the mount
// of /run that names the owner's process id and start time, and the next [New] of anybody kills it.
//
// # Dangers
//
//   - Block devices, loop devices among them, and files outside /run belong to the machine: two hosts can mount
//     the same device, and a loop device that a host has set up outlives it.
//   - A process that is in the kernel for good, as on a frozen file system, cannot be killed. Kill and Destroy
//     give up after ten seconds and name it; thaw the file system first.
//   - A command dies with the thread that started it. Do not start one on a goroutine that is locked to its
//     thread and ends without unlocking it.
//   - Process ids are the machine's: a host sees the processes of the others.
//   - A host sees /etc/resolv.conf, but does not reach a nameserver: a lookup takes until it times out.
//   - What hosts send to this process passes the machine's INPUT rules. A firewall that drops what it does not know
//     has to be told about the links hf-*.
package hosts
