package show

import (
	"fmt"
	"strings"

	"holdfast/embedded/health"
)

// marks begin the lines of findings, as in `holdfast volume doctor`.
var marks = map[health.Severity]string{health.Info: "[i]", health.Warning: "[!]", health.Degrading: "[-]",
	health.Critical: "[-]"}

// Doctor returns the report for people, the worst findings first.
func Doctor(r health.Report) string {
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
	fmt.Fprintf(&b, "\ncluster %s: %d bad, %d to look at, %d to know\n", r.Cluster, count["[-]"], count["[!]"],
		count["[i]"])
	for _, f := range r.Findings {
		if f.Fix != nil {
			fmt.Fprintln(&b, "`holdfast doctor --fix` would: "+f.Fix.ID)
		}
	}
	return b.String()
}
