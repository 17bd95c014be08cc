package show

import (
	"strings"
	"testing"

	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// A release is called the last one only where that is known.
func TestReleaseIsTheLast(t *testing.T) {
	for _, tc := range []struct {
		rest, unknown []string
		want          string
		not           string
	}{
		{[]string{"n2", "n3"}, nil, "3. `holdfast takeover release` on n2, then n3", "not known"},
		{[]string{"n3"}, []string{"slot b (n2)"}, "not known: who runs slot b (n2)", "the last one"},
		{nil, []string{"slot b (n2)", "slot c"}, "this was the last one, if the slots below", "any more"},
		{nil, nil, "no node of holdfast runs a member any more: this was the last one", "not known"},
	} {
		r := health.Release{Slot: "a", Program: plan.PlainEtcd, Released: true, Path: "/mnt/a", Data: "/mnt/a/etcd", Rest: tc.rest, Unknown: tc.unknown}
		if got := Release(r, false); !strings.Contains(got, tc.want) || strings.Contains(got, tc.not) ||
			!strings.Contains(got, "--data-dir=/mnt/a/etcd,") {
			t.Errorf("rest %q, unknown %q: got %s", tc.rest, tc.unknown, got)
		}
	}
}

// Who runs a member is said only as far as it is known: what raft is connected to and no node runs, another program runs.
func TestWhoRuns(t *testing.T) {
	for want, m := range map[string]health.TakeoverMember{
		"holdfast on n1, etcd 3.7.3, leads":                                      {Node: "n1", Version: "3.7.3", Ours: true, Connected: true, Leader: true},
		"another program; raft is connected to it, leads":                        {Connected: true, Leader: true},
		"another program; raft is connected to it":                               {Node: "n1", Released: true, Connected: true},
		"not run by n1, which held its disk last; raft is not connected to it":   {Node: "n1", Released: true},
		"no node of holdfast runs it; raft is not connected to it":               {},
		"no node of holdfast runs it; not known whether raft is connected to it": {Unknown: true},
		"down on n1: slot a resumes with its data":                               {Node: "n1", Released: true, Why: "slot a resumes with its data"},
	} {
		if got := whoRuns(m); got != want {
			t.Errorf("%+v: got %q, want %q", m, got, want)
		}
	}
}
