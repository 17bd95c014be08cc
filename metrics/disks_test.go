package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestDiskSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, testNames)
	m.Observe(Sample{Disks: Disks{Volume: Disk{Free: 3, Size: 10, Reserve: 1}, Scratch: Disk{Free: 0, Size: 20}}})
	const want = `holdfast_disk_free_bytes{use="scratch"} 0
holdfast_disk_free_bytes{use="volume"} 3
holdfast_disk_reserve_bytes{use="volume"} 1
holdfast_disk_size_bytes{use="scratch"} 20
holdfast_disk_size_bytes{use="volume"} 10
`
	if got := series(t, reg, "holdfast_disk_free_bytes", "holdfast_disk_reserve_bytes", "holdfast_disk_size_bytes"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
