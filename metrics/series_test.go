package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"holdfast/invalid"
)

// text returns what reg exports in the text format, without comments.
func text(t *testing.T, reg prometheus.Gatherer) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all, lines strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&all, f); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(all.String()) {
		if !strings.HasPrefix(line, "#") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

func TestSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	states := []string{"claiming", "running"}
	current := ""
	Collect(reg, func() (out Series) {
		out.OneOf("node_state", "State.", "state", current, states)
		out.Flag("paused", "Paused.", current != "")
		out.Counter("cures_total", "Cures.", 3, "result", "done")
		return out
	})
	const begin = `holdfast_cures_total{result="done"} 3
holdfast_node_state{state="claiming"} 0
holdfast_node_state{state="running"} 0
holdfast_paused 0
`
	if got := text(t, reg); got != begin {
		t.Errorf("at the beginning: got\n%swant\n%s", got, begin)
	}
	current = "stopping"
	const unlisted = `holdfast_cures_total{result="done"} 3
holdfast_node_state{state="claiming"} 0
holdfast_node_state{state="running"} 0
holdfast_node_state{state="stopping"} 1
holdfast_paused 1
`
	if got := text(t, reg); got != unlisted {
		t.Errorf("in a state that is not listed: got\n%swant\n%s", got, unlisted)
	}
}

func TestDecidedCountsChanges(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	c := NewCounters(reg, []string{"wait", "start"}, []string{"leader-gone"})
	for _, action := range []string{"wait", "wait", "start", "start", "wait"} {
		c.Decided(action)
	}
	c.Failed("start")
	const want = `holdfast_actions_failed_total{action="start"} 1
holdfast_actions_failed_total{action="wait"} 0
holdfast_decisions_total{action="start"} 1
holdfast_decisions_total{action="wait"} 2
holdfast_early_campaigns_total{reason="leader-gone"} 0
`
	if got := text(t, reg); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestValidate(t *testing.T) {
	for listen, ok := range map[string]bool{
		"": true, "off": true, "127.0.0.1:2381": true, "[::1]:0": true, ":2381": true, "localhost:65535": true,
		"on": false, "127.0.0.1": false, "127.0.0.1:": false, "127.0.0.1:65536": false, "127.0.0.1:http": false,
		"example.com:2381": false, "::1:2381": false, "127.0.0.1:-1": false,
	} {
		err := invalid.Join(Config{Listen: listen}.Validate)
		if (err == nil) != ok {
			t.Errorf("Validate of listen %q: got %v, want ok %v", listen, err, ok)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "metrics.listen: must be ") {
			t.Errorf("Validate of listen %q: %q does not name the key", listen, err)
		}
	}
	if err := invalid.Join(Default().Validate); err != nil {
		t.Error(err)
	}
}
