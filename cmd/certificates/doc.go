// Package certificates is what commands do with certificates where no node is asked: issue one to a client, or to
// etcdctl on this machine, say which authorities clients are to trust, and look at all that a configuration names.
//
// Authorities and what was issued are read from where they are kept: the directories of the configuration and the
// backup store (package embedded/pki/authorities). A command that issues needs the key of the clients' authority.
package certificates
