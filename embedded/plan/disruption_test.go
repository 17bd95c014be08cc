package plan

import (
	"testing"
	"time"
)

// observed is a follower in slot a of a healthy cluster with these other slots, and what the leader, b on n2, sees.
func observed(slots ...string) (Observation, []MemberInfo) {
	o := Observation{Node: "n1", Claim: Claim{Held: true, Slot: "a"}, Disk: Disk{Ledger: Ledger{Record: &Record{ID: "r"}}},
		Member: Member{Running: true, Ready: true, Status: Status{HasLead: true}, ID: 1}}
	members := []MemberInfo{{ID: 1, Slot: "a", Connected: true}}
	for i, s := range slots {
		id := uint64(i + 2)
		members = append(members, MemberInfo{ID: id, Slot: s, Connected: i > 0})
		o.Member.Members, o.Member.Near = append(o.Member.Members, MemberInfo{ID: id, Slot: s}), append(o.Member.Near, id)
		o.Peers = append(o.Peers, Peer{Node: "n" + string('2'+byte(i)), Live: true, Facts: &Facts{Slot: s, Running: true, Member: id, Leader: i == 0}})
	}
	o.Member.Members = append(o.Member.Members, MemberInfo{ID: 1, Slot: "a"})
	for i := range o.Peers {
		o.Peers[i].Facts.Members = members
	}
	if len(slots) == 0 {
		return o, members
	}
	return o, o.Peers[0].Facts.Seen()
}

func TestDisruption(t *testing.T) {
	since := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	locked := &Lock{Slot: "c", Node: "n3", Purpose: "drain", Since: since}
	const drains = "n3 (slot c) holds the disruption lock (drain) since 2026-11-01T10:00:00Z"
	for _, c := range []struct {
		name  string
		slots []string
		tell  func(o *Observation, seen *[]MemberInfo)
		want  string
	}{
		{"all is well", []string{"b", "c"}, nil, ""},
		{"five, and one of them is away", []string{"b", "c", "d", "e"}, func(o *Observation, seen *[]MemberInfo) { (*seen)[3].Connected = false }, ""},
		{"our own lock", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { o.Member.Lock = &Lock{Slot: "a", Node: "n1"} }, ""},
		{"another's lock", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock = &Lock{Slot: "c", Node: "n3", Purpose: "stop", Since: since}
		}, "n3 (slot c) holds the disruption lock (stop) since 2026-11-01T10:00:00Z"},
		{"the lock of a member that was given back", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Disk.Ledger.Record.Cause, o.Peers[1].Live = locked, Adopted, false
		}, ""},
		{"the lock of a member that was given back after a restore", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Member.Paused, o.Peers[1].Live = locked, &Pause{Return: true}, false
		}, ""},
		{"the lock of a node that is lost while paused", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Member.Paused, o.Peers[1].Live = locked, &Pause{By: "op"}, false
		}, drains},
		{"the lock of a node that is lost", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Peers[1].Live = locked, false
		}, drains},
		{"the lock of a node that is to go down", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Disk.Ledger.Record.Cause = locked, Adopted
		}, drains},
		{"its slot runs elsewhere", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Disk.Ledger.Record.Cause, o.Peers[1].Node = locked, Adopted, "n4"
		}, drains},
		{"its node speaks for no slot now", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Disk.Ledger.Record.Cause, o.Peers[1].Facts = locked, Adopted, nil
		}, drains},
		{"it was not started by another program yet", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Member.Lock, o.Disk.Ledger.Record.Cause, o.Peers[1].Live = locked, Adopted, false
			o.Member.Near = []uint64{2}
		}, drains},
		{"one is away", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { (*seen)[2].Connected = false },
			"slot c on n3 is not connected: without slot a, 1 of 3 voters would be left, and 2 are needed"},
		{"one is drained", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			(*seen)[2].Connected, o.Peers[1].Facts.Drained = false, true
		}, "slot c, drained on n3, is not connected: without slot a, 1 of 3 voters would be left, and 2 are needed"},
		{"nobody holds the one that is away", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { (*seen)[2].Connected, o.Peers = false, o.Peers[:1] },
			"slot c is not connected: without slot a, 1 of 3 voters would be left, and 2 are needed"},
		{"two voters", []string{"b"}, nil, "without slot a, 1 of 2 voters would be left, and 2 are needed: the cluster is down until it is back"},
		{"the only one", nil, nil, "slot a is the only voter: the cluster is down until it is back"},
		{"a learner", []string{"b", "c", "d"}, func(o *Observation, seen *[]MemberInfo) { (*seen)[3].Learner = true }, "slot d on n4 is catching up as a learner"},
		{"a learner itself", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { o.Member.Learner = true }, ""},
		{"the leader does not answer", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { *seen = nil }, "the leader has not said which members are connected to it"},
		{"a follower answers", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { *seen = o.Peers[1].Facts.Seen() }, "the leader has not said which members are connected to it"},
		{"no leader", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { o.Member.HasLead = false },
			"this member sees no leader, so it is unknown here whether the others keep a quorum without it"},
		{"etcd does not run", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) { o.Member = Member{} },
			"etcd does not run here, so it is unknown here whether the others keep a quorum without it"},
		{"a restore", []string{"b", "c"}, func(o *Observation, seen *[]MemberInfo) {
			o.Store.Unknown, o.Peers[0].Facts.Restore, o.Peers[0].Facts.Record = "timeout", "x", o.Disk.Ledger.Record
		}, "node n2 knows of a restore, and the backup store does not answer here: the member list stays as it is"},
	} {
		o, seen := observed(c.slots...)
		if c.tell != nil {
			c.tell(&o, &seen)
		}
		if got := o.Disruption(seen); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
	}
}

func TestHaste(t *testing.T) {
	const (
		all   = "the whole cluster is being stopped"
		every = "waiting does not help, because every voter is needed"
	)
	told := func(o *Observation, slots ...int) {
		for _, i := range slots {
			o.Peers[i].Facts.Stopping = true
		}
	}
	for _, c := range []struct {
		name  string
		slots []string
		tell  func(o *Observation)
		want  string
		alone bool // no voter is left to hand over to
	}{
		{"in a healthy cluster", []string{"b", "c"}, nil, "", false},
		{"another is told to end as well", []string{"b", "c"}, func(o *Observation) { told(o, 0) }, "", false},
		{"all are told to end", []string{"b", "c"}, func(o *Observation) { told(o, 0, 1) }, all, true},
		{"one has ended, and the other was told to", []string{"b", "c"}, func(o *Observation) {
			told(o, 0, 1)
			o.Peers[0].Live, o.Member.Near = false, []uint64{3}
		}, all, true},
		{"one has died, and the other was told to end", []string{"b", "c"}, func(o *Observation) {
			told(o, 1)
			o.Peers[0].Live, o.Member.Near = false, []uint64{3}
		}, all, true},
		{"one is back already", []string{"b", "c"}, func(o *Observation) {
			told(o, 0, 1)
			o.Peers[0].Live = false
			o.Peers = append(o.Peers, Peer{Node: "n4", Live: true, Facts: &Facts{Slot: "b"}})
		}, "", false},
		{"one has just ended, and is connected still", []string{"b", "c"}, func(o *Observation) {
			told(o, 0, 1)
			o.Peers[0].Live = false
		}, all, true},
		{"two were given back", []string{"b", "c"}, func(o *Observation) {
			told(o, 0, 1)
			o.Disk.Ledger.Record.Cause = Adopted
			o.Peers[0].Live, o.Peers[1].Live = false, false
		}, "", false},
		{"two were given back after a restore", []string{"b", "c"}, func(o *Observation) {
			told(o, 0, 1)
			o.Member.Paused = &Pause{Return: true}
			o.Peers[0].Live, o.Peers[1].Live = false, false
		}, "", false},
		{"all of an adopted cluster are told to end", []string{"b", "c"}, func(o *Observation) {
			told(o, 0, 1)
			o.Disk.Ledger.Record.Cause = Adopted
		}, all, true},
		{"all of an adopted cluster end", []string{"b", "c"}, func(o *Observation) {
			told(o, 0, 1)
			o.Disk.Ledger.Record.Cause = Adopted
			o.Peers[0].Live, o.Member.Near = false, []uint64{3}
		}, all, true},
		{"the gossip is silent", []string{"b", "c"}, func(o *Observation) { o.Peers = nil }, "", false},
		{"one is gone", []string{"b", "c"}, func(o *Observation) { o.Member.Near = []uint64{3} }, "", false},
		{"no quorum", []string{"b", "c"}, func(o *Observation) { o.Member.Near = nil }, "there is no quorum: 1 of 3 voters are connected", true},
		{"learners do not count", []string{"b", "c", "d"}, func(o *Observation) {
			o.Member.Members[2].Learner, o.Member.Near = true, []uint64{4}
		}, "there is no quorum: 1 of 3 voters are connected", true},
		{"two voters", []string{"b"}, nil, every, false},
		{"two voters, and both are told to end", []string{"b"}, func(o *Observation) { told(o, 0) }, every, true},
		{"the only one", nil, nil, every, true},
		{"a learner", []string{"b", "c"}, func(o *Observation) { o.Member.Learner = true }, "a learner does not count for the quorum", false},
		{"nothing runs", []string{"b", "c"}, func(o *Observation) { o.Member = Member{} }, "etcd does not run", true},
	} {
		o, _ := observed(c.slots...)
		if c.tell != nil {
			c.tell(&o)
		}
		if got := o.Haste(); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
		if got := o.Deserted(); got != c.alone {
			t.Errorf("%s: deserted:\ngot  %t\nwant %t", c.name, got, c.alone)
		}
	}
}

// Without the lock, of two members that are told to stop, the one whose slot sorts first goes first.
func TestLeaving(t *testing.T) {
	for name, c := range map[string]struct {
		slot   string
		change func(p *Peer)
		want   bool
	}{
		"the later one waits":    {"b", func(*Peer) {}, true},
		"the first one does not": {"a", func(p *Peer) { p.Facts.Slot = "b" }, false},
		"the first one stays":    {"b", func(p *Peer) { p.Facts.Stopping = false }, false},
		"it has stopped":         {"b", func(p *Peer) { p.Facts.Running = false }, false},
		"it is lost":             {"b", func(p *Peer) { p.Live = false }, false},
		"it has said nothing":    {"b", func(p *Peer) { p.Facts = nil }, false},
	} {
		p := Peer{Node: "n1", Live: true, Facts: &Facts{Slot: "a", Running: true, Stopping: true}}
		c.change(&p)
		o := Observation{Claim: Claim{Held: true, Slot: c.slot}, Peers: []Peer{p}}
		if got := o.Leaving(); (got != "") != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
