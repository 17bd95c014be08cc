package cmd

import (
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/metrics"
)

// What the series tell of a rotation.
func TestRotationSample(t *testing.T) {
	began := time.Now()
	open := &health.RotationStatus{Phase: health.RotationRetiring, Began: began, OldClients: make([]health.ClientCertificate, 2), Others: 3}
	for name, tt := range map[string]struct {
		known bool
		r     *health.RotationStatus
		want  metrics.Rotation
	}{
		"nothing is known": {},
		"none is open":     {known: true, want: metrics.Rotation{Phase: "settled"}},
		"one is open":      {true, open, metrics.Rotation{Phase: "retiring", Began: began, OldClients: 5}},
	} {
		if got := rotationSample(tt.known, tt.r); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
