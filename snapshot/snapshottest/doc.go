// Package snapshottest helps to test what package snapshot works with: [Run] holds a back end to the contract of
// snapshot.Store, [DB] is a database as etcd lays it out, of any size, made without etcd's server.
package snapshottest
