package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestDatabaseSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, testNames)
	perDay := int64(-5)
	m.Observe(Sample{Database: Database{Size: 9, InUse: 4, Quota: 10, Fragmented: true, NoSpace: true, Growth: &perDay,
		Defragmented: 2, DefragFailures: 1, DefragTime: time.Unix(1700, 0), DefragSeconds: 1.5, DefragFailed: true}})
	const want = `holdfast_alarm{alarm="CORRUPT"} 0
holdfast_alarm{alarm="NOSPACE"} 1
holdfast_database_fragmented 1
holdfast_database_full 0
holdfast_database_growth_bytes_per_day -5
holdfast_database_in_use_bytes 4
holdfast_database_quota_bytes 10
holdfast_database_size_bytes 9
holdfast_defragmentation_last_seconds 1.5
holdfast_defragmentation_last_success 0
holdfast_defragmentation_last_timestamp_seconds 1700
holdfast_defragmentations_total{result="done"} 2
holdfast_defragmentations_total{result="failed"} 1
`
	got := series(t, reg, "holdfast_alarm", "holdfast_database_fragmented", "holdfast_database_full", "holdfast_database_growth_bytes_per_day",
		"holdfast_database_in_use_bytes", "holdfast_database_quota_bytes", "holdfast_database_size_bytes", "holdfast_defragmentation_last_seconds",
		"holdfast_defragmentation_last_success", "holdfast_defragmentation_last_timestamp_seconds", "holdfast_defragmentations_total")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
