package health

import (
	"cmp"
	"fmt"
	"time"

	"holdfast/embedded/plan"
)

// etcd's hardware documentation and FAQ require these 99th percentiles of a disk, in seconds. leastSample is how many
// samples are needed to judge one. A very slow disk gives few samples: leastMean are enough if their mean is slowMean
// times the limit.
const (
	slowFsync   = 0.010
	slowCommit  = 0.025
	leastSample = 100
	slowMean    = 10
	leastMean   = 10
)

// roomToDefragment is what a defragmentation needs beside the data in use: two log segments, in bytes.
const roomToDefragment = 128 << 20

func (n *NodeStatus) disks(out *findings) {
	c := n.Checkup
	if c == nil {
		return
	}
	if n.Etcd != nil {
		n.diskTimes(out, c)
	}
	switch {
	case n.Volume == nil:
	case c.Room == nil:
		out.add(DiskUnread, n.Node, "the free room of the volume of %s is unknown: %s", n.Node,
			cmp.Or(c.RoomErr, "the node does not say"))
	default:
		n.room(out, *c.Room)
	}
	n.beside(out, c)
}

// diskTimes judges how long the member's disk takes to write.
func (n *NodeStatus) diskTimes(out *findings, c *Checkup) {
	slow := false
	for _, d := range []struct {
		what  string
		of    *Quantile
		limit float64
	}{{"a write to etcd's log (wal fsync)", c.Fsync, slowFsync},
		{"a commit of etcd's database (backend commit)", c.Commit, slowCommit}} {
		if text := d.of.slow(d.limit); text != "" {
			slow = true
			out.add(DiskSlow, n.Node, "on %s %s takes %s, and etcd needs less than %.0f ms", n.Node, d.what, text, d.limit*1e3)
		}
	}
	few := func(q *Quantile) bool { return q == nil || q.Total < leastSample }
	if !slow && (few(c.Fsync) || few(c.Commit)) {
		out.add(DiskUnmeasured, n.Node,
			"etcd on %s has measured its disk fewer than %d times since the process started", n.Node, leastSample)
	}
}

// slow says how long something takes that takes too long, "" if it does not, or if that is unknown.
func (q *Quantile) slow(limit float64) string {
	if q == nil {
		return ""
	}
	when := "since the process started"
	if q.Over > 0 {
		when = "in the last " + Age(time.Unix(int64(q.Over), 0), time.Unix(0, 0))
	}
	switch {
	case q.Count >= leastSample && q.Seconds > limit:
		return fmt.Sprintf("up to %.0f ms (99th percentile of %d %s)", q.Seconds*1e3, q.Count, when)
	case q.Count >= leastMean && q.Mean > slowMean*limit:
		return fmt.Sprintf("%.0f ms on average (of %d %s)", q.Mean*1e3, q.Count, when)
	}
	return ""
}

// beside judges the disks of the spool and the scratch directory, if they differ from the volume's.
func (n *NodeStatus) beside(out *findings, c *Checkup) {
	var size int64
	if n.Etcd != nil {
		size = n.Etcd.Size
	}
	for _, d := range []struct {
		code Code
		what string
		of   *plan.Room
	}{{SpoolLow, "spool of the backups", c.Spool}, {ScratchLow, "scratch directory", c.Scratch}} {
		if d.of == nil {
			continue
		}
		has := fmt.Sprintf("%s of %s are free on the disk of the %s of %s", Bytes(d.of.Free), Bytes(d.of.Size), d.what,
			n.Node)
		switch {
		case d.of.Free < size:
			out.add(d.code, n.Node, "%s, and the database takes %s", has, Bytes(size))
		case d.of.Free*10 < d.of.Size:
			out.add(d.code, n.Node, "%s", has)
		}
	}
}

func (n *NodeStatus) room(out *findings, r VolumeRoom) {
	var inUse, aside int64
	if n.Etcd != nil {
		inUse = n.Etcd.InUse
	}
	for _, a := range n.Aside {
		aside += a.Bytes
	}
	has := fmt.Sprintf("%s of %s are free on the volume of %s", Bytes(r.Free), Bytes(r.Size), n.Node)
	switch {
	case r.Short:
		out.add(DiskReserve, n.Node,
			"%s, and etcd needs a reserve of %s to keep running: the cluster refuses writes until %s are free there", has,
			Bytes(r.Reserve), Bytes(r.Enough))
	case r.Free*20 < r.Size:
		out.add(DiskFull, n.Node, "%s", has)
	case r.Free*10 < r.Size:
		out.add(DiskLow, n.Node, "%s", has)
	case r.Free < r.Enough:
		out.add(DiskLow, n.Node, "%s, and with less than %s the cluster refuses writes", has, Bytes(r.Reserve))
	case r.Free < inUse+roomToDefragment:
		out.add(DiskLow, n.Node, "%s, and a defragmentation needs %s", has, Bytes(inUse+roomToDefragment)).
			then("Make the volume larger.")
	}
	if aside > 0 && (aside*4 > r.Size || aside > r.Free) {
		out.add(AsideLarge, n.Node, "data that was set aside takes %s, and %s", Bytes(aside), has)
	}
}
