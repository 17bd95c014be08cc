// Package discover tells machines that are no nodes where the members of a cluster are: by a block in /etc/hosts, by a
// file of endpoints, by a small DNS server.
//
// What a slot's names are ([Names]), and what they are answered with ([Records]), gossip's resolver takes from here.
//
// It does not know how the members are found: a [Feed] says it, a [Watcher] keeps the outputs up to date, and its
// directory remembers. What is known stays: a member that is not heard of keeps its last address, for anyone who lost
// sight of the cluster must not make its clients lose it, too. Only the member list of a leader takes a slot away.
//
// # Invariants
//
//   - A file is replaced as a whole by a rename, so that a reader sees the old or the new one. Only where that is
//     impossible, as with /etc/hosts in a container, which is a mount point, it is written in place: from the first
//     byte that differs on, by one write, and cut to size after it.
//   - In /etc/hosts nothing is touched that does not bear our marks, and nothing is written that is there already.
//   - The DNS server answers from memory, for its own zone only, and asks nobody.
//
// # Dangers
//
//   - A crash of the machine in the middle of a write in place can leave a part of the new content. The next start puts
//     the block right; what followed the block may be lost with it.
//   - Who watches /etc/hosts by its inode does not see the new file behind the same name.
package discover
