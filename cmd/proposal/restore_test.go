package proposal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/backups"
	"holdfast/cmd/config"
	"holdfast/cmd/control"
	"holdfast/embedded/health"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

func TestEnoughToRestore(t *testing.T) {
	here := func(slots ...string) []slotState {
		all := []slotState{{Slot: "a"}, {Slot: "b"}, {Slot: "c"}}
		for i := range all {
			all[i].Here = strings.Contains(strings.Join(slots, ","), all[i].Slot)
		}
		return all
	}
	short := func(slots []slotState, at ...int) []slotState {
		for _, i := range at {
			slots[i].Short = "8.0 MiB are free on its volume, and the restore needs 1.0 GiB there"
		}
		return slots
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
		"one has no room":                      {short(here("a", "b", "c"), 1), nil, true, ""},
		"two have no room":                     {short(here("a", "b", "c"), 0, 1), nil, true, "8.0 MiB are free on its volume"},
		"one has no room, and one is away":     {short(here("a", "b"), 1), nil, true, "too few disks have room"},
		"one has no room, and one is lost":     {short(here("a", "b"), 1), []string{"c"}, true, ""},
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
			got := s.text(config.Default(), noon)
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwithout %q", got, want)
				}
			}
		})
	}
}

// The members that are left may be behind the newest backup, whose revisions clients have seen as well.
func TestLastRevision(t *testing.T) {
	db, dir := snapshottest.NewDB(t), snapshot.NewDir(t.TempDir())
	db.Put("a", "1")
	newest := snapshottest.Keep(t, dir, db, snapshot.Meta{Cluster: "main", Generation: 1}).Content.Revision
	o := Operator{Config: config.Default(), Backups: &backups.Backups{Store: dir}}
	o.Config.Cluster.Name = "main"
	for members, want := range map[int64]string{0: fromBackups, newest - 1: fromAhead, newest: fromMembers,
		newest + 9: fromMembers} {
		v := view{}
		if members > 0 {
			v = view{&health.ClusterStatus{Nodes: []health.NodeStatus{{Node: "n1",
				Etcd: &health.EtcdStatus{Status: plan.Status{Revision: members}}}}}}
		}
		got, source, err := o.last(t.Context(), v, plan.Record{Cluster: "main", Generation: 1})
		if err != nil || got != max(newest, members) || source != want {
			t.Errorf("members at %d, backup at %d: got %d according to %s, %v", members, newest, got, source, err)
		}
	}
}

// What is wrong with the backup is said once.
func TestRestoreOfABadBackup(t *testing.T) {
	o, founding, said := restoring(t, nil)
	db := snapshottest.NewDB(t)
	db.Put("a", "1")
	bad := snapshottest.Keep(t, o.Backups.Store, db, snapshot.Meta{Cluster: "main", Lineage: founding.Lineage()}).Name
	proof := snapshot.Proof{Kind: snapshot.ProofVerify, Error: "it is torn"}
	must(t, snapshot.Record(t.Context(), o.Backups.Store, bad, proof))
	if _, _, err := o.verify(t.Context(), bad, founding); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(said.String(), "it is torn"); n != 1 {
		t.Errorf("said %d times: %s", n, said)
	}
}

func TestStoreMustBeShared(t *testing.T) {
	node := func(name, store string, live bool) health.NodeStatus {
		return health.NodeStatus{Node: name, Store: store, Live: live, Reached: live}
	}
	v := view{}
	if err := v.shared("x"); err != nil {
		t.Errorf("nobody was asked: got %v", err)
	}
	v = view{&health.ClusterStatus{Nodes: []health.NodeStatus{node("n1", "x", true), node("n2", "", true), node("n3", "y", false)}}}
	if err := v.shared("x"); err != nil {
		t.Errorf("all that is known is one store: got %v", err)
	}
	v.Nodes = append(v.Nodes, node("n4", "y", true))
	if err := v.shared("x"); err == nil || !strings.Contains(err.Error(), "n4") || strings.Contains(err.Error(), "n3") {
		t.Errorf("got %v, want n4 named", err)
	}
}

func TestNothingIsRestoredIntoNothing(t *testing.T) {
	o := Operator{Config: config.Default(), Backups: &backups.Backups{Store: snapshot.NewDir(t.TempDir())}}
	if err := o.Restore(t.Context(), backups.Latest); err == nil || !strings.Contains(err.Error(), "knows no cluster") {
		t.Errorf("got %v", err)
	}
	if err := o.Abort(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("abort: got %v", err)
	}
}

// An abort that comes too late says so, and what leads back, whether the restore is still under way or done.
func TestAbortTooLate(t *testing.T) {
	for name, tc := range map[string]struct {
		survivor string
		way      string
	}{
		"a restore":  {"", "--abort does not undo it; to return to what was before, restore the backup that was made just before it"},
		"a recovery": {"a", "--abort does not undo it; what the members held before is set aside"},
	} {
		_, r, founding := shelved(t)
		p := proposed(founding, 0)
		p.By, p.Survivor = "bob@n1", tc.survivor
		if tc.survivor != "" {
			p.Backup, p.Digest, p.Disk = "", "", "d"
		}
		record := concludedOf(p, founding)
		if tc.survivor != "" {
			record.Cause = plan.Recovered
		}
		must(t, errors.Join(r.Propose(t.Context(), p), r.Conclude(t.Context(), record)))
		o := Operator{Config: config.Default(), Backups: &backups.Backups{Store: r.Store}, Node: control.Local(t.TempDir() + "/none")}
		o.Config.Cluster.Name = "main"
		err := o.Abort(t.Context())
		if err == nil || !strings.Contains(err.Error(), "is under way: too late: the "+p.Title()+" by bob@n1 passed the point of no return, and the cluster continues as "+record.Token()) ||
			!strings.Contains(err.Error(), tc.way) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A disk is weighed before the restore is proposed, by what its node says of its volume.
func TestRoomForARestore(t *testing.T) {
	const size = 1 << 30
	node := func(name string, free int64) health.NodeStatus {
		return health.NodeStatus{Node: name, Checkup: &health.Checkup{Room: &health.VolumeRoom{Room: plan.Room{Free: free, Size: 100 << 30}}}}
	}
	v := view{&health.ClusterStatus{Nodes: []health.NodeStatus{node("n1", 90<<30), node("n2", size), {Node: "n3"}}}}
	slots := v.weigh([]slotState{{Slot: "a", Node: "n1"}, {Slot: "b", Node: "n2"}, {Slot: "c", Node: "n3"}, {Slot: "d"}}, size)
	for i, want := range []string{"", "1.0 GiB are free on its volume, and the restore needs 1.5 GiB there", "", ""} {
		if slots[i].Short != want {
			t.Errorf("slot %s: got %q, want %q", slots[i].Slot, slots[i].Short, want)
		}
	}
	if text := slots[1].text(); !strings.Contains(text, "NO ROOM: 1.0 GiB") {
		t.Errorf("got %q", text)
	}
}

// A node that has not read the store since a proposal was aborted is not at it any more.
func TestSettled(t *testing.T) {
	known := plan.Store{Record: &plan.Record{Generation: 1}, Aborted: []plan.Abort{{ID: "r1"}}}
	at := func(generation uint64, proposal string) view {
		return view{&health.ClusterStatus{Record: &plan.Record{Generation: generation},
			Nodes: []health.NodeStatus{{}, {Restore: &health.RestoreStatus{ID: proposal}}}}}
	}
	for _, v := range []view{{}, at(1, "r1")} {
		if err := v.settled(known); err != nil {
			t.Errorf("got %v", err)
		}
	}
	for _, v := range []view{at(1, "r2"), at(2, "r1")} {
		if err := v.settled(known); err == nil || !strings.Contains(err.Error(), "came first") {
			t.Errorf("got %v, want what came first", err)
		}
	}
}
