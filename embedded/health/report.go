package health

import (
	"slices"
	"time"
)

// Report is the answer of `holdfast doctor`.
type Report struct {
	Cluster  string    `json:"cluster"`
	Asked    string    `json:"asked,omitempty"` // the node that answered; empty: no node runs here
	Time     time.Time `json:"time"`
	Findings []Finding `json:"findings"`
	Well     []string  `json:"well"`            // the areas that were examined and have no findings
	Fixed    []string  `json:"fixed,omitempty"` // by this command
}

// Report judges the facts, and lists the areas without findings. wanted are the configured slots of the asked node.
func (f Facts) Report(wanted []string) Report {
	r := Report{Cluster: f.Status.Cluster, Asked: f.Status.Asked, Time: f.Now, Findings: f.Judge(wanted)}
	for _, area := range areas {
		looked := f.Offline == "" || slices.Contains(alone, area)
		if looked && !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Area == area }) {
			r.Well = append(r.Well, area)
		}
	}
	return r
}
