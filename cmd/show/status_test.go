package show_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/embedded/health"
)

func TestStatusCountsObservers(t *testing.T) {
	got := show.Status(health.ClusterStatus{Observers: []string{"x at 10.0.0.9", "y at 10.0.0.8"}}, time.Now())
	if !strings.Contains(got, "\nobservers: 2\n") {
		t.Errorf("got %s", got)
	}
}

// Since when a node is silent nobody knows: gossip tells since when it lives.
func TestStatusOfASilentNode(t *testing.T) {
	s := health.ClusterStatus{Nodes: []health.NodeStatus{{Node: "n1", Live: true, State: "silent", Why: "it does not answer"},
		{Node: "n2", State: "lost", Why: "not heard of", Since: time.Now().Add(-time.Minute)}}}
	s.Judge(nil)
	got := show.Status(s, time.Now()) + show.Why(s, time.Now())
	for _, want := range []string{"n1: silent: it does not answer\n", "n2: lost: not heard of (for 60s)\n", "does       unknown\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q", got, want)
		}
	}
}

// A leader that no node runs is not the same as none: the cluster serves.
func TestWhyOfALeaderElsewhere(t *testing.T) {
	for verdict, want := range map[health.Verdict]string{health.Healthy: "not on any node seen here, but a quorum answers",
		health.Degraded: "not on any node seen here", health.NoQuorum: "none: nothing can be written", health.NoLeaderYet: "none: nothing can be written", health.Unknown: "not known yet"} {
		if got := show.Why(health.ClusterStatus{Health: verdict}, time.Now()); !strings.Contains(got, "leader    "+want) {
			t.Errorf("%s: got %s, want %s", verdict, got, want)
		}
	}
}
