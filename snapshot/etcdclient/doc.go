// Package etcdclient reads a snapshot of an etcd that is not ours, as any client does: [Choose] a member,
// [Source.Fetch] its database. It is what `holdfast snapshot save --endpoints` saves.
//
// The stream is taken only whole: etcd ends it with the digest of what it sent.
package etcdclient
