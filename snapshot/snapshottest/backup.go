package snapshottest

import (
	"time"

	"holdfast/snapshot"
)

// Backup returns a verified backup of cluster main, as a store lists it.
func Backup(name string, created time.Time) snapshot.Backup {
	var b snapshot.Backup
	b.Name, b.Cluster, b.Created, b.Verified = name, "main", created, created
	b.Content.Size, b.Content.Revision, b.Content.Keys = 5<<20, 4711, 99
	b.Stored = snapshot.Stored{Codec: "zstd", Size: 1 << 20}
	return b
}
