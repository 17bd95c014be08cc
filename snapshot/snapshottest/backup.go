package snapshottest

import (
	"time"

	"holdfast/snapshot"
)

// Backup is what a store lists of a verified backup of cluster main.
func Backup(name string, created time.Time) snapshot.Backup {
	var b snapshot.Backup
	b.Name, b.Cluster, b.Created, b.Verified = name, "main", created, created
	b.Content.Size, b.Content.Revision, b.Content.Keys = 5<<20, 4711, 99
	b.Stored = snapshot.Stored{Codec: "zstd", Size: 1 << 20}
	return b
}
