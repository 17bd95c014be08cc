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

// A leader that no node runs is not the same as none: the cluster serves.
func TestWhyOfALeaderElsewhere(t *testing.T) {
	for verdict, want := range map[health.Verdict]string{health.Healthy: "not on any node seen here, but a quorum answers",
		health.Degraded: "not on any node seen here", health.NoQuorum: "none: nothing can be written", health.NoLeaderYet: "none: nothing can be written"} {
		var b bytes.Buffer
		if err := show.Why(&b, health.ClusterStatus{Health: verdict}, time.Now()); err != nil || !strings.Contains(b.String(), "leader    "+want) {
			t.Errorf("%s: got %s, %v, want %s", verdict, b.String(), err, want)
		}
	}
}
