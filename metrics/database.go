package metrics

import "time"

// Database is one observation of the member's database. Sizes are in bytes; all are 0 while etcd does not run.
type Database struct {
	Size, InUse, Quota int64
	Fragmented         bool   // worth a defragmentation
	Full               bool   // at or above the watermark
	NoSpace, Corrupt   bool   // the alarms of the cluster
	Growth             *int64 // bytes per day; nil while unknown

	Defragmented   int // since the process began
	DefragFailures int
	Cures          int       // how often this member has disarmed NOSPACE
	DefragTime     time.Time // when the last one ended; zero if there was none
	DefragSeconds  float64   // how long the last one took
	DefragFailed   bool
}

// The descriptions of the series about the database.
var (
	sizeDesc   = desc("database_size_bytes", "Size of the member's database file; 0 while etcd does not run.")
	inUseDesc  = desc("database_in_use_bytes", "Part of the database file that is in use.")
	quotaDesc  = desc("database_quota_bytes", "Size at which the database refuses writes.")
	growthDesc = desc("database_growth_bytes_per_day",
		"Growth of the live data in a day; no series until an hour is known.")
	fragmentedDesc = desc("database_fragmented", "1 while the database is worth a defragmentation.")
	fullDesc       = desc("database_full", "1 while the database is at or above upkeep.full-percent of its quota.")
	alarmDesc      = desc("alarm", "1 while the cluster has this alarm, as this member knows.", "alarm")
	defragsDesc    = desc("defragmentations_total",
		"Defragmentations of the member's database by this process, by result.", "result")
	curesDesc      = desc("nospace_cured_total", "How often this process has disarmed the alarm NOSPACE.")
	defragTimeDesc = desc("defragmentation_last_timestamp_seconds",
		"When the last defragmentation ended; 0 before the first.")
	defragTookDesc = desc("defragmentation_last_seconds",
		"How long the last defragmentation kept the member from its clients.")
	defragOKDesc = desc("defragmentation_last_success", "0 if the last defragmentation failed or was of no use, else 1.")
)

func (d Database) collect(put sink) {
	put.gauge(sizeDesc, float64(d.Size))
	put.gauge(inUseDesc, float64(d.InUse))
	put.gauge(quotaDesc, float64(d.Quota))
	if d.Growth != nil {
		put.gauge(growthDesc, float64(*d.Growth))
	}
	put.gauge(fragmentedDesc, number(d.Fragmented))
	put.gauge(fullDesc, number(d.Full))
	put.gauge(alarmDesc, number(d.NoSpace), "NOSPACE")
	put.gauge(alarmDesc, number(d.Corrupt), "CORRUPT")
	put.counter(defragsDesc, float64(d.Defragmented), "done")
	put.counter(defragsDesc, float64(d.DefragFailures), "failed")
	put.counter(curesDesc, float64(d.Cures))
	last := 0.0
	if !d.DefragTime.IsZero() {
		last = float64(d.DefragTime.Unix())
	}
	put.gauge(defragTimeDesc, last)
	put.gauge(defragTookDesc, d.DefragSeconds)
	put.gauge(defragOKDesc, number(!d.DefragFailed))
}
