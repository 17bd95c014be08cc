// Package child runs work that may panic, hang, or use memory without limit in a process of its own: the member of a
// drill, the replay of a log by a recovery, and the reading of a database that may be crafted to crash its reader. The
// process that serves only reads the answer.
//
// A child is this program itself. Its first argument is the name of a [Work]. It reads an order from standard input and
// answers on standard output, in JSON. If it crashes, what etcd printed last becomes the error. A child ends with its
// parent, and with the caller's context.
package child
