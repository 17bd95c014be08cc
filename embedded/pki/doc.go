// Package pki keeps the certificates of one node: it reads or is given the cluster's certificate authorities, issues the
// node's leaves, renews them at two thirds of their life, and follows a change of the authorities without a restart of
// the process and without a moment in which two members do not trust each other.
//
// # Modes
//
// files: the operator makes every certificate; we only watch them. ca: the operator gives the authorities, with their
// keys, as files; we issue. auto: we make the authorities ourselves, once, and share them through the backup store, which
// holds every secret of the cluster anyhow. off: no TLS.
//
// # Authorities and leaves
//
// There are two authorities, as kops has them: one for clients (and the certificate that clients see), one for peers. An
// [Authority] is a bundle: every certificate in it is trusted, and the one that matches the key, the primary, signs.
//
// A node has two leaves. The server's bears the names and addresses at which clients reach the node. The peer's bears the
// name that all peers of the cluster share (PROTOCOL R12) and the slot's own name; no address, so it survives a move.
//
// # A change of the authority, in order
//
// etcd reads certificate and key at each handshake, and the bundle of the trusted authorities only when it starts
// (client/pkg/transport/listener.go). So:
//
//  1. The new authority appears in the bundle. The running member does not trust it yet: it is stale, and the plan
//     starts it anew, one member at a time, the leader last (plan.Reload).
//  2. When every member that runs trusts the new authority, leaves are issued by it.
//  3. An authority that has left the bundle is trusted until no member presents a leaf of it.
//
// Nothing of this is remembered: each node publishes what its member trusts and whose leaf it presents, and each step
// follows from that. Whatever is interrupted goes on from there.
//
// # What it never does
//
// It never prints or publishes a key. It never writes one that others may read. It never replaces a good leaf by one
// that a running member would refuse, unless the good one is about to expire.
package pki
