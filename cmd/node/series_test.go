package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"holdfast/embedded/coordinator"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/metrics"
)

// gathered returns the families of series, each with a help text and the prefix.
func gathered(t *testing.T, out metrics.Series) []*dto.MetricFamily {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	metrics.Collect(reg, func() metrics.Series { return out })
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "holdfast_") || f.GetHelp() == "" {
			t.Errorf("%s: want the prefix holdfast_ and a help text", f.GetName())
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	return families
}

// seriesAre compares series with the text format, without comments.
func seriesAre(t *testing.T, what string, out metrics.Series, want string) {
	t.Helper()
	var text, got strings.Builder
	for _, f := range gathered(t, out) {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			got.WriteString(line)
		}
	}
	if got.String() != want {
		t.Errorf("%s: got\n%swant\n%s", what, got.String(), want)
	}
}

func TestNodeSeries(t *testing.T) {
	// The linter itself must be able to fail.
	if p, _ := promlint.New(strings.NewReader("# TYPE x_total gauge\nx_total 1\n")).Lint(); len(p) == 0 {
		t.Error("promlint found nothing wrong with a bad metric")
	}
	s := coordinator.Situation{Action: plan.Action{Kind: plan.Wait}, Conflicts: []string{"x"}}
	o := &s.Observation
	o.Claim = plan.Claim{Held: true, Slot: "a", Epoch: 8}
	o.Disk.Ledger.Record = &plan.Record{Generation: 2}
	o.Member = plan.Member{Running: true, Paused: &plan.Pause{}, Members: []plan.MemberInfo{{}, {}, {}, {Learner: true}}}
	o.Member.Ready, o.Member.HasLead, o.Member.Leader, o.Member.Confirmed = true, true, true, true
	var out metrics.Series
	nodeSeries(&out, s)
	got := map[string]float64{}
	for _, f := range gathered(t, out) {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += "/" + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"node_state/leader": 1, "node_state/claiming": 0, "decision_info/wait": 1,
		"decision_info/start": 0, "etcd_running": 1, "etcd_ready": 1, "etcd_leader": 1, "etcd_learner": 0,
		"volume_held/a": 1, "volume_epoch": 8, "generation": 2, "conflicts": 1, "paused": 1, "members/voter": 3,
		"members/learner": 1} {
		if value, is := got["holdfast_"+name]; !is || value != want {
			t.Errorf("%s: got %v (%t), want %v", name, value, is, want)
		}
	}
	o.Member.Confirmed = false
	out = nil
	nodeSeries(&out, s)
	seriesAre(t, "a leader that is not confirmed", slices.DeleteFunc(out, func(m prometheus.Metric) bool {
		return !strings.Contains(m.Desc().String(), `"holdfast_etcd_`)
	}), "holdfast_etcd_leader 0\nholdfast_etcd_learner 0\nholdfast_etcd_ready 0\nholdfast_etcd_running 1\n")
	out = nil
	nodeSeries(&out, coordinator.Situation{})
	if text := out[len(out)-3].Desc().String(); strings.Contains(text, "volume_held") {
		t.Errorf("without a volume: %s", text)
	}
}

// A member that is being stopped neither leads nor serves, whatever the last observation says.
func TestSeriesOfAStoppedMember(t *testing.T) {
	s := coordinator.Situation{}
	o := &s.Observation
	o.Claim, o.Stopping = plan.Claim{Held: true, Slot: "a"}, true
	o.Member = plan.Member{Running: true, Ready: true, Status: plan.Status{HasLead: true, Leader: true, Confirmed: true}}
	if got := refreshed(s, o.Member).State(); got != "leader" {
		t.Errorf("while it runs: got the state %s", got)
	}
	s = refreshed(s, plan.Member{})
	if got := s.State(); got != "waiting" {
		t.Errorf("got the state %s", got)
	}
	var out metrics.Series
	nodeSeries(&out, s)
	seriesAre(t, "a stopped member", slices.DeleteFunc(out, func(m prometheus.Metric) bool {
		return !strings.Contains(m.Desc().String(), `"holdfast_etcd_`)
	}), "holdfast_etcd_leader 0\nholdfast_etcd_learner 0\nholdfast_etcd_ready 0\nholdfast_etcd_running 0\n")
}

func TestDatabaseSeries(t *testing.T) {
	perDay := int64(-5)
	s := coordinator.Situation{}
	s.Observation.Member.Running = true
	s.Observation.Member.Space.Size, s.Observation.Member.Space.InUse, s.Observation.Member.Space.Quota = 9, 4, 10
	s.Observation.Member.Alarms = []plan.Alarm{{Name: plan.NoSpace}}
	s.Upkeep = health.UpkeepStatus{Judgement: plan.Judgement{Fragmented: true}, Growth: &perDay, Defrags: 2, Failures: 1,
		Cures: 4, Last: &health.DefragStatus{Time: time.Unix(1700, 0), Seconds: 1.5, Error: "x"}}
	var out metrics.Series
	databaseSeries(&out, s)
	seriesAre(t, "a database", out, `holdfast_alarm{alarm="CORRUPT"} 0
holdfast_alarm{alarm="NOSPACE"} 1
holdfast_database_fragmented 1
holdfast_database_full 0
holdfast_database_growth_bytes_per_day -5
holdfast_database_in_use_bytes 4
holdfast_database_quota_bytes 10
holdfast_database_size_bytes 9
holdfast_defragmentation_last_seconds 1.5
holdfast_defragmentation_last_success 0
holdfast_defragmentation_last_timestamp_seconds 1700
holdfast_defragmentations_total{result="done"} 2
holdfast_defragmentations_total{result="failed"} 1
holdfast_nospace_cured_total 4
`)
	s.Observation.Member.Running, s.Upkeep = false, health.UpkeepStatus{Judgement: plan.Judgement{Fragmented: true}}
	s.Observation.Member.Space, s.Observation.Member.Alarms = plan.Member{}.Space, nil
	out = nil
	databaseSeries(&out, s)
	seriesAre(t, "without a member", out, `holdfast_alarm{alarm="CORRUPT"} 0
holdfast_alarm{alarm="NOSPACE"} 0
holdfast_database_fragmented 0
holdfast_database_full 0
holdfast_database_in_use_bytes 0
holdfast_database_quota_bytes 0
holdfast_database_size_bytes 0
holdfast_defragmentation_last_seconds 0
holdfast_defragmentation_last_success 1
holdfast_defragmentation_last_timestamp_seconds 0
holdfast_defragmentations_total{result="done"} 0
holdfast_defragmentations_total{result="failed"} 0
holdfast_nospace_cured_total 0
`)
}

func TestDiskSeries(t *testing.T) {
	var out metrics.Series
	diskSeries(&out, coordinator.Rooms{Volume: plan.Room{Free: 41 << 20, Size: 512 << 20},
		Spool: plan.Room{Free: 0, Size: 2}})
	seriesAre(t, "two disks", out, `holdfast_disk_free_bytes{use="spool"} 0
holdfast_disk_free_bytes{use="volume"} 4.2991616e+07
holdfast_disk_reserve_bytes{use="volume"} 1.34217728e+08
holdfast_disk_size_bytes{use="spool"} 2
holdfast_disk_size_bytes{use="volume"} 5.36870912e+08
`)
}

// Every phase has a series from the start on, and the members finish before the clients.
func TestRotationSeries(t *testing.T) {
	phases := func(clients, peers string) string {
		var b strings.Builder
		for _, of := range []struct {
			authority, at string
			phases        []string
		}{{"clients", clients, []string{"introduced", "issuing", "retiring", "settled"}},
			{"peers", peers, []string{"introduced", "issuing", "settled"}}} {
			for _, p := range of.phases {
				value := map[bool]string{true: "1", false: "0"}[p == of.at]
				b.WriteString(`holdfast_tls_rotation_phase{authority="` + of.authority + `",phase="` + p + `"} ` + value + "\n")
			}
		}
		return b.String()
	}
	const began = "holdfast_tls_rotation_began_timestamp_seconds 1000\nholdfast_tls_rotation_old_clients 5\n"
	open := func(phase string) *health.RotationStatus {
		return &health.RotationStatus{Phase: phase, Began: time.Unix(1000, 0), Others: 3,
			OldClients: make([]health.ClientCertificate, 2)}
	}
	for what, tt := range map[string]struct {
		known bool
		r     *health.RotationStatus
		want  string
	}{
		"nothing is known":  {},
		"none is open":      {known: true, want: phases("settled", "settled")},
		"one is open":       {true, open("issuing"), began + phases("issuing", "issuing")},
		"only clients left": {true, open(health.RotationRetiring), began + phases("retiring", "settled")},
	} {
		var out metrics.Series
		rotationSeries(&out, tt.known, tt.r)
		seriesAre(t, what, out, tt.want)
	}
}

// Present findings are counted, absent ones are 0, and an unusual severity has its own series. What takes several nodes
// has none.
func TestFindingSeries(t *testing.T) {
	got := map[string]float64{}
	for _, f := range gathered(t, countFindings([]health.Finding{health.New(health.Paused, "", "x"),
		{Code: health.Paused, Severity: health.Warning}, {Code: health.Paused, Severity: health.Warning},
		health.New(health.NodeLost, "n2", "x")})) {
		for _, m := range f.GetMetric() {
			got[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"paused info": 1, "paused warning": 2, "drained degraded": 0} {
		if value, is := got[name]; !is || value != want {
			t.Errorf("%s: got %v (%t), want %v", name, value, is, want)
		}
	}
	if value, is := got["node-lost warning"]; is {
		t.Errorf("a finding of several nodes has the series %v", value)
	}
}

// A machine's client and observer may have one name: each certificate has a series of its own.
func TestIssuedSeries(t *testing.T) {
	var out metrics.Series
	issuedSeries(&out, []health.IssuedClient{{Name: "web1", NotAfter: time.Unix(10, 0)},
		{Role: "observer", Name: "web1", NotAfter: time.Unix(20, 0)}})
	seriesAre(t, "issued", out, `holdfast_tls_client_not_after_seconds{client="web1",role="client"} 10
holdfast_tls_client_not_after_seconds{client="web1",role="observer"} 20
`)
}

// While no member runs, etcd's gauges are left out, which it never resets, and nothing else.
func TestGaugesOfEtcdThatHasStopped(t *testing.T) {
	reg := prometheus.NewRegistry()
	for _, name := range []string{"etcd_server_has_leader", "holdfast_etcd_running"} {
		reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: name}))
	}
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "etcd_server_proposals_failed_total"}))
	for running, want := range map[bool][]string{
		true:  {"etcd_server_has_leader", "etcd_server_proposals_failed_total", "holdfast_etcd_running"},
		false: {"etcd_server_proposals_failed_total", "holdfast_etcd_running"},
	} {
		families, err := gathering(reg, func() bool { return running }).Gather()
		must(t, err)
		var got []string
		for _, f := range families {
			got = append(got, f.GetName())
		}
		if !slices.Equal(got, want) {
			t.Errorf("running %t: got %q, want %q", running, got, want)
		}
	}
}
