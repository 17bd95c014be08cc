package health

import (
	"slices"
	"strings"
	"testing"

	"holdfast/embedded/plan"
)

// A node that waits for the other program's etcd to end holds no volume yet. It is named until the takeover is over;
// later it is a standby.
func TestTakeoverWaiting(t *testing.T) {
	s := ClusterStatus{Nodes: []NodeStatus{{Node: "n1", Live: true, Why: "standing by: etcd still runs"}}}
	record := &plan.Record{Adopted: &plan.Adoption{}}
	for name, tc := range map[string]struct {
		record *plan.Record
		frozen string
		want   []string
	}{
		"not begun": {nil, "", []string{"n1 (no volume): standing by: etcd still runs"}},
		"mixed":     {record, "slot b is not taken over yet", []string{"n1 (no volume): standing by: etcd still runs"}},
		"over":      {record, "", nil},
	} {
		if got := AssessTakeover(s, tc.record, nil, tc.frozen).Waiting; !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// A refusal names only flags and commands that exist.
func TestReleaseVersions(t *testing.T) {
	for to, want := range map[string]string{
		"":       "say which etcd will run here: --to-etcd",
		"newest": "--to-etcd: must be a version of etcd",
		"3.6.12": "`holdfast downgrade --to 3.6`",
		"3.5.33": "a downgrade goes one minor at a time, to 3.6",
		"3.7.3":  "",
	} {
		r := AssessRelease(ClusterStatus{}, Releasing{Origin: &plan.Origin{Program: plan.PlainEtcd}, To: to, Foreign: 1,
			Etcd: &EtcdStatus{Status: plan.Status{ClusterVersion: "3.7.0", StorageVersion: "3.7.0"}}})
		if got := strings.Join(r.Why, "\n"); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("to %q: got %q, want %q", to, got, want)
		}
	}
}

// A cluster goes back because an operator has released a member, not because it is paused while a machine is away. That
// may also happen to a cluster that was adopted long ago.
func TestTakeoverPhase(t *testing.T) {
	r := plan.AdoptedRecord("main", "https://etcd-{slot}.x.y:2380", plan.Origin{Cluster: 7, Program: plan.EtcdManager,
		Members: []plan.Elder{{ID: 1, Slot: "a", Name: "etcd-a"}, {ID: 2, Slot: "b", Name: "etcd-b"}, {ID: 3, Slot: "c", Name: "etcd-c"}}})
	restored := r // which does not say that the cluster was adopted
	restored.Cause, restored.Adopted = plan.Restored, nil
	members := []plan.MemberInfo{{ID: 1, Slot: "a"}, {ID: 2, Slot: "b"}, {ID: 3, Slot: "c"}}
	node := func(name string, id plan.ID) NodeStatus {
		return NodeStatus{Node: name, Live: true, Reached: true, Record: &r, Etcd: &EtcdStatus{Member: id, Status: plan.Status{LeaderID: 2, Version: "3.7.3"}},
			Checkup: &Checkup{Member: uint64(id), Members: members, Near: []uint64{1, 2, 3}}}
	}
	two, three := []NodeStatus{node("n1", 1), node("n2", 2)}, []NodeStatus{node("n1", 1), node("n2", 2), node("n3", 3)}
	far, begun := []NodeStatus{node("n1", 1)}, []NodeStatus{node("n1", 1)}
	far[0].Checkup = &Checkup{Member: 1, Members: members, Near: []uint64{1, 2}}
	lost := NodeStatus{Node: "n1", State: "lost", Record: &r, Volume: &plan.Volume{Slot: "a"}}
	without, led := []NodeStatus{lost, node("n2", 2)}, []NodeStatus{lost, node("n2", 2), node("n3", 3)}
	heir := NodeStatus{Node: "n4", Live: true, Record: &r, Volume: &plan.Volume{Slot: "a"}}
	moved := append([]NodeStatus{heir}, without...)
	starting := heir
	starting.Why = "slot a resumes with its data"
	early := node("n1", 1)
	early.Checkup = &Checkup{Members: members} // from before its member ran
	for _, n := range append(without[1:], led[1:]...) {
		n.Checkup.Near = []uint64{2, 3}
	}
	maintained, returned := &plan.Pause{By: "alice", Why: "new switches"}, &plan.Pause{By: "bob", Return: true}
	for name, tc := range map[string]struct {
		nodes   []NodeStatus
		paused  *plan.Pause
		foreign []string
		frozen  string
		want    TakeoverPhase
		next    string // the beginning of what is next
	}{
		"over":                             {nodes: three, want: TakeoverOver},
		"a machine reboots":                {nodes: two, want: TakeoverOver},
		"paused for maintenance":           {nodes: three, paused: maintained, want: TakeoverOver},
		"a machine reboots while paused":   {nodes: two, paused: maintained, want: TakeoverOver},
		"mixed":                            {nodes: two, foreign: []string{"c"}, frozen: "c is not taken over", want: TakeoverMixed, next: "take over the machine of slot c"},
		"the leader is the last":           {nodes: begun, foreign: []string{"b", "c"}, frozen: "they are not taken over", want: TakeoverMixed, next: "take over the machine of slot c"},
		"mixed and paused":                 {nodes: two, paused: maintained, foreign: []string{"c"}, frozen: "c is not taken over", want: TakeoverMixed, next: "take over"},
		"one is away":                      {nodes: far, foreign: []string{"b", "c"}, frozen: "they are not taken over", want: TakeoverMixed, next: "raft is not connected to the member of slot c: start holdfast there, or its etcd again, before any other machine; if its disk is lost for good: `holdfast etcdctl member remove 3`"},
		"one of ours is away":              {nodes: without, foreign: []string{"c"}, frozen: "c is not taken over", want: TakeoverMixed, next: "raft is not connected to the member of slot a: make sure that holdfast on n1 runs it again, before any other machine; if its disk is lost for good: `holdfast etcdctl member remove 1`"},
		"the last of ours is away":         {nodes: led, frozen: "not all were seen", want: TakeoverMixed, next: "raft is not connected to the member of slot a: make sure that holdfast on n1"},
		"its disk is elsewhere":            {nodes: moved, foreign: []string{"c"}, frozen: "c is not taken over", want: TakeoverMixed, next: "raft is not connected to the member of slot a: make sure that holdfast on n4"},
		"one of ours starts":               {nodes: append([]NodeStatus{starting}, led[1:]...), foreign: []string{"c"}, frozen: "c is not taken over", want: TakeoverMixed, next: "stop no other member until that of slot a serves; it is down on n4: slot a resumes with its data"},
		"the first of ours starts":         {nodes: []NodeStatus{starting}, foreign: []string{"b", "c"}, frozen: "they are not taken over", want: TakeoverMixed, next: "stop no other member until that of slot a serves"},
		"nothing is known of the others":   {nodes: []NodeStatus{early}, foreign: []string{"b", "c"}, frozen: "they are not taken over", want: TakeoverMixed, next: "stop no member: none that runs under holdfast has said yet"},
		"all are here":                     {nodes: three, frozen: "not all were seen", want: TakeoverMixed, next: "wait until every member has been seen running here"},
		"one was released":                 {nodes: two, paused: returned, want: TakeoverReturning, next: "check that the released members serve again, then release the next: `holdfast takeover release` on n1, then n2"},
		"one was released, frozen":         {nodes: two, paused: returned, foreign: []string{"c"}, frozen: "it goes back", want: TakeoverReturning, next: "check that the released members"},
		"about to go back, or taken again": {nodes: three, paused: returned, want: TakeoverReturning, next: "release a member: `holdfast takeover release` on n1, then n3, then n2"},

		"all were released": {nodes: []NodeStatus{heir}, paused: returned, want: TakeoverReturning, next: "start the other"},
	} {
		got := AssessTakeover(ClusterStatus{Paused: tc.paused, Nodes: tc.nodes}, &r, tc.foreign, tc.frozen)
		s := ClusterStatus{Paused: tc.paused, Nodes: tc.nodes}
		later := AssessTakeover(s, &restored, tc.foreign, tc.frozen)
		same := later.Phase == got.Phase && later.Next == got.Next && len(later.Members) == 3
		if tc.want == TakeoverReturning && !same {
			t.Errorf("%s, after a restore: got %+v, want %+v", name, later, got)
		}
		if got.Phase != tc.want || !strings.HasPrefix(got.Next, tc.next) || (got.Next == "") != (tc.next == "") {
			t.Errorf("%s: got %s, next %q, want %s, %q", name, got.Phase, got.Next, tc.want, tc.next)
		}
	}
}

// If another program runs some members, a member goes down only if the remaining ones reach each other without it.
func TestSevered(t *testing.T) {
	links := func(peers ...plan.ID) Links { return Links{Peers: peers} }
	a, b := TakeoverMember{Slot: "a", Member: 1, Connected: true}, TakeoverMember{Slot: "b", Member: 2, Connected: true}
	c := TakeoverMember{Slot: "c", Member: 3, Connected: true, Ours: true}
	ours := func(m TakeoverMember) TakeoverMember { m.Ours = true; return m }
	gone := func(m TakeoverMember) TakeoverMember { m.Connected = false; return m }
	for name, tc := range map[string]struct {
		members []TakeoverMember
		told    map[plan.ID]Links
		want    string
	}{
		"all are ours":                {[]TakeoverMember{ours(a), ours(b), c}, nil, ""},
		"they reach each other":       {[]TakeoverMember{a, b, c}, map[plan.ID]Links{1: links(2, 3), 2: links(1, 3)}, ""},
		"one reaches the other":       {[]TakeoverMember{a, b, c}, map[plan.ID]Links{1: links(3), 2: links(1)}, ""},
		"they reach this one alone":   {[]TakeoverMember{a, b, c}, map[plan.ID]Links{1: links(3), 2: links(3)}, "slots a and b, one of which another program runs, are not connected"},
		"one is not asked":            {[]TakeoverMember{a, b, c}, map[plan.ID]Links{1: links(3), 2: {Err: "it hangs"}}, "are connected: it hangs"},
		"one is asked and is enough":  {[]TakeoverMember{a, b, c}, map[plan.ID]Links{1: links(2), 2: {Err: "it hangs"}}, ""},
		"none is asked":               {[]TakeoverMember{a, b, c}, map[plan.ID]Links{1: {Err: "one"}, 2: {Err: "two"}}, "are connected: one"},
		"another of ours reaches it":  {[]TakeoverMember{a, ours(b), c}, map[plan.ID]Links{1: links(3), 2: links(1)}, ""},
		"another of ours does not":    {[]TakeoverMember{a, ours(b), c}, map[plan.ID]Links{1: links(3), 2: links(3)}, "are not connected"},
		"one is away, as is said":     {[]TakeoverMember{a, gone(b), c}, map[plan.ID]Links{1: links(3)}, ""},
		"another program runs it all": {[]TakeoverMember{a, b, gone(c)}, nil, "are not connected"},
		"one is left":                 {[]TakeoverMember{a, c}, nil, ""},
	} {
		got := Takeover{Members: tc.members}.Severed(3, tc.told)
		if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// A node's connections count if it answers, whether its member leads or not.
func TestLinks(t *testing.T) {
	members := []plan.MemberInfo{{ID: 0xa, Connected: true}, {ID: 0xb}, {ID: 0xc}}
	s := ClusterStatus{Nodes: []NodeStatus{
		{Reached: true, Etcd: &EtcdStatus{Member: 0xc}, Checkup: &Checkup{Member: 0xc, Members: members, Near: []uint64{0xb}}},
		{Reached: true, Etcd: &EtcdStatus{Member: 0xa}, Checkup: &Checkup{Members: members}}, // from before its member ran
		{Reached: true, Checkup: &Checkup{Members: members}},
		{Etcd: &EtcdStatus{Member: 0xb}, Checkup: &Checkup{Members: members}},
	}}
	if got := s.Links(); len(got) != 1 || !slices.Equal(got[0xc].Peers, []plan.ID{0xa, 0xb}) {
		t.Errorf("got %+v", got)
	}
}
