// Package certificates is what commands do with certificates: issue one to a client (client.go), or to etcdctl on this
// machine, have a node renew one where no key of an authority is (files.go), make the authorities of tls.mode ca and
// write what is never overwritten (fresh.go), say which authorities clients are to trust, and look at all that a
// configuration names.
//
// Authorities and what was issued are read from where they are kept: the directories of the configuration and the
// backup store (package embedded/pki/authorities). A command that issues needs the key of the clients' authority.
package certificates
