package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"

	"holdfast/invalid"
)

var testNames = Names{
	Version: "1.2.3", EtcdVersion: "3.7.3",
	States: []string{"claiming", "running"}, Actions: []string{"wait", "start"},
}

func TestSeriesSatisfyPromlint(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	New(reg, testNames).Observe(Sample{State: "running", Slot: "a"})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "holdfast_") || f.GetHelp() == "" {
			t.Errorf("%s: want the prefix holdfast_ and a help text", f.GetName())
		}
	}
	// The linter itself must be able to fail.
	if p, _ := promlint.New(strings.NewReader("# TYPE x_total gauge\nx_total 1\n")).Lint(); len(p) == 0 {
		t.Error("promlint found nothing wrong with a bad metric")
	}
}

// series returns the samples of reg in the text format, without comments, sorted by name and labels.
func series(t *testing.T, reg prometheus.Gatherer, names ...string) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for line := range strings.Lines(text.String()) {
		for _, name := range names {
			if strings.HasPrefix(line, name+" ") || strings.HasPrefix(line, name+"{") {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

func TestObserve(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, testNames)
	const empty = `holdfast_node_state{state="claiming"} 0
holdfast_node_state{state="running"} 0
`
	if got := series(t, reg, "holdfast_node_state", "holdfast_volume_held"); got != empty {
		t.Errorf("before the first observation: got\n%swant\n%s", got, empty)
	}
	m.Observe(Sample{State: "claiming", Slot: "b", Epoch: 7})
	m.Observe(Sample{
		State: "stopping", Slot: "a", Epoch: 8, Generation: 2,
		Running: true, Ready: true, Leader: true, Voters: 3, Learners: 1, Paused: true,
	})
	const want = `holdfast_etcd_leader 1
holdfast_etcd_learner 0
holdfast_etcd_ready 1
holdfast_etcd_running 1
holdfast_generation 2
holdfast_members{role="learner"} 1
holdfast_members{role="voter"} 3
holdfast_node_state{state="claiming"} 0
holdfast_node_state{state="running"} 0
holdfast_node_state{state="stopping"} 1
holdfast_paused 1
holdfast_volume_epoch 8
holdfast_volume_held{slot="a"} 1
`
	got := series(t, reg, "holdfast_etcd_leader", "holdfast_etcd_learner", "holdfast_etcd_ready", "holdfast_etcd_running",
		"holdfast_generation", "holdfast_members", "holdfast_node_state", "holdfast_paused", "holdfast_volume_epoch", "holdfast_volume_held")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestDecidedCountsChanges(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, testNames)
	for _, action := range []string{"wait", "wait", "start", "start", "wait"} {
		m.Decided(action)
	}
	m.Failed("start")
	const want = `holdfast_actions_failed_total{action="start"} 1
holdfast_actions_failed_total{action="wait"} 0
holdfast_decision_info{action="start"} 0
holdfast_decision_info{action="wait"} 1
holdfast_decisions_total{action="start"} 1
holdfast_decisions_total{action="wait"} 2
`
	got := series(t, reg, "holdfast_decisions_total", "holdfast_decision_info", "holdfast_actions_failed_total")
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A scrape during a change must find exactly one current state.
func TestScrapeSeesOneWholeSample(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg, testNames)
	m.Observe(Sample{State: "running", Voters: 2})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				m.Observe(Sample{State: testNames.States[i%2], Voters: 1 + i%2})
			}
		}
	}()
	for range 200 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, s := range f.GetMetric() {
				for _, l := range s.GetLabel() {
					got[f.GetName()+"/"+l.GetValue()] = s.GetGauge().GetValue()
				}
			}
		}
		running, claiming := got["holdfast_node_state/running"], got["holdfast_node_state/claiming"]
		if running+claiming != 1 || got["holdfast_members/voter"] != 1+running {
			t.Fatalf("running %v, claiming %v, voters %v: not one sample", running, claiming, got["holdfast_members/voter"])
		}
	}
	close(stop)
	<-stopped
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
