package cmd

import (
	"time"

	"holdfast/snapshot"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// made returns a good backup of our cluster that is so old at noon.
func made(name string, old time.Duration) snapshot.Backup {
	var b snapshot.Backup
	b.Name, b.Cluster, b.Created, b.Verified = name, "main", noon.Add(-old), noon.Add(-old)
	b.Content.Size, b.Content.Revision, b.Content.Keys = 5<<20, 4711, 99
	b.Stored = snapshot.Stored{Codec: "zstd", Size: 1 << 20}
	return b
}

// with returns b after change.
func with(b snapshot.Backup, change func(*snapshot.Backup)) snapshot.Backup {
	change(&b)
	return b
}
