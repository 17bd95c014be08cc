// Package etcdclient reads a snapshot of an etcd that holdfast does not run, as any client does: [Choose] a member, and
// [Source.Fetch] its database. `holdfast snapshot save --endpoints` uses it.
//
// A truncated stream is refused: etcd ends the stream with the digest of what it sent.
package etcdclient
