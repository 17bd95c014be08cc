package cmd

import (
	"slices"
	"time"

	"holdfast/embedded/health"
)

// report is the answer of `holdfast doctor`.
type report struct {
	Cluster  string           `json:"cluster"`
	Asked    string           `json:"asked,omitempty"` // the node that answered; none: no node runs here
	Time     time.Time        `json:"time"`
	Findings []health.Finding `json:"findings"`
	Well     []string         `json:"well"`            // the areas that were looked at and have no findings
	Fixed    []string         `json:"fixed,omitempty"` // by this command
}

// diagnose judges the facts.
func diagnose(f health.Facts, wanted []string) report {
	r := report{Cluster: f.Status.Cluster, Asked: f.Status.Asked, Time: f.Now, Findings: f.Judge(wanted)}
	for _, area := range health.Areas {
		looked := f.Offline == "" || slices.Contains(health.Alone, area)
		if looked && !slices.ContainsFunc(r.Findings, func(f health.Finding) bool { return f.Area == area }) {
			r.Well = append(r.Well, area)
		}
	}
	return r
}
