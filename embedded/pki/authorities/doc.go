// Package authorities makes the certificate authorities of tls.mode auto, shares them through the backup store, and
// rotates them.
//
// An [Edition] is one state of both authorities, the clients' and the peers'. Editions are numbered objects in the
// store. Each is put only if it does not exist. So if two nodes make one at the same time, one of them is refused and
// takes the other's. Each edition is signed by the one before, and a node that knows an edition accepts no other
// successor (signature.go). So anyone who can only write the store cannot make authorities. [Keeper] holds the current
// edition and keeps a copy in tls.dir. From then on nothing depends on the store, and a store that was emptied gets the
// edition back.
//
// next.go decides, as a pure function, which step a rotation takes: new authorities are introduced, then sign, then the
// old ones retire. No member ever presents a certificate that another one does not trust. rotate.go takes the steps, on
// the leader or on an operator's order. rotation.go says what is waited for. refuses.go says which clients are refused
// when. [Issued] tracks the certificates that were issued to clients, and which holdfast does not renew on its own.
//
// Editions contain private keys. They are encrypted for snapshot.recipients if there are any, and never printed (see
// pemKey).
package authorities
