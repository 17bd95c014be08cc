package coordinator

import (
	"testing"
	"time"

	"holdfast/embedded/plan"
)

// A member that answers no reads serves nobody, whatever raft shows.
func TestStalledState(t *testing.T) {
	m := plan.Member{Running: true, Status: plan.Status{HasLead: true, Confirmed: true, Leader: true}}
	for _, tc := range []struct {
		change func()
		want   string
	}{
		{func() {}, "leader"},
		{func() { m.Stalled = true }, "stalled"},
		{func() { m.Leader = false }, "stalled"},
		{func() { m.Defragging = true }, "follower"},
		{func() { m.Defragging, m.Learner = false, true }, "learner"},
	} {
		tc.change()
		if got := (Situation{Observation: plan.Observation{Member: m}}).State(); got != tc.want {
			t.Errorf("%+v: got %s, want %s", m, got, tc.want)
		}
	}
}

// A blank disk does not found anything beside a cluster that exists, unless it has a seat there.
func TestStateOfABlankDisk(t *testing.T) {
	record := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1,
		Seats: []plan.Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}}})
	for _, tc := range []struct {
		disk   string
		record *plan.Record
		want   string
	}{
		{"d3", nil, "founding"},
		{"d2", &record, "founding"},
		{"d3", &record, "joining"},
	} {
		first := plan.Facts{Slot: "a", Disk: "d1", Phase: plan.PhaseData, Record: tc.record}
		s := Situation{Observation: plan.Observation{Claim: plan.Claim{Held: true, Slot: "b", Disk: tc.disk},
			Peers: []plan.Peer{{Node: "n1", Live: true, Facts: &first}}}}
		if got := s.State(); got != tc.want {
			t.Errorf("disk %s: got %s, want %s", tc.disk, got, tc.want)
		}
	}
}

// Next shows what only a pause holds back.
func TestNextAfterAPause(t *testing.T) {
	record := plan.Record{Generation: 1, ID: "r", Charter: plan.Charter{Seats: []plan.Seat{{Slot: "a", Disk: "d1"}, {Slot: "b", Disk: "d2"}, {Slot: "c", Disk: "d3"}}}}
	s := Situation{Observation: plan.Observation{
		Claim: plan.Claim{Held: true, Slot: "a", Disk: "d1"},
		Disk:  plan.Disk{WAL: true, Member: 1, Ledger: plan.Ledger{Record: &record, Role: plan.RoleFounder, Started: "d1"}},
		Member: plan.Member{Running: true, Ready: true, Status: plan.Status{Leader: true, HasLead: true, Confirmed: true}, ID: 1, Members: []plan.MemberInfo{
			{ID: 1, Slot: "a"}, {ID: 2, Slot: "b", Connected: true}, {ID: 3, Slot: "c"}}},
		Peers: []plan.Peer{{Node: "n3", Live: true, Facts: &plan.Facts{Slot: "c", Disk: "d4", Phase: plan.PhaseVacant, Record: &record}}},
	}}
	if got := s.Next(); got != nil {
		t.Errorf("not paused: got %+v", got)
	}
	s.Observation.Member.Paused = &plan.Pause{By: "ops", Since: time.Unix(0, 0)}
	if got := s.Next(); got == nil || got.Action != plan.Replace {
		t.Errorf("paused: got %+v", got)
	}
}

// lateMesh is a mesh to which another caller publishes while it is given something.
type lateMesh struct {
	*world
	meanwhile func()
	state     []byte
}

func (m *lateMesh) Publish(state []byte) {
	if f := m.meanwhile; f != nil {
		m.meanwhile = nil
		f()
	}
	m.state = state
}

// The loop and a defragmentation publish at the same time. What comes too late is put right by the next look.
func TestLateFactsArePutRight(t *testing.T) {
	w := newWorld(t)
	c := w.holding()
	mesh := &lateMesh{world: w}
	c.world.Mesh = mesh
	before := look(t, c)
	c.upkeep.defragging.Store(true)
	w.member.Running = true
	after := look(t, c)
	mesh.meanwhile = func() { c.announcer.publish(after) }
	c.announcer.publish(before)
	c.announcer.publish(after) // the next look
	if f, err := ReadFacts(mesh.state); err != nil || !f.Defragging {
		t.Errorf("the others know %s, %v", mesh.state, err)
	}
}
