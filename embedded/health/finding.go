package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Severity says how much a finding matters. The zero value means no finding.
type Severity string

const (
	// Info is worth knowing, and needs no action.
	Info Severity = "info"
	// Warning needs attention in working hours. A cluster with warnings is healthy.
	Warning Severity = "warning"
	// Degrading: the cluster serves, but something that it relies on is missing or fails.
	Degrading Severity = "degraded"
	// Critical: the cluster does not serve, or will soon stop serving.
	Critical Severity = "critical"
)

// severities lists all of them in ascending order.
var severities = []Severity{Info, Warning, Degrading, Critical}

// rank orders severities.
func (s Severity) rank() int { return slices.Index(severities, s) }

// Finding is one thing that is wrong, or worth knowing.
type Finding struct {
	Code     Code     `json:"code"`
	Area     string   `json:"area"` // one of Areas
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject,omitempty"` // a node, slot, member, file, key or backup; empty: the cluster
	Text     string   `json:"text"`              // one sentence, which names the subject if that is a node or a slot
	Do       string   `json:"do,omitempty"`      // what to do, in one sentence
	Fix      *Repair  `json:"fix,omitempty"`     // what `holdfast doctor --fix` would do
}

// Repair is one step that `holdfast doctor --fix` offers: to delete a key of etcd, as it was at a revision. The node
// that carries it out first checks again, and does it only if it would still offer it.
type Repair struct {
	ID       string `json:"id"`       // the exact step, in words
	Question string `json:"question"` // for the operator
	Key      string `json:"-"`
	Revision int64  `json:"-"`
}

// New returns a finding with the area, severity and advice of its code. A finding is one line: joined errors have
// several.
func New(code Code, subject, format string, args ...any) Finding {
	k := KindOf(code)
	return Finding{Code: code, Area: k.Area, Severity: k.Severity, Subject: subject,
		Text: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "), Do: k.Do}
}

// found is New without a subject, for a finding to which more is added.
func found(code Code, format string, args ...any) *Finding {
	return new(New(code, "", format, args...))
}

// as changes the severity.
func (f *Finding) as(s Severity) *Finding {
	f.Severity = s
	return f
}

// then changes the advice.
func (f *Finding) then(format string, args ...any) *Finding {
	f.Do = fmt.Sprintf(format, args...)
	return f
}

// findings collects findings.
type findings []Finding

// add adds a finding, and returns it so that it can be changed before the next add.
func (all *findings) add(code Code, subject, format string, args ...any) *Finding {
	*all = append(*all, New(code, subject, format, args...))
	return &(*all)[len(*all)-1]
}

// String returns the sentence, preceded by the subject unless the sentence contains it.
func (f Finding) String() string {
	if f.Subject == "" || strings.Contains(f.Text, f.Subject) {
		return f.Text
	}
	return f.Subject + ": " + f.Text
}

// Texts returns the findings as sentences.
func Texts(all []Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, f.String())
	}
	return out
}

// Worst returns the highest severity among the findings, "" if there are none.
func Worst(all []Finding) (worst Severity) {
	for _, f := range all {
		if f.Severity.rank() > worst.rank() {
			worst = f.Severity
		}
	}
	return worst
}

// ordered sorts findings by severity, the worst first, and otherwise keeps their order.
func ordered(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(b.Severity.rank(), a.Severity.rank()) })
	return all
}

// Age returns a duration for people, in one unit: a second one would be too much in a table.
func Age(now, then time.Time) string {
	switch d := now.Sub(then); {
	case then.IsZero():
		return "-"
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// Bytes returns a size for people, in binary units.
func Bytes(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// Count returns a number of things, in words.
func Count(n int64, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
