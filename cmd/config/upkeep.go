package config

import "fmt"

// Upkeep is the `upkeep:` section: compaction and defragmentation of the members' databases.
type Upkeep struct {
	// A database is defragmented when at least DefragFreePercent of its file and DefragFreeBytes are free. With 0
	// percent, it is defragmented only to cure NOSPACE.
	DefragFreePercent int   `mapstructure:"defrag-free-percent"`
	DefragFreeBytes   int64 `mapstructure:"defrag-free-bytes"`
	// FullPercent: every database must be below this percentage of the quota before NOSPACE is disarmed.
	FullPercent int `mapstructure:"full-percent"`
	// CureNoSpace compacts and defragments automatically when the quota is reached.
	CureNoSpace bool `mapstructure:"cure-nospace"`
}

// defaultUpkeep defragments a database if at least half of its file can be freed, and at least 32 MiB.
func defaultUpkeep() Upkeep {
	return Upkeep{DefragFreePercent: 50, DefragFreeBytes: 32 << 20, FullPercent: 90, CureNoSpace: true}
}

// Validate reports every value out of range.
func (c Upkeep) Validate(wrong func(key, format string, args ...any)) {
	if c.DefragFreePercent != 0 && (c.DefragFreePercent < 10 || c.DefragFreePercent > 95) {
		wrong("upkeep.defrag-free-percent", "must be 0 (never) or 10–95, got %d", c.DefragFreePercent)
	}
	if c.FullPercent < 50 || c.FullPercent > 99 {
		wrong("upkeep.full-percent", "must be 50–99, got %d", c.FullPercent)
	}
}

// upkeepDoubts returns warnings about the section upkeep.
func upkeepDoubts(c Config) []string {
	var all []string
	if u := c.Upkeep; u.DefragFreePercent > 0 && u.DefragFreeBytes < 16<<20 {
		all = append(all, fmt.Sprintf("upkeep.defrag-free-bytes: %d, members are kept from their clients for next to nothing",
			u.DefragFreeBytes))
	}
	return all
}
