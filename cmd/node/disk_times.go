package node

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"holdfast/embedded/health"
)

// diskTimes caches etcd's own figures of the disk for diskEvery. Gathering them costs as much as the rest of a status,
// because the registry gathers everything. The figures cover the last ten minutes, or longer if nobody asked meanwhile:
// a disk that has become slow must not hide behind the days when it was fast.
type diskTimes struct {
	mu            sync.Mutex
	taken         time.Time
	fsync, commit *health.Quantile
	marks         []diskMark // the oldest first
}

const (
	diskEvery  = 5 * time.Second
	diskWindow = 10 * time.Minute
	diskMarks  = time.Minute // between two marks
	leastDisk  = 10          // the samples that a window must have
)

// diskMark has the content of the histograms at a time.
type diskMark struct {
	at            time.Time
	fsync, commit *dto.Histogram
}

// times returns the figures, or nil if there are none.
func (d *diskTimes) times(from prometheus.Gatherer) (fsync, commit *health.Quantile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.Sub(d.taken) > diskEvery {
		d.take(markDisk(from, now))
	}
	return d.fsync, d.commit
}

// take computes the figures from the difference between now and the oldest mark of the window.
func (d *diskTimes) take(now diskMark) {
	d.taken = now.at
	old := func(m diskMark) bool { return now.at.Sub(m.at) >= diskWindow }
	for len(d.marks) > 1 && old(d.marks[1]) {
		d.marks = slices.Delete(d.marks, 0, 1)
	}
	var base diskMark
	if len(d.marks) > 0 && old(d.marks[0]) {
		base = d.marks[0]
	}
	over := now.at.Sub(base.at)
	d.fsync, d.commit = recent(now.fsync, base.fsync, over), recent(now.commit, base.commit, over)
	if n := len(d.marks); n == 0 || now.at.Sub(d.marks[n-1].at) >= diskMarks {
		d.marks = append(d.marks, now)
	}
}

// markDisk gathers the histograms for times; nil ones do not exist yet.
func markDisk(from prometheus.Gatherer, now time.Time) diskMark {
	m := diskMark{at: now}
	families, _ := from.Gather() // in spite of an error it returns what could be gathered
	for _, f := range families {
		of := map[string]**dto.Histogram{"etcd_disk_wal_fsync_duration_seconds": &m.fsync,
			"etcd_disk_backend_commit_duration_seconds": &m.commit}[f.GetName()]
		if of != nil && len(f.GetMetric()) > 0 {
			*of = f.GetMetric()[0].GetHistogram()
		}
	}
	return m
}

// recent returns the figures of the samples since base, or of all if those are too few; nil without a histogram.
func recent(h, base *dto.Histogram, over time.Duration) *health.Quantile {
	if h == nil {
		return nil
	}
	if base == nil || h.GetSampleCount() < base.GetSampleCount()+leastDisk {
		base, over = nil, 0
	}
	q := &health.Quantile{Count: h.GetSampleCount() - base.GetSampleCount(), Over: over.Seconds(),
		Total: h.GetSampleCount()}
	if q.Count > 0 {
		q.Mean = (h.GetSampleSum() - base.GetSampleSum()) / float64(q.Count)
	}
	var bounds []float64
	var below []uint64
	for i, b := range h.GetBucket() {
		bounds, below = append(bounds, b.GetUpperBound()), append(below, b.GetCumulativeCount())
		if base != nil {
			below[i] -= base.GetBucket()[i].GetCumulativeCount()
		}
	}
	q.Seconds = percentile99(bounds, below, q.Count)
	return q
}

// percentile99 returns the 99th percentile as Prometheus' histogram_quantile computes it: samples are evenly spread
// within a bucket, and the highest bound stands for what is beyond it.
func percentile99(bounds []float64, below []uint64, count uint64) float64 {
	rank := 0.99 * float64(count)
	lower, under := 0.0, uint64(0)
	for i, bound := range bounds {
		if float64(below[i]) >= rank && below[i] > under {
			return lower + (bound-lower)*(rank-float64(under))/float64(below[i]-under)
		}
		lower, under = bound, below[i]
	}
	return lower
}
