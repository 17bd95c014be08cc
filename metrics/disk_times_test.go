package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func TestDiskTimes(t *testing.T) {
	reg := prometheus.NewRegistry()
	if fsync, commit := diskTimes(reg); fsync != nil || commit != nil {
		t.Errorf("of nothing: %v %v", fsync, commit)
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "etcd_disk_wal_fsync_duration_seconds", Buckets: []float64{0.001, 0.002, 0.004}})
	reg.MustRegister(h)
	for range 98 {
		h.Observe(0.0005)
	}
	h.Observe(0.003)
	h.Observe(0.003)
	if fsync, _ := diskTimes(reg); fsync == nil || *fsync != (Quantile{Seconds: 0.003, Count: 100}) {
		t.Errorf("got %+v, want the middle of the bucket from 2 to 4 ms", fsync)
	}
	for range 100 {
		h.Observe(1)
	}
	if fsync, _ := diskTimes(reg); fsync == nil || *fsync != (Quantile{Seconds: 0.004, Count: 200}) {
		t.Errorf("got %+v, want the highest bound", fsync)
	}
}

// Frequent status requests do not gather everything each time.
func TestDiskTimesAreKept(t *testing.T) {
	gathered := 0
	from := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { gathered++; return nil, nil })
	var d DiskTimes
	d.Times(from)
	d.Times(from)
	if gathered != 1 {
		t.Errorf("gathered %d times, want once", gathered)
	}
	d.taken = d.taken.Add(-diskEvery)
	if d.Times(from); gathered != 2 {
		t.Errorf("gathered %d times, want twice: the figures are old", gathered)
	}
}
