package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Present findings are counted, absent ones are 0, and an unusual severity has its own series.
func TestFindings(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	now := []Finding{{"a", "warning", 2}, {"b", "critical", 1}}
	Findings(reg, []Finding{{Code: "a", Severity: "warning"}, {Code: "b", Severity: "warning"}}, func() []Finding { return now })
	const want = `holdfast_finding{code="a",severity="warning"} 2
holdfast_finding{code="b",severity="critical"} 1
holdfast_finding{code="b",severity="warning"} 0
`
	if got := series(t, reg, "holdfast_finding"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	now = nil
	const none = "holdfast_finding{code=\"a\",severity=\"warning\"} 0\nholdfast_finding{code=\"b\",severity=\"warning\"} 0\n"
	if got := series(t, reg, "holdfast_finding"); got != none {
		t.Errorf("when all is well: got\n%swant\n%s", got, none)
	}
}
