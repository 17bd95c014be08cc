package metrics

// Disk is the space on a file system that the node writes to, in bytes. If Size is 0, it is not known and not exported.
type Disk struct {
	Free, Size int64
	Reserve    int64 // what etcd needs free to keep running; 0 if this file system has no reserve
}

// Disks are the file systems of a node. Several of them may be the same.
type Disks struct {
	Volume  Disk // of the held volume
	Spool   Disk // of the snapshot spool
	Scratch Disk // of the scratch directory
}

// The descriptions of the series about the disks.
var (
	diskFreeDesc = desc("disk_free_bytes",
		"Room on the file system of the held volume, the snapshot spool and the scratch directory; no series while it is "+
			"not known.", "use")
	diskSizeDesc = desc("disk_size_bytes",
		"Size of the file system of the held volume, the snapshot spool and the scratch directory; no series while it is "+
			"not known.", "use")
	diskReserveDesc = desc("disk_reserve_bytes",
		"Room that the volume must have for etcd to keep running; with less the cluster is made to refuse writes (alarm "+
			"NOSPACE).", "use")
)

func (d Disks) collect(put sink) {
	for use, disk := range map[string]Disk{"volume": d.Volume, "spool": d.Spool, "scratch": d.Scratch} {
		if disk.Size == 0 {
			continue
		}
		put.gauge(diskFreeDesc, float64(disk.Free), use)
		put.gauge(diskSizeDesc, float64(disk.Size), use)
		if disk.Reserve > 0 {
			put.gauge(diskReserveDesc, float64(disk.Reserve), use)
		}
	}
}
