package proposal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
)

// Without a node on this machine the store alone tells how it ended.
func TestFollowTheStoreAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		then    func(t *testing.T, r *generations.Records, p plan.Restore, founding plan.Record, interrupt func())
		timeout time.Duration
		want    string // of the error, empty: none
		says    string
	}{
		"concluded": {func(t *testing.T, r *generations.Records, p plan.Restore, founding plan.Record, _ func()) {
			if err := errors.Join(r.Shine(t.Context(), coordinator.Beacon{Record: founding.ID, Stand: shining.Stand}), r.Conclude(t.Context(), concludedOf(p, founding))); err != nil {
				t.Error(err)
			}
		}, 10 * time.Minute, "", "the end was not seen"},
		"concluded, and it serves": {func(t *testing.T, r *generations.Records, p plan.Restore, founding plan.Record, _ func()) {
			if err := errors.Join(r.Conclude(t.Context(), concludedOf(p, founding)), r.Shine(t.Context(), coordinator.Beacon{Record: p.ID, Stand: shining.Stand})); err != nil {
				t.Error(err)
			}
		}, 10 * time.Minute, "", "the cluster serves as main@2-"},
		"aborted by another": {func(t *testing.T, r *generations.Records, p plan.Restore, _ plan.Record, _ func()) {
			if _, err := r.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: "no"}); err != nil {
				t.Error(err)
			}
		}, time.Minute, "was aborted: no; the cluster continues as it was", ""},
		"interrupted": {func(_ *testing.T, _ *generations.Records, _ plan.Restore, _ plan.Record, interrupt func()) {
			interrupt()
		}, time.Minute, "interrupted: the restore of 2026-07-01T00:15:03Z-000042 was aborted", ""},
		"interrupted too late": {func(t *testing.T, r *generations.Records, p plan.Restore, founding plan.Record, interrupt func()) {
			if err := r.Conclude(t.Context(), concludedOf(p, founding)); err != nil {
				t.Error(err)
			}
			interrupt()
		}, time.Minute, "past the point of no return", ""},
		"too slow": {func(*testing.T, *generations.Records, plan.Restore, plan.Record, func()) {}, time.Millisecond, "not done within 1ms: the restore of 2026-07-01T00:15:03Z-000042 was aborted", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, r, founding := shelved(t)
				p := proposed(founding, 0)
				must(t, r.Propose(t.Context(), p))
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				var out, errs bytes.Buffer
				o := Operator{Config: config.Default(), Backups: &backups.Backups{Store: r.Store}, Node: control.Local(t.TempDir() + "/none"),
					Options: Options{Timeout: tc.timeout}, Terminal: Terminal{Out: &out, Err: &errs}}
				o.Config.Cluster.Name = "main"
				tc.then(t, r, p, founding, interrupt)
				err := newFollower(proposal{p, o.cluster()}, view{}).follow(ctx)
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if err == nil && !strings.Contains(out.String(), "no node answers here") {
					t.Errorf("said %q", out.String())
				}
				if !strings.Contains(out.String(), tc.says) {
					t.Errorf("said %q, want %q", out.String(), tc.says)
				}
				if got := knownTo(t, r); got.Restore != nil {
					t.Errorf("it is still open")
				}
			})
		})
	}
}

// The node on this machine may end for good while the command follows a restore: the store tells the rest.
func TestFollowWithoutTheNodeThatAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, founding, said := restoring(t, nil)
		o.Timeout = 30 * time.Minute
		begin := time.Now()
		o.Node.HTTP.Transport = roundTrip(func(*http.Request) (any, error) {
			if time.Since(begin) > 3*time.Second {
				return nil, errors.New("it has ended")
			}
			return health.ClusterStatus{Record: &founding, Nodes: []health.NodeStatus{leading("leader")}}, nil
		})
		r, p := o.cluster().records, proposed(founding, 0)
		if err := errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), concludedOf(p, founding)),
			r.Shine(t.Context(), coordinator.Beacon{Record: p.ID, Stand: shining.Stand})); err != nil {
			t.Fatal(err)
		}
		err := newFollower(proposal{p, o.cluster()}, o.cluster().ask(t.Context())).follow(t.Context())
		if took := time.Since(begin); err != nil || took > 3*settled ||
			!strings.Contains(said.String(), "the cluster serves as main@2-") {
			t.Errorf("after %s: got %v; said %q", took, err, said)
		}
	})
}

// Who has confirmed what somebody else proposed, and follows it no further, does not abort it.
func TestInterruptedConfirmation(t *testing.T) {
	_, r, founding := shelved(t)
	p := proposed(founding, 0)
	must(t, r.Propose(t.Context(), p))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	o := Operator{Config: config.Default(), Backups: &backups.Backups{Store: r.Store}, Node: control.Local(t.TempDir() + "/none"),
		Options: Options{Timeout: time.Minute}, Terminal: Terminal{Out: io.Discard, Err: io.Discard}}
	o.Config.Cluster.Name = "main"
	err := (&follower{proposal: proposal{p, o.cluster()}, theirs: true}).follow(ctx)
	if err == nil || !strings.Contains(err.Error(), "interrupted: the restore of") || !strings.Contains(err.Error(), "continues without this command") {
		t.Errorf("got %v", err)
	}
	if got := knownTo(t, r); got.Restore == nil || got.Restore.ID != p.ID {
		t.Errorf("it is no longer open: %+v", got)
	}
}

// Of members that leave, the countdown is told in steps, and not with every look.
func TestFollowTellsWhoLeaves(t *testing.T) {
	for want, s := range map[string]health.RestoreStatus{
		"prepared, leaves in 10 s or less":                        {State: health.RestorePrepared, Objecting: 5.1, Leaves: true},
		"prepared, leaves in 5 s or less":                         {State: health.RestorePrepared, Objecting: 5, Leaves: true},
		"preparing, waits 15 s or less for a leader that objects": {State: health.RestorePreparing, Objecting: 14.9, Phase: "verifying", Done: 1, Total: 3},
		"prepared, has left":                                      {State: health.RestorePrepared, Left: true},
		"unable: no space, leaves in 5 s or less":                 {State: health.RestoreUnable, Error: "no space", Objecting: 1, Leaves: true},
		"unconfirmed": {State: health.RestoreUnconfirmed, ID: "p"},
	} {
		if got := followText(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A line for each change has room for one reason only.
func TestFollowTellsTheWorstReason(t *testing.T) {
	for want, reasons := range map[string][]string{
		"no member runs": {"no member runs"},
		"no member runs (`holdfast status` has 2 more)": {"no member runs", "slot a is down", "slot b is down"},
		"the nodes have just begun":                     nil,
	} {
		if got := unhealthy(reasons); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Who is told of an objection is told who objected, and what to do about it.
func TestObjected(t *testing.T) {
	leader := shining.Stand
	voter := plan.Stand{Node: "n3", Slot: "c", Disk: "d3", Address: "10.0.0.3", Revision: 7}
	for name, tc := range map[string]struct {
		p    plan.Restore
		a    plan.Abort
		want []string
		not  string
	}{
		"by a leader, to a restore": {plan.Restore{Backup: "b1"}, plan.Abort{Why: "it leads", By: &leader},
			[]string{"node n2 (slot b) at 10.0.0.2, revision 42 objected: it leads", "restore of b1 was aborted, and nothing was changed", "without --lost, and confirm it on that node"}, "--overrule"},
		"by a leader, to a recovery": {plan.Restore{Survivor: "a"}, plan.Abort{Why: "it leads", By: &leader},
			[]string{"recovery from slot a was aborted", "a recovery is not needed"}, "--overrule"},
		"by a voter without a leader": {plan.Restore{Survivor: "a"}, plan.Abort{Why: "it runs", By: &voter},
			[]string{"node n3 (slot c)", "or say --overrule d3"}, "not needed"},
		"by a second voter": {plan.Restore{Survivor: "a", Overruled: []string{"d1"}}, plan.Abort{Why: "it runs", By: &voter},
			[]string{"or say --overrule d1,d3"}, "not needed"},
		"by an operator": {plan.Restore{Backup: "b1"}, plan.Abort{Why: "aborted by root@x"},
			[]string{"the restore of b1 was aborted: aborted by root@x; the cluster continues as it was"}, "objected"},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&follower{proposal: proposal{Restore: tc.p}}).objected(tc.a)
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwithout %q", err, want)
				}
			}
			if strings.Contains(err.Error(), tc.not) {
				t.Errorf("got %v\nwith %q", err, tc.not)
			}
		})
	}
	if p := (plan.Restore{Overruled: append(make([]string, 0, 8), "d1")}); true { // the proposal itself stays as it is
		_ = (&follower{proposal: proposal{Restore: p}}).objected(plan.Abort{By: &voter})
		if got := p.Overruled[:2]; got[1] != "" {
			t.Errorf("the proposal's list was written to: %q", got)
		}
	}
}

// A cluster that stays degraded for the same cause is not waited for, although the text changes with every look.
func TestFollowWaitsForCausesNotTexts(t *testing.T) {
	f := newFollower(proposal{}, view{})
	apart := func(node, by string) []health.Finding {
		return []health.Finding{health.New(health.ClockApart, node, "the clock of %s is %s ahead", node, by)}
	}
	for i, tc := range []struct {
		causes []health.Finding
		want   bool
	}{{nil, true}, {nil, false}, {apart("n1", "59.988s"), true}, {apart("n1", "59.991s"), false}, {apart("n2", "59.991s"), true}, {nil, true}} {
		if got := f.changed(tc.causes); got != tc.want {
			t.Errorf("%d: got %t, want %t", i, got, tc.want)
		}
	}
}
