package cmd

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/generations"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

func TestEnoughToRestore(t *testing.T) {
	here := func(slots ...string) []slotState {
		all := []slotState{{Slot: "a"}, {Slot: "b"}, {Slot: "c"}}
		for i := range all {
			all[i].Here = strings.Contains(strings.Join(slots, ","), all[i].Slot)
		}
		return all
	}
	crashing := here("a", "b")
	crashing[0].Why, crashing[1].Why = "starting", "starting"
	for name, tc := range map[string]struct {
		slots []slotState
		lost  []string
		asked bool
		want  string
	}{
		"all are here":                         {here("a", "b", "c"), nil, true, ""},
		"a majority is":                        {here("a", "c"), nil, true, ""},
		"one is":                               {here("a"), nil, true, "--lost b,c"},
		"one is, another is lost":              {here("a"), []string{"b"}, true, ""},
		"none is":                              {here(), nil, true, "--lost a,b,c"},
		"none is, one is lost":                 {here(), []string{"a"}, true, "--lost b,c"},
		"none is, all are lost":                {here(), []string{"a", "b", "c"}, true, ""},
		"lost, and here":                       {here("a", "b", "c"), []string{"b"}, true, "slot b is here"},
		"lost, and its process comes and goes": {crashing, []string{"a", "b"}, true, ""},
		"one comes and goes, one is lost":      {crashing, []string{"a"}, true, ""},
		"lost, and no slot":                    {here("a", "b", "c"), []string{"x"}, true, "no slot x"},
		"lost, and dropped before":             {here("a", "b"), []string{"c", "d"}, true, ""},
		"one is dropped, and too few are here": {here("a"), []string{"d"}, true, "--lost b,c"},
		"nobody knows what is here":            {here(), nil, false, ""},
		"nobody knows, and no slot x":          {here(), []string{"x"}, false, "no slot x"},
	} {
		t.Run(name, func(t *testing.T) {
			err := summary{Slots: tc.slots, changed: []string{"a", "b", "c", "d"}}.enough(tc.lost, tc.asked)
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "nothing was changed")) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSummaryOfARestore(t *testing.T) {
	p := plan.Restore{Cluster: "main", Generation: 2, Backup: "b1", Revision: 4711, Bump: 1000}
	s := summary{Restore: p, Found: made("b1", 3*time.Hour), Last: 5000, Source: fromMembers, Slots: []slotState{{Slot: "a", Node: "n1", Here: true, Why: "leader"}, {Slot: "b", Why: "no live node holds it"}}}
	s.Found.Slot = "a"
	for name, tc := range map[string]struct {
		change func(*summary)
		want   []string
	}{
		"as usual": {func(*summary) {}, []string{"from generation 1 to 2", "b1, 3h old, verified now", "289 revisions, up to 5000", "the writes of the last 3h",
			"5711: everything up to it", "a: on n1, leader", "b: no live node holds it", "deleted when the member has served for 1w"}},
		"nothing is lost":  {func(s *summary) { s.Last = 4711 }, []string{"lost      nothing"}},
		"nobody was asked": {func(s *summary) { s.Last, s.Source = 4711, fromBackups }, []string{"lost      whatever was written in the last 3h", "no member could be asked"}},
		"from before the last restore": {func(s *summary) { s.Restore.Generation, s.Found.Generation, s.Last = 4, 2, 1_000_004_711 },
			[]string{"lost      the writes of the last 3h, those in generation 3 among them, up to revision 1000004711"}},
		"one is lost":             {func(s *summary) { s.Last = 4712 }, []string{"lost      1 revision, up to 4712"}},
		"without a leader":        {func(*summary) {}, []string{"leader    none is seen: the members leave their generation, which takes 15s at least"}},
		"led, and a node answers": {func(s *summary) { s.Restore.Led, s.confirms = &shining.Stand, true }, []string{"leader    node n2 (slot b) at 10.0.0.2, revision 42: it consents when you confirm"}},
		"led, and none answers":   {func(s *summary) { s.Restore.Led = &shining.Stand }, []string{"it consents when an operator confirms on a node of the cluster; this command then waits"}},
		"it is ahead":             {func(s *summary) { s.Last = 1 }, []string{"not known"}},
		"etcd-manager's":          {func(s *summary) { s.Found.Legacy = true }, []string{"it has no sidecar"}},
		"a stranger's":            {func(s *summary) { s.Found.Foreign = true }, []string{"FOREIGN"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := s
			tc.change(&s)
			var b bytes.Buffer
			if err := s.write(&b, config.Default(), noon); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("got\n%s\nwithout %q", b.String(), want)
				}
			}
		})
	}
}

func TestStoreMustBeShared(t *testing.T) {
	node := func(name, store string, live bool) health.NodeStatus {
		return health.NodeStatus{Node: name, Store: store, Live: live, Reached: live}
	}
	r := &restoration{}
	if err := r.shared("x"); err != nil {
		t.Errorf("nobody was asked: got %v", err)
	}
	r.cluster = &health.ClusterStatus{Nodes: []health.NodeStatus{node("n1", "x", true), node("n2", "", true), node("n3", "y", false)}}
	if err := r.shared("x"); err != nil {
		t.Errorf("all that is known is one store: got %v", err)
	}
	r.cluster.Nodes = append(r.cluster.Nodes, node("n4", "y", true))
	if err := r.shared("x"); err == nil || !strings.Contains(err.Error(), "n4") || strings.Contains(err.Error(), "n3") {
		t.Errorf("got %v, want n4 named", err)
	}
}

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
				if err := r.Propose(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				var out, errs bytes.Buffer
				c := &cobra.Command{}
				c.SetOut(&out)
				c.SetErr(&errs)
				at := &restoration{c: c, flags: restoreFlags{timeout: tc.timeout}, b: &backupStore{cfg: config.Default(), main: r.Store}, node: control.Local(t.TempDir() + "/none"), records: r}
				tc.then(t, r, p, founding, interrupt)
				err := at.follow(ctx, p)
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

// Who has confirmed what somebody else proposed, and follows it no further, does not abort it.
func TestInterruptedConfirmation(t *testing.T) {
	_, r, founding := shelved(t)
	p := proposed(founding, 0)
	if err := r.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	at := &restoration{c: &cobra.Command{}, flags: restoreFlags{timeout: time.Minute}, b: &backupStore{main: r.Store}, node: control.Local(t.TempDir() + "/none"), records: r}
	err := (&follower{restoration: at, p: p, theirs: true}).follow(ctx)
	if err == nil || !strings.Contains(err.Error(), "interrupted: the restore of") || !strings.Contains(err.Error(), "goes on without this command") {
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

func TestRestoreNeedsAName(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"a", "--abort"}} {
		c := newRestoreCommand()
		c.SetArgs(args)
		c.SilenceUsage, c.SilenceErrors = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "say which backup") {
			t.Errorf("%q: got %v", args, err)
		}
	}
}

func TestNothingIsRestoredIntoNothing(t *testing.T) {
	r := &restoration{b: &backupStore{cfg: config.Default()}, records: &generations.Records{Store: snapshot.NewDir(t.TempDir()), Cluster: "main"}}
	if err := r.run(t.Context(), latest); err == nil || !strings.Contains(err.Error(), "knows no cluster") {
		t.Errorf("got %v", err)
	}
	if err := r.abort(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("abort: got %v", err)
	}
}

func TestStatusShowsARestore(t *testing.T) {
	soon := noon.Add(2 * time.Hour)
	s := health.ClusterStatus{Nodes: []health.NodeStatus{
		{Node: "n1", Restore: &health.RestoreStatus{Title: "restore of b1", Backup: "b1", By: "me", State: health.RestorePreparing, Phase: "verifying", Done: 1 << 20, Total: 4 << 20}},
		{Node: "n3", Restore: &health.RestoreStatus{ID: "p", Title: "restore of b1", By: "me", State: health.RestoreUnconfirmed}},
		{Node: "n4", Restore: &health.RestoreStatus{Title: "restore of b1", By: "me", State: health.RestorePrepared, Objecting: 7.2, Leaves: true}},
		{Node: "n2", Aside: []health.AsideStatus{
			{Path: "/v/aside/1-restored", Since: noon.Add(-3 * time.Hour), Bytes: 5 << 20, Reclaimed: &soon},
			{Path: "/v/aside/2-adopted", Since: noon.Add(-3 * time.Hour), Bytes: 5 << 20},
		}},
	}}
	var b strings.Builder
	writeRestore(&b, s, noon)
	for _, want := range []string{"n1: restore of b1, by me: preparing, verifying 25 % of 4.0 MiB",
		"n3: restore of b1, by me: unconfirmed; nothing begins before an operator runs `holdfast restore --confirm p` on a node of the cluster",
		"n4: restore of b1, by me: prepared; leaves its generation in 8 s unless a leader objects", "n2: /v/aside/1-restored, 5.0 MiB, set aside 3h ago, is deleted in 2h", "2-adopted, 5.0 MiB, set aside 3h ago, is kept"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwithout %q", b.String(), want)
		}
	}
}
