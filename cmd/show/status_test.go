package show_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

func TestStatusCountsObservers(t *testing.T) {
	var b bytes.Buffer
	if err := show.Status(&b, health.ClusterStatus{Observers: []string{"x at 10.0.0.9", "y at 10.0.0.8"}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\nobservers: 2\n") {
		t.Errorf("got %s", b.String())
	}
}
