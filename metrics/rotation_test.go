package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Every phase has a series from the start on, and the members finish before the clients.
func TestRotationSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, testNames)
	all := func() string {
		return series(t, reg, "holdfast_tls_rotation_phase", "holdfast_tls_rotation_began_timestamp_seconds",
			"holdfast_tls_rotation_old_clients", "holdfast_tls_client_not_after_seconds")
	}
	if got := all(); got != "" {
		t.Errorf("without authorities of ours: %s", got)
	}
	m.Observe(Sample{Rotation: Rotation{Phase: "retiring", Began: time.Unix(1000, 0), OldClients: 2},
		Clients: map[string]time.Time{"kube": time.Unix(2000, 0)}})
	const want = `holdfast_tls_client_not_after_seconds{client="kube"} 2000
holdfast_tls_rotation_began_timestamp_seconds 1000
holdfast_tls_rotation_old_clients 2
holdfast_tls_rotation_phase{authority="clients",phase="introduced"} 0
holdfast_tls_rotation_phase{authority="clients",phase="issuing"} 0
holdfast_tls_rotation_phase{authority="clients",phase="retiring"} 1
holdfast_tls_rotation_phase{authority="clients",phase="settled"} 0
holdfast_tls_rotation_phase{authority="peers",phase="introduced"} 0
holdfast_tls_rotation_phase{authority="peers",phase="issuing"} 0
holdfast_tls_rotation_phase{authority="peers",phase="settled"} 1
`
	if got := all(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
