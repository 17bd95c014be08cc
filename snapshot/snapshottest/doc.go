// Package snapshottest helps to test package snapshot and its stores. [Run] tests an implementation of snapshot.Store
// against its contract. [DB] is a database in etcd's layout, of any size, made without etcd's server.
package snapshottest
