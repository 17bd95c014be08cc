package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// grade is what a check comes to.
type grade string

const (
	well    grade = "ok"
	unknown grade = "unknown" // it could not be looked at
	warned  grade = "warn"
	bad     grade = "bad"
)

// finding is one thing that a check has found. Means and Do are a sentence each; Do is empty where nothing is to be done.
type finding struct {
	Check string  `json:"check"`
	About string  `json:"about,omitempty"` // a node, a member, a key, a file
	Grade grade   `json:"grade"`
	Means string  `json:"means"`
	Do    string  `json:"do,omitempty"`
	Fix   *repair `json:"fix,omitempty"` // what --fix would do
}

// repair is one step that --fix offers. The node that carries it out judges anew, and does it only if it still offers it.
type repair struct {
	ID       string `json:"id"`       // says what is done, and to what exactly
	Question string `json:"question"` // for the operator

	key      string // to be deleted, as it was at revision
	revision int64
}

// report is the answer of `holdfast doctor`.
type report struct {
	Cluster  string    `json:"cluster"`
	Asked    string    `json:"asked,omitempty"` // the node that answered; none: no node runs here
	Time     time.Time `json:"time"`
	Findings []finding `json:"findings"`
	Fixed    []string  `json:"fixed,omitempty"` // by this command
}

// worst is the exit code: 2 with anything bad, 1 with anything else that is not well.
func (r report) worst() int {
	code := 0
	for _, f := range r.Findings {
		switch f.Grade {
		case bad:
			return 2
		case warned, unknown:
			code = 1
		}
	}
	return code
}

// marks begin the lines of findings, as those of `holdfast volume doctor` do.
var marks = map[grade]string{well: "[+]", warned: "[!]", bad: "[-]", unknown: "[?]"}

// write prints the report for people: what is bad first.
func (r report) write(w io.Writer) error {
	var b strings.Builder
	order := []grade{bad, warned, unknown, well}
	sorted := slices.Clone(r.Findings)
	slices.SortStableFunc(sorted, func(a, b finding) int { return slices.Index(order, a.Grade) - slices.Index(order, b.Grade) })
	count := map[grade]int{}
	for _, f := range sorted {
		count[f.Grade]++
		about := ""
		if f.About != "" {
			about = " (" + f.About + ")"
		}
		fmt.Fprintf(&b, "%s %s%s: %s\n", marks[f.Grade], f.Check, about, f.Means)
		if f.Do != "" {
			fmt.Fprintf(&b, "      %s\n", f.Do)
		}
	}
	fmt.Fprintf(&b, "\ncluster %s: %d bad, %d to look at, %d unknown, %d ok\n", r.Cluster, count[bad], count[warned], count[unknown], count[well])
	for _, f := range sorted {
		if f.Fix != nil {
			fmt.Fprintln(&b, "`holdfast doctor --fix` would: "+f.Fix.ID)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
