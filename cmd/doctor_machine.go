package cmd

import (
	"cmp"
	"fmt"
	"time"
)

// apart is how far clocks may be from each other. etcd itself warns its peers beyond a second (rafthttp,
// probing_status.go).
const apart, farApart = time.Second, time.Minute

// checkClocks compares each node's clock with ours, within the time that the question took. etcd needs none of them to
// be right; names of backups, the ends of certificates, and whoever reads logs do.
func checkClocks(e evidence) []finding {
	return e.per(func(n examined) ([]finding, bool) {
		if n.Checkup == nil {
			return nil, false
		}
		lo, hi := skew(n)
		switch {
		case lo > apart || hi < -apart:
			least, which := lo, "ahead of"
			if hi < 0 {
				least, which = -hi, "behind"
			}
			v := warned
			if least > farApart {
				v = bad
			}
			return []finding{{Grade: v, Means: fmt.Sprintf("Its clock is at least %s %s that of %s: etcd does not mind, but backups are named, kept and found by time, and certificates end by it.", least.Round(time.Millisecond), which, e.Status.Asked),
				Do: "Have both follow the same time servers (chrony)."}}, true
		case hi > apart || lo < -apart:
			return []finding{{Grade: unknown, Means: fmt.Sprintf("The answer took %s, which is too long to compare clocks by.", n.Answered.Sub(n.Asked).Round(time.Millisecond)), Do: "Run it again when the machines are less busy."}}, true
		}
		return nil, true
	}, fmt.Sprintf("All clocks are within %s of that of %s", apart, e.Status.Asked))
}

// skew is how far a node's clock is ahead of ours, at least and at most.
func skew(n examined) (lo, hi time.Duration) {
	// Round strips the monotonic clock, which the other has not.
	return n.Checkup.Time.Round(0).Sub(n.Answered.Round(0)), n.Checkup.Time.Round(0).Sub(n.Asked.Round(0))
}

// What etcd's documentation of hardware and its FAQ ask of a disk, in seconds, as the 99th percentile; and how many
// samples there must be for one.
const (
	slowFsync   = 0.010
	slowCommit  = 0.025
	leastSample = 100
)

func checkDisks(e evidence) []finding {
	return e.per(func(n examined) ([]finding, bool) {
		if n.Checkup == nil || n.Status.Etcd == nil {
			return nil, false
		}
		if few(n.Checkup.Fsync) || few(n.Checkup.Commit) {
			return []finding{{Grade: unknown, Means: fmt.Sprintf("etcd has measured its disk less than %d times since the process began.", leastSample), Do: "Look again when etcd has been written to for a while."}}, true
		}
		var out []finding
		for _, d := range []struct {
			what  string
			of    *quantile
			limit float64
		}{{"A write to etcd's log (wal fsync)", n.Checkup.Fsync, slowFsync}, {"A commit of etcd's database (backend commit)", n.Checkup.Commit, slowCommit}} {
			if f, found := diskFinding(d.what, d.of, d.limit); found {
				out = append(out, f)
			}
		}
		return out, true
	}, "Since each process began, 99 % of etcd's log writes took less than 10 ms, and of its commits less than 25 ms")
}

// few reports whether there are too few samples to say anything.
func few(q *quantile) bool { return q == nil || q.Count < leastSample }

func diskFinding(what string, q *quantile, limit float64) (finding, bool) {
	if q.Seconds <= limit {
		return finding{}, false
	}
	return finding{Grade: warned, Means: fmt.Sprintf("%s takes up to %.0f ms (99th percentile of %d since the process began), and etcd wants less than %.0f ms: it is what elections and slow writes come from.", what, q.Seconds*1e3, q.Count, limit*1e3),
		Do: "Give etcd a faster disk, or one that it does not share; `etcd_disk_*` of /metrics shows whether it is so at present."}, true
}

// roomToDefragment is what a defragmentation wants beside the data in use: two segments of the log.
const roomToDefragment = 128 << 20

// checkRoom looks at the room on each volume, and at what data that was set aside takes of it.
func checkRoom(e evidence) []finding {
	return e.per(func(n examined) ([]finding, bool) {
		if n.Checkup == nil || n.Status.Volume == nil {
			return nil, false
		}
		if n.Checkup.Room == nil {
			return []finding{{Grade: unknown, Means: cmp.Or(n.Checkup.RoomErr, "It does not say how much room its volume has."), Do: "Look at the volume."}}, true
		}
		return roomFindings(n, *n.Checkup.Room), true
	}, "No volume is nearly full, and what was set aside takes little")
}

func roomFindings(n examined, r room) (out []finding) {
	var inUse, aside int64
	if n.Status.Etcd != nil {
		inUse = n.Status.Etcd.InUse
	}
	for _, a := range n.Status.Aside {
		aside += a.Bytes
	}
	has := fmt.Sprintf("%s of %s are free on its volume", bytesText(r.Free), bytesText(r.Total))
	switch {
	case r.Free*20 < r.Total:
		out = append(out, finding{Grade: bad, Means: has + ": when it is full, etcd ends.", Do: "Make the volume larger, or delete what is not etcd's."})
	case r.Free*10 < r.Total:
		out = append(out, finding{Grade: warned, Means: has + ".", Do: "Make the volume larger, or delete what is not etcd's."})
	case r.Free < inUse+roomToDefragment:
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("%s, and a defragmentation needs %s.", has, bytesText(inUse+roomToDefragment)), Do: "Make the volume larger."})
	}
	if aside > 0 && (aside*4 > r.Total || aside > r.Free) {
		out = append(out, finding{Grade: warned, Means: fmt.Sprintf("Data that was set aside takes %s, and %s.", bytesText(aside), has),
			Do: "`holdfast status` lists it with what is deleted by itself and when (restore.reclaim-after); delete the rest by hand if nobody wants it."})
	}
	return out
}

// checkDatabases looks at the quota, fragmentation and failed defragmentations.
func checkDatabases(e evidence) []finding {
	return e.per(func(n examined) (out []finding, looked bool) {
		m, u := n.Status.Etcd, n.Status.Upkeep
		if m == nil || u == nil {
			return nil, false
		}
		const week = 7
		switch {
		case u.Full:
			out = append(out, finding{Grade: warned, Means: fmt.Sprintf("The database takes %s of its quota of %s, %s of it in use%s; at the quota etcd refuses all writes.", bytesText(m.Size), bytesText(m.Quota), bytesText(m.InUse), growthText(u.Growth)),
				Do: "Delete keys, or raise etcd.quota-backend-bytes on all nodes."})
		case u.Growth != nil && *u.Growth > 0 && m.InUse+week**u.Growth > m.Quota:
			out = append(out, finding{Grade: warned, Means: fmt.Sprintf("The live data takes %s of a quota of %s%s, so that it is full within a week.", bytesText(m.InUse), bytesText(m.Quota), growthText(u.Growth)),
				Do: "Find out what grows, or raise etcd.quota-backend-bytes on all nodes."})
		}
		switch d := u.Last; {
		case d != nil && d.Error != "":
			out = append(out, finding{Grade: warned, Means: "The last defragmentation failed: " + d.Error, Do: "It is tried again by itself, when what the text names is gone."})
		case u.Fragmented && e.Status.Paused != nil:
			out = append(out, finding{Grade: warned, Means: fmt.Sprintf("Of the %s of the database only %s are in use, and nobody defragments it while the cluster is paused.", bytesText(m.Size), bytesText(m.InUse)), Do: "`holdfast resume`."})
		}
		return out, true
	}, "No database is near its quota, and those that are fragmented are defragmented by the nodes themselves")
}
