// Package child runs in a process of its own what may panic, hang, or take memory without end: the member of a drill,
// the replay of a log by a recovery, and the reading of a database that somebody may have made to crash its reader. The
// process that serves only reads an answer.
//
// A child is this very program: its first argument is the name of a [Work]. It reads an order from its standard input
// and answers on its standard output, in JSON; what etcd says on its way out is the error. It ends with its parent, and
// with the context of the caller.
package child
