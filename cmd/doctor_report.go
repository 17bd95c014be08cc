package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
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

// worst is the exit code: 2 with anything degraded or critical, 1 with a warning.
func (r report) worst() int {
	switch health.Worst(r.Findings) {
	case health.Critical, health.Degrading:
		return 2
	case health.Warning:
		return 1
	}
	return 0
}

// marks begin the lines of findings, as those of `holdfast volume doctor` do.
var marks = map[health.Severity]string{health.Info: "[i]", health.Warning: "[!]", health.Degrading: "[-]", health.Critical: "[-]"}

// write prints the report for people: what is bad first.
func (r report) write(w io.Writer) error {
	var b strings.Builder
	count := map[string]int{}
	for _, f := range r.Findings {
		count[marks[f.Severity]]++
		fmt.Fprintf(&b, "%s %s: %s\n", marks[f.Severity], f.Code, f)
		if f.Do != "" {
			fmt.Fprintf(&b, "      %s\n", f.Do)
		}
	}
	if len(r.Well) > 0 {
		fmt.Fprintf(&b, "[+] nothing was found about: %s\n", strings.Join(r.Well, ", "))
	}
	fmt.Fprintf(&b, "\ncluster %s: %d bad, %d to look at, %d to know\n", r.Cluster, count["[-]"], count["[!]"], count["[i]"])
	for _, f := range r.Findings {
		if f.Fix != nil {
			fmt.Fprintln(&b, "`holdfast doctor --fix` would: "+f.Fix.ID)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
