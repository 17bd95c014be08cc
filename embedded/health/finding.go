package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says how much a finding matters. The zero value is none.
type Severity string

const (
	// Info is worth knowing, and nothing is to be done.
	Info Severity = "info"
	// Warning is to be looked at in working hours. A cluster with warnings is healthy.
	Warning Severity = "warning"
	// Degrading: the cluster serves, and something that it relies on is missing or fails.
	Degrading Severity = "degraded"
	// Critical: the cluster does not serve, or will not for long.
	Critical Severity = "critical"
)

// severities are all of them, the least first.
var severities = []Severity{Info, Warning, Degrading, Critical}

// rank orders severities.
func (s Severity) rank() int { return slices.Index(severities, s) }

// Finding is one thing that is wrong, or worth knowing.
type Finding struct {
	Code     Code     `json:"code"`
	Area     string   `json:"area"` // one of Areas
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject,omitempty"` // a node, slot, member, file, key or backup; empty: the cluster
	Text     string   `json:"text"`              // one sentence, which names the subject where that is a node or a slot
	Do       string   `json:"do,omitempty"`      // what to do, in a sentence
	Fix      *Repair  `json:"fix,omitempty"`     // what `holdfast doctor --fix` would do
}

// Repair is one step that `holdfast doctor --fix` offers: a key of etcd is deleted, as it was at a revision. The node
// that carries it out looks first, and does it only if it would still offer it.
type Repair struct {
	ID       string `json:"id"`       // says what is done, and to what exactly
	Question string `json:"question"` // for the operator
	Key      string `json:"-"`
	Revision int64  `json:"-"`
}

// New returns a finding of a kind, with its severity and what to do about it.
func New(code Code, subject, format string, args ...any) Finding {
	k := KindOf(code)
	return Finding{Code: code, Area: k.Area, Severity: k.Severity, Subject: subject, Text: fmt.Sprintf(format, args...),
		Do: k.Do}
}

// found is New for one of which more is to be said.
func found(code Code, subject, format string, args ...any) *Finding {
	f := New(code, subject, format, args...)
	return &f
}

// as changes the severity.
func (f *Finding) as(s Severity) *Finding {
	f.Severity = s
	return f
}

// then changes what to do.
func (f *Finding) then(format string, args ...any) *Finding {
	f.Do = fmt.Sprintf(format, args...)
	return f
}

// findings are gathered one by one.
type findings []Finding

// add adds one, and returns it for more to be said of it before the next.
func (all *findings) add(code Code, subject, format string, args ...any) *Finding {
	*all = append(*all, New(code, subject, format, args...))
	return &(*all)[len(*all)-1]
}

// String is the sentence with the subject in front, where it is not in it.
func (f Finding) String() string {
	if f.Subject == "" || strings.Contains(f.Text, f.Subject) {
		return f.Text
	}
	return f.Subject + ": " + f.Text
}

// Texts are the findings as sentences.
func Texts(all []Finding) []string {
	var out []string
	for _, f := range all {
		out = append(out, f.String())
	}
	return out
}

// Worst is the highest severity among them, empty for none.
func Worst(all []Finding) (worst Severity) {
	for _, f := range all {
		if f.Severity.rank() > worst.rank() {
			worst = f.Severity
		}
	}
	return worst
}

// ordered sorts findings: the worst first, then as they were found.
func ordered(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(b.Severity.rank(), a.Severity.rank()) })
	return all
}
