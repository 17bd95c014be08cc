// Package certificates does what commands do with certificates. It issues one to a client (issue.go, client.go) or to
// etcdctl on this machine (etcdctl.go), and asks a node to renew one on a machine without an authority's key
// (files.go). It makes the authorities of tls.mode ca and writes files that are never overwritten (fresh.go), finds
// the authorities that clients must trust (issue.go), and reads all certificates that a configuration names (look.go).
//
// The authorities and the list of issued certificates are in the directories of the configuration and in the backup
// store (package embedded/pki/authorities). A command that issues a certificate needs the key of its authority.
package certificates
