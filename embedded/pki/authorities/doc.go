// Package authorities makes the certificate authorities of tls.mode auto, shares them through the backup store, and
// rotates them.
//
// An [Edition] is one state of both authorities, the clients' and the peers'. Editions are numbered objects in the
// store; each is put only if it is not there, so of two nodes that make one at the same time one is refused and takes
// the other's. Each is signed by the one before, and a node that knows one follows nothing else (signature.go): anyone
// who can only write the store makes no authorities. [Keeper] holds what counts and keeps a copy in tls.dir: nothing
// depends on the store afterwards, and a store that was emptied gets it back.
//
// next.go decides, purely, which step a rotation takes: new authorities are introduced, then sign, then the old ones
// retire. No two members ever present what the other does not trust. rotate.go takes the steps, at the leader's turn or
// on an operator's word. rotation.go and refuses.go tell what is waited for, and who is refused when. [Issued] tracks
// the certificates that were issued to clients, which nobody renews.
//
// Private keys are in the editions: they are sealed for snapshot.recipients where there are any, and appear in no text
// (see pemKey).
package authorities
