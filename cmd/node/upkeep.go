package node

import (
	"holdfast/cmd/config"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/metrics"
)

// upkeepSample adds the database to the exported metrics.
func upkeepSample(to *metrics.Sample, s coordinator.Situation) {
	m, u := s.Observation.Member, s.Upkeep
	to.Size, to.InUse, to.Quota = m.Space.Size, m.Space.InUse, m.Space.Quota
	to.Fragmented, to.Full, to.Growth = m.Running && u.Fragmented, m.Running && u.Full, u.Growth
	to.NoSpace, to.Corrupt = m.Alarmed(plan.NoSpace), m.Alarmed(plan.Corrupt)
	to.Defragmented, to.DefragFailures, to.Cures = u.Defrags, u.Failures, u.Cures
	if d := u.Last; d != nil {
		to.DefragSeconds, to.DefragTime, to.DefragFailed = d.Seconds, d.Time, d.Error != ""
	}
}

// upkeepOf returns the section upkeep in the type of decisions.
func upkeepOf(c config.Upkeep) plan.Upkeep {
	return plan.Upkeep{FreePercent: c.DefragFreePercent, FreeBytes: c.DefragFreeBytes, FullPercent: c.FullPercent,
		Cure: c.CureNoSpace}
}
