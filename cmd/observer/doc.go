// Package observer is the process behind `holdfast discover`: it hears the gossip as an observer, which says nothing
// there, and keeps files and DNS of this machine up to date with what it hears (package gossip/discover), and
// certificates fresh (clients.go): clients', the observer's and the operator's. It has no slot, no volume and no etcd.
package observer
