package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Quantile is the 99th percentile, in seconds, of a histogram with Count samples.
type Quantile struct {
	Seconds float64
	Count   uint64
}

// DiskTimes caches etcd's own figures of the disk for diskEvery. Gathering them costs as much as the rest of a status,
// because the registry gathers everything.
type DiskTimes struct {
	mu            sync.Mutex
	taken         time.Time
	fsync, commit *Quantile
}

const diskEvery = 5 * time.Second

// Times returns the figures over the life of this process, or nil if there are none.
func (d *DiskTimes) Times(from prometheus.Gatherer) (fsync, commit *Quantile) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.taken) > diskEvery {
		d.fsync, d.commit = diskTimes(from)
		d.taken = time.Now()
	}
	return d.fsync, d.commit
}

// diskTimes gathers the figures for Times.
func diskTimes(from prometheus.Gatherer) (fsync, commit *Quantile) {
	families, _ := from.Gather() // in spite of an error it returns what could be gathered
	for _, f := range families {
		of := map[string]**Quantile{"etcd_disk_wal_fsync_duration_seconds": &fsync,
			"etcd_disk_backend_commit_duration_seconds": &commit}[f.GetName()]
		if of == nil || len(f.GetMetric()) == 0 {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		var bounds []float64
		var below []uint64
		for _, b := range h.GetBucket() {
			bounds, below = append(bounds, b.GetUpperBound()), append(below, b.GetCumulativeCount())
		}
		*of = &Quantile{Seconds: percentile99(bounds, below, h.GetSampleCount()), Count: h.GetSampleCount()}
	}
	return fsync, commit
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
