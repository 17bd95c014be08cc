// Package pki keeps the certificates of one node: it reads or is given the cluster's certificate authorities, issues
// the node's leaves, renews them at two thirds of their life, and follows a change of the authorities without a restart
// of the process and without a moment in which two members do not trust each other.
//
// # Modes
//
// files: the operator makes every certificate; we only watch them. ca: the operator gives the authorities, with their
// keys, as files; we issue. auto: we make the authorities ourselves, once, and share them through the backup store,
// which holds every secret of the cluster anyhow. off: no TLS.
//
// # Authorities and leaves
//
// There are two authorities, as kops has them: one for clients (and the certificate that clients see), one for peers.
// An [Authority] is a bundle: every certificate in it is trusted, and the one that matches the key, the primary, signs.
//
// A node has two leaves. The server's bears the names and addresses at which clients reach the node. The peer's bears
// the name that all peers of the cluster share (R12 of docs/protocol.md) and the slot's own name; no address, so it
// survives a move: while another program runs members of the cluster it has the node's, too, for they ask for that. A
// third one, for the gossip, is in memory only: it is issued before there is a slot, and names neither a member nor an
// address.
//
// Machines without a node have certificates, too ([Holder]): clients' of the clients' authority, observers' and
// operators' of the peers'. Each bears a name that no member has. What an operator's signs counts as an order that a
// command gives ([Orders]), and as nothing else.
//
// # A change of the authority, in order
//
// etcd reads certificate and key at each handshake, and the bundle of the trusted authorities only when it starts
// (client/pkg/transport/listener.go). So:
//
//  1. The new authority appears in the bundle. The running member does not trust it yet: it is stale, and the plan
//     restarts it, one member at a time, the leader last (plan.Reload).
//  2. When every member that runs trusts the new authority, leaves are issued by it.
//  3. An authority that has left the bundle is trusted until no member presents a leaf of it.
//
// Nothing of this is remembered: each node publishes what its member trusts and whose leaf it presents, and each step
// follows from that ([decide], a pure function). Whatever is interrupted continues from there. What was trusted before
// is what the file of the trusted authorities holds; that is all the memory there is, and an authority that was dropped
// from it does not come back.
//
// Clients are told of a new authority before it is put to use: the server's leaf is issued by it at once, and exactly
// the bundle is trusted.
//
// # Files
//
// Config.Dir holds server.pem and peer.pem, each with the certificate and the key of a leaf, and clients-ca.crt and
// peers-ca.crt. etcd is told of server.pem as its cert-file and as its key-file. A file is replaced in one step, so it
// is never half of one leaf and half of another. But etcd reads it twice at each handshake, first for the certificate,
// then for the key: so a leaf that is renewed while a member runs keeps its key. It gets a new one when it is issued
// before a member starts. After a key was stolen, remove the directory and restart the node; a new authority is needed
// all the same, as nothing here revokes a certificate. Others keep files beside them: embedded/pki/authorities the copy
// of those of mode auto, cmd/certificates that of etcdctl.
//
// # Who still uses an old authority
//
// [Clients] remembers which clients' certificates the member was shown: what an operator needs to know before an old
// clients' authority is dropped. Nothing else can tell, and what clients themselves trust nobody sees.
//
// # A certificate is not a user
//
// With etcd's authentication, the common name of a client's certificate is the name of a user. The server's leaf is
// shown as a client's by etcd's own gRPC gateway, and has no common name. The peers' authority must not be the
// clients': a peer's leaf would be that of a user SLOT.CLUSTER.DOMAIN.
//
// # What it never does
//
// It never prints or publishes a key. It never writes one that others may read, and uses none that others could. It
// never replaces a good leaf by one that a running member would refuse, unless the good one is in the last tenth of its
// life. It asks nothing of the store once it knows the authorities, except whether they changed.
package pki
