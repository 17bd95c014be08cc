package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/metrics"
)

// upkeepProblems is what an operator should know of the database here.
func upkeepProblems(s coordinator.Situation) []string {
	var problems []string
	m, u := s.Observation.Member, s.Upkeep
	if u.Full && m.Running {
		problems = append(problems, fmt.Sprintf("the database takes %s of its quota of %s, %s of it in use%s: delete keys, or raise etcd.quota-backend-bytes on all nodes",
			bytesText(m.Space.Size), bytesText(m.Space.Quota), bytesText(m.Space.InUse), growthText(u.Growth)))
	}
	if d := u.Last; d != nil && d.Error != "" {
		problems = append(problems, fmt.Sprintf("the last defragmentation failed, %d so far: %s", u.Failures, d.Error))
	}
	return problems
}

func growthText(perDay *int64) string {
	switch {
	case perDay == nil:
		return ""
	case *perDay < 0:
		return fmt.Sprintf(", %s less each day", bytesText(-*perDay))
	}
	return fmt.Sprintf(", %s more each day", bytesText(*perDay))
}

// alarmCheck is the line of /readyz about etcd's alarms: with one of them clients are refused.
func alarmCheck(m plan.Member, why string) metrics.Check {
	c := metrics.Check{Name: "alarms", Detail: "none"}
	switch {
	case slices.Contains(m.Alarms, plan.Corrupt):
		c.Err = errors.New(why)
	case m.Spaceless(): // reads are answered, and there is no better node
		c.Warning = why
	}
	return c
}

// upkeepSample adds what is exported of the database.
func upkeepSample(to *metrics.Sample, s coordinator.Situation) {
	m, u := s.Observation.Member, s.Upkeep
	to.Size, to.InUse, to.Quota = m.Space.Size, m.Space.InUse, m.Space.Quota
	to.Fragmented, to.Full, to.Growth = m.Running && u.Fragmented, m.Running && u.Full, u.Growth
	to.NoSpace, to.Corrupt = m.Spaceless(), slices.Contains(m.Alarms, plan.Corrupt)
	to.Defragmented, to.DefragFailures, to.Cures = u.Defrags, u.Failures, u.Cures
	if d := u.Last; d != nil {
		to.DefragSeconds, to.DefragTime, to.DefragFailed = d.Seconds, d.Time, d.Error != ""
	}
}

// databaseText tells of the databases of those nodes where there is something to tell.
func databaseText(nodes []coordinator.NodeStatus) string {
	var b strings.Builder
	for _, n := range nodes {
		e, u := n.Etcd, n.Upkeep
		if e == nil || u == nil {
			continue
		}
		fmt.Fprintf(&b, "  %s: %s, %s in use, quota %s%s", n.Node, bytesText(e.Size), bytesText(e.InUse), bytesText(e.Quota), growthText(u.Growth))
		if u.Fragmented {
			b.WriteString("; to be defragmented")
		}
		if d := u.Last; d != nil && d.Error == "" {
			fmt.Fprintf(&b, "; defragmented at %s in %.1f s: %s to %s", d.Time.UTC().Format("2006-01-02 15:04:05Z"), d.Seconds, bytesText(d.Before), bytesText(d.After))
		}
		b.WriteString("\n")
	}
	return b.String()
}
