// Package pki keeps the certificates of one node. It gets the cluster's certificate authorities, issues the node's
// leaves, and renews them at two thirds of their life. It follows a change of the authorities without a restart of the
// process, and two members never distrust each other meanwhile.
//
// # Modes
//
// files: the operator makes every certificate, and we only watch them. ca: the operator provides the authorities, with
// their keys, as files, and we issue. auto: we make the authorities ourselves, once, and share them through the backup
// store, which holds every secret of the cluster anyway. off: no TLS.
//
// # Authorities and leaves
//
// There are two authorities, as in kops: one for clients and for the certificate that clients see, one for peers. An
// [Authority] is a bundle. Every certificate in it is trusted, and the primary, which matches the key, signs.
//
// A node has two leaves. The server's has the names and addresses at which clients reach the node. The peer's has the
// name that all peers of the cluster share (R12 of docs/protocol.md) and the slot's own name. It has no address, so it
// survives a move. But while another program runs members of the cluster, it also has the node's address, because they
// require that. A third leaf, for the gossip, is in memory only. It is issued before there is a slot, and has neither a
// member's name nor an address.
//
// Machines without a node have certificates too ([Holder]): clients' of the clients' authority, observers' and
// operators' of the peers'. Each has a name that no member has. An operator's signature counts only for orders that a
// command gives ([Orders]).
//
// # A change of the authority, in order
//
// etcd reads certificate and key at each handshake, but the bundle of the trusted authorities only when it starts
// (client/pkg/transport/listener.go). So:
//
//  1. The new authority appears in the bundle. The running member does not trust it yet: it is stale, and the plan
//     restarts it, one member at a time, the leader last (plan.Reload).
//  2. When every running member trusts the new authority, it issues leaves.
//  3. An authority that has left the bundle is trusted until no member presents a leaf of it.
//
// No step is remembered. Each node publishes what its member trusts and which authority issued its leaf, and each step
// follows from that ([decide], a pure function). Whatever is interrupted continues from there. The only memory is the
// file of the trusted authorities, and an authority that was dropped from it does not come back.
//
// Clients get a new authority before it signs. So it issues the server's leaf at once, and clients' certificates are
// checked against exactly the bundle.
//
// # Files
//
// Config.Dir holds server.pem and peer.pem, each with the certificate and the key of a leaf, and clients-ca.crt and
// peers-ca.crt. etcd uses server.pem both as its cert-file and as its key-file. A file is replaced atomically, so it
// never has parts of two leaves. But etcd reads it twice at each handshake, first for the certificate, then for the
// key. So a leaf that is renewed while a member runs keeps its key, and gets a new one when it is issued before a
// member starts. After a key was stolen, remove the directory and restart the node. You also need a new authority,
// because nothing here revokes a certificate. Others keep files in the directory too: embedded/pki/authorities the copy
// of the authorities of mode auto, and cmd/certificates that of etcdctl.
//
// # Who still uses an old authority
//
// [Clients] records which client certificates the member was shown. An operator needs that before dropping an old
// clients' authority. Nothing else can show it. What the clients themselves trust cannot be seen.
//
// # A certificate is not a user
//
// With etcd's authentication, the common name of a client's certificate is the name of a user. etcd's own gRPC gateway
// presents the server's leaf as a client's, so that has no common name. The peers' authority must not be the clients':
// a peer's leaf would be that of a user SLOT.CLUSTER.DOMAIN.
//
// # What it never does
//
// It never prints or publishes a key. It never writes a key that others may read, and uses none that others could read.
// It never replaces a good leaf by one that a running member would refuse, unless the good one is in the last tenth of
// its life. Once it knows the authorities, it needs the store only to learn of a change.
package pki
