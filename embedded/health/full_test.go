package health

import (
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// The advice to delete keys comes only where nothing else helps.
func TestFullDatabaseAdvice(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name  string
		inUse int64 // MiB, of 15 of 16
		alarm bool
		cure  bool
		want  string
	}{
		{"live data", 15, false, true, ": delete keys, or raise"},
		{"something is free", 10, false, true, ": what is free is used"},
		{"the cure says it", 15, true, true, ""},
		{"it is curing", 10, true, true, ""},
		{"nobody cures it", 15, true, false, ": delete keys, or raise"},
	} {
		space := plan.Space{Size: 15 * mib, InUse: c.inUse * mib, Quota: 16 * mib}
		m := plan.Member{Running: true, Status: plan.Status{Space: space}}
		if c.alarm {
			m.Alarms = []plan.Alarm{{Name: plan.NoSpace}}
		}
		got := FullAdvice(plan.Upkeep{FullPercent: 90, Cure: c.cure}, m)
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
