// Package hosts imitates several machines on one: hosts with their own address, hostname and mounts, on a network that
// can be cut.
//
// The stories of integration and the program integration/demo run real holdfast processes on such hosts. What happens
// to machines can happen to them: a power cut, another address, a partition, a freeze. The package knows nothing of
// holdfast, and imports neither its packages nor package testing. It needs root; [Check] says what else is missing.
//
// # What a host is
//
//	this process's namespace         the switch             host n1, n2, ...
//	hf-0a4d0700  10.77.7.1 ──────── outside ┐      ┌ n1 ──── eth0  10.77.7.2
//	                                        bridge ┤
//	                                               └ n2 ──── eth0  10.77.7.3
//
// A [Host] is a network namespace with one link, and an anchor: a process that only keeps the host's mount and UTS
// namespaces alive. [Host.Command] starts processes in all three. They see the machine's file systems as mounted when
// the host was added, but have their own /run and hostname. A mount by one of them is visible only on the same host.
// [Host.Path] and [Host.Mounts] look in from outside.
//
// The bridge has a namespace of its own, because other programs set rules in the machine's. Docker sets the policy of
// the FORWARD chain to DROP, and with br_netfilter a bridge passes its frames through that chain of its namespace, so
// hosts could not reach each other. The switch's namespace has only this package's rules. This process, and the
// servers that it runs for the hosts, have the address [Network.Gateway]. It is also the hosts' default route, but the
// switch drops everything that would go further.
//
// # Faults
//
// All faults are nftables rules of the switch, which see every frame except those that a host sends to itself. Each
// change ([Host.Isolate], [Host.Block], [Host.Loss], [Network.Partition], [Network.Cut], [Network.Heal]) renders all
// current faults again and replaces the rules in one transaction. A host notices a fault only by silence, as with a
// broken switch and not with a pulled cable.
//
// # Cleanup
//
// The namespaces have neither names nor files. The kernel frees the switch when its last descriptor closes, which is
// in this process, and a host when its last process ends, together with links, rules and mounts. An anchor ends when
// the pipe to this process closes, and a command's process ends with the thread that started it. So all of them end
// even if this process is killed. A grandchild that has become a daemon may survive. It still has the mount of /run,
// which names the owner's process ID and start time, and the next [New] of any process kills it.
//
// # Dangers
//
//   - Block devices, including loop devices, and files outside /run belong to the machine. Two hosts can mount the same
//     device, and a loop device that a host has set up outlives the host.
//   - A process that hangs in the kernel, such as on a frozen file system, cannot be killed. Kill and Destroy give up
//     after ten seconds and name it. Thaw the file system first.
//   - A command dies with the thread that started it. Do not start one on a goroutine that is locked to its thread and
//     ends without unlocking it.
//   - There is one PID namespace: a host sees the processes of other hosts.
//   - A host sees /etc/resolv.conf, but reaches no nameserver: a lookup lasts until it times out.
//   - Packets from hosts to this process pass the machine's INPUT rules. A firewall that drops unknown traffic must
//     allow the links hf-*.
package hosts
