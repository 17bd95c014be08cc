package node

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"holdfast/embedded/health"
)

func TestDiskTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var d diskTimes
		if fsync, commit := d.times(reg); fsync != nil || commit != nil {
			t.Errorf("of nothing: %v %v", fsync, commit)
		}
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "etcd_disk_wal_fsync_duration_seconds", Buckets: []float64{0.001, 0.002, 0.004}})
		reg.MustRegister(h)
		observe := func(times int, seconds float64) {
			for range times {
				h.Observe(seconds)
			}
		}
		want := func(what string, want health.Quantile) {
			t.Helper()
			time.Sleep(diskEvery + time.Millisecond)
			fsync, _ := d.times(reg)
			if fsync == nil || math.Abs(fsync.Seconds-want.Seconds) > 1e-9 || fsync.Count != want.Count || fsync.Total != want.Total || fsync.Over > 0 != (want.Over > 0) {
				t.Errorf("%s: got %+v, want %+v", what, fsync, want)
			}
		}
		observe(98, 0.0005)
		observe(2, 0.003)
		want("the middle of the bucket from 2 to 4 ms", health.Quantile{Seconds: 0.003, Count: 100, Total: 100})
		observe(100, 1)
		want("the highest bound", health.Quantile{Seconds: 0.004, Count: 200, Total: 200})

		// After ten minutes only those count.
		time.Sleep(diskWindow)
		observe(9, 0.0005)
		want("too few lately", health.Quantile{Seconds: 0.004, Count: 209, Total: 209})
		observe(1, 0.0005)
		time.Sleep(diskWindow)
		observe(90, 0.0005)
		want("fast again", health.Quantile{Seconds: 0.00099, Count: 91, Total: 300, Over: 1})
		if fsync, _ := d.times(reg); fsync.Over < diskWindow.Seconds() || fsync.Mean > 0.0006 {
			t.Errorf("got %+v, want the mean of at least ten minutes", fsync)
		}
	})
}

// Frequent status requests do not gather everything each time, and the marks do not grow without bound.
func TestDiskTimesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gathered := 0
		from := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { gathered++; return nil, nil })
		var d diskTimes
		d.times(from)
		d.times(from)
		if gathered != 1 {
			t.Errorf("gathered %d times, want once", gathered)
		}
		time.Sleep(diskEvery + time.Millisecond)
		if d.times(from); gathered != 2 {
			t.Errorf("gathered %d times, want twice: the figures are old", gathered)
		}
		for range 1000 {
			time.Sleep(2 * diskEvery)
			d.times(from)
		}
		if most := int(diskWindow/diskMarks) + 2; len(d.marks) > most {
			t.Errorf("%d marks are kept, want at most %d", len(d.marks), most)
		}
	})
}
