package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/plan"
)

var now = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// sound is a healthy cluster of three: n1 leads with slot a.
func sound() *Facts {
	r := record("a", "b", "c")
	f := &Facts{Now: now, Status: ClusterStatus{Cluster: "main", Asked: "n1", Time: now}, Store: &Holdings{Good: 1}}
	due := now.Add(time.Hour)
	for i, slot := range []string{"a", "b", "c"} {
		state := "follower"
		if i == 0 {
			state = "leader"
		}
		var members []plan.MemberInfo
		for j, slot := range []string{"a", "b", "c"} {
			members = append(members, plan.MemberInfo{ID: uint64(j + 1), Slot: slot, Started: true, Connected: i != j})
		}
		f.Status.Nodes = append(f.Status.Nodes, NodeStatus{Node: fmt.Sprintf("n%d", i+1), Live: true, Reached: true, State: state, Version: "1.0", Since: now,
			Record: &r, Volume: &plan.Volume{Slot: slot}, Upkeep: &UpkeepStatus{},
			Backup: &BackupStatus{Leading: i == 0, Due: due},
			Etcd: &EtcdStatus{Status: plan.Status{Version: "3.7.3", ClusterVersion: "3.7.0",
				Space:  plan.Space{Size: 1 << 20, InUse: 1 << 20, Quota: 2 << 30},
				Leader: i == 0, HasLead: true, Confirmed: true, Term: 2}},
			Checkup: &Checkup{Time: now, Member: uint64(i + 1), Leader: i == 0, Members: members, Names: map[uint64]string{1: "a", 2: "b", 3: "c"}, Cures: true,
				Fsync: &Quantile{Seconds: 0.002, Count: 1000, Total: 1000}, Commit: &Quantile{Seconds: 0.004, Count: 1000, Total: 1000}, Room: &VolumeRoom{Room: plan.Room{Free: 50 << 30, Size: 100 << 30}}},
			Asked: now.Add(-time.Millisecond), Answered: now.Add(time.Millisecond)})
	}
	return f
}

// unseen makes a node lost in the gossip, while raft is still connected to its member.
func (f *Facts) unseen(i int) {
	n := f.Status.Nodes[i]
	f.Status.Nodes[i] = NodeStatus{Node: n.Node, State: "lost", Since: now.Add(-time.Hour), Volume: n.Volume, Record: n.Record, Why: "not heard of"}
}

// lose makes a node one that is down.
func (f *Facts) lose(i int) {
	f.unseen(i)
	f.disconnect(i)
}

// begin leaves only what a first node that was just started sees: itself, without a member.
func (f *Facts) begin() {
	f.disconnect(0)
	f.Status.Nodes = f.Status.Nodes[:1]
	f.Status.Nodes[0] = NodeStatus{Node: "n1", Live: true, Reached: true, Early: true, State: "claiming", Since: now, Checkup: &Checkup{Time: now}}
}

// heard adds the others, the second of which leads.
func (f *Facts) heard() {
	others := sound()
	others.disconnect(0)
	f.Status.Nodes = append(f.Status.Nodes, others.Status.Nodes[1:]...)
	n := f.node(1)
	n.State, n.Etcd.Leader, n.Checkup.Leader, n.Backup.Leading = "leader", true, true, true
}

// disconnect makes the others lose their connection to a member.
func (f *Facts) disconnect(i int) {
	for j, n := range f.Status.Nodes {
		if j != i && n.Checkup != nil {
			n.Checkup.Members[i].Connected = false
		}
	}
}

// adopted makes it a cluster that was taken over except for these members. Only a leader sees the others as connected.
func (f *Facts) adopted(foreign ...int) {
	r := record("a", "b", "c")
	r.Cause = plan.Adopted
	for i := range f.Status.Nodes {
		n := &f.Status.Nodes[i]
		n.Record = &r
		for j := range n.Checkup.Members {
			if j != i {
				n.Checkup.Near = append(n.Checkup.Near, uint64(j+1))
			}
			n.Checkup.Members[j].Connected = n.Checkup.Leader && j != i
		}
	}
	f.Status.Nodes = slices.DeleteFunc(f.Status.Nodes, func(n NodeStatus) bool { return slices.Contains(foreign, int(n.Checkup.Member)-1) })
	f.Status.Asked = f.Status.Nodes[0].Node
}

// goingBack makes it a cluster of which these members were given back: their nodes are gone, or were forgotten.
func (f *Facts) goingBack(forgotten bool, released ...int) {
	f.adopted()
	for i := range f.Status.Nodes {
		f.node(i).Paused = &plan.Pause{By: "bob", Since: now, Return: true}
	}
	nodes := f.Status.Nodes
	for _, i := range released {
		f.unseen(i)
	}
	if forgotten {
		nodes = slices.DeleteFunc(nodes, func(n NodeStatus) bool { return !n.Live })
	}
	f.Status.Nodes = nodes
	f.Status.Asked = nodes[len(nodes)-1].Node
}

// restored makes it a cluster whose record does not say that it was taken over.
func (f *Facts) restored() { f.Status.Nodes[0].Record.Cause = plan.Restored } // all have the same record

// apart makes no messages flow to a member.
func (f *Facts) apart(i int) {
	for _, n := range f.Status.Nodes {
		if n.Checkup == nil {
			continue
		}
		n.Checkup.Near = slices.DeleteFunc(n.Checkup.Near, func(id uint64) bool { return id == uint64(i+1) })
	}
}

// standby asks a node without a slot.
func (f *Facts) standby() {
	f.Status.Asked = "n4"
	f.Status.Nodes = append(f.Status.Nodes, NodeStatus{Node: "n4", Live: true, Reached: true, State: Standby, Version: "1.0", Since: now})
	f.Endpoints, f.Events = &plan.Unleased{Err: "no member runs"}, &plan.Unleased{Err: "no member runs"}
}

// found makes it a cluster that holdfast has founded.
func (f *Facts) found() {
	for i := range f.Status.Nodes {
		f.Status.Nodes[i].Record.Cause = plan.Founding
	}
}

// leaderless takes the leader away from all members.
func (f *Facts) leaderless(seconds float64) {
	for i := range f.Status.Nodes {
		if e := f.Status.Nodes[i].Etcd; e != nil {
			e.Leader, e.HasLead, e.Confirmed, e.Leaderless = false, false, false, &seconds
			f.Status.Nodes[i].State, f.Status.Nodes[i].Why = "waiting", "no quorum"
			f.Status.Nodes[i].Checkup.Leader = false
		}
	}
}

func (f *Facts) node(i int) *NodeStatus { return &f.Status.Nodes[i] }

func TestSoundCluster(t *testing.T) {
	f := sound()
	if got := f.Judge([]string{"a", "b", "c"}); len(got) > 0 {
		t.Errorf("got %q", Texts(got))
	}
	f.Status.Judge(nil)
	if f.Status.Health != Healthy || f.Status.Leader != "n1" {
		t.Errorf("got %s, leader %s", f.Status.Health, f.Status.Leader)
	}
}

// For each situation an operator gets a finding with this code, severity and text, and this verdict on the cluster.
func TestSituations(t *testing.T) {
	const day = 24 * time.Hour
	files := func(all ...File) func(*Facts) { return func(f *Facts) { f.node(1).Checkup.Files = all } }
	cert := func(until time.Duration) func(*Facts) {
		return files(File{Key: "etcd.cert-file", Path: "/c.pem", Kind: OwnCertificate, Certs: []Certificate{{"CN=x", now.Add(-60 * day), now.Add(until)}}})
	}
	says := func(code Code, text string) func(*Facts) {
		return func(f *Facts) { f.node(1).Found = []Finding{New(code, "", "%s", text)} }
	}
	rotation := func(phase string, change func(*RotationStatus)) func(*Facts) {
		return func(f *Facts) {
			f.node(1).TLS = &TLSStatus{Rotation: rotating(phase)}
			if change != nil {
				change(f.node(1).TLS.Rotation)
			}
		}
	}
	old := func(ago time.Duration) func(*RotationStatus) {
		return func(r *RotationStatus) { r.Add(ClientCertificate{Name: "kube", Last: now.Add(-ago)}) }
	}
	hold := func(begun, left time.Duration) func(*RotationStatus) {
		return func(r *RotationStatus) { r.Since, r.Hold = now.Add(-begun), now.Add(left) }
	}
	hashes := func(sums ...string) func(*Facts) { // at revisions 10 and 20, of each node
		return func(f *Facts) {
			for i, sum := range sums {
				for at, s := range strings.Fields(sum) {
					if s != "-" {
						h := plan.Hash{Revision: int64(10 + 10*at), Compacted: int64(10 * at), Sum: s}
						f.node(i).Etcd.Hashes = append(f.node(i).Etcd.Hashes, h)
					}
				}
			}
		}
	}
	issued := func(left, life time.Duration) func(*Facts) {
		return func(f *Facts) {
			kube := IssuedClient{Name: "kube", NotBefore: now.Add(left - life), NotAfter: now.Add(left)}
			f.node(1).TLS = &TLSStatus{Issued: []IssuedClient{kube}}
		}
	}
	for _, c := range []struct {
		name     string
		make     func(*Facts)
		code     Code
		severity Severity
		text     string
		verdict  Verdict
	}{
		// Losses.
		{"a node is down", func(f *Facts) { f.lose(2) }, SlotDown, Degrading, "slot c has no live holder (n3, which did, has not been heard of since 2026-11-22T02:00:00Z)", Degraded},
		{"a node is down, the node", func(f *Facts) { f.lose(2) }, NodeLost, Warning, "n3, which holds slot c, has not been heard of", Degraded},
		{"a node is down, the voters", func(f *Facts) { f.lose(2) }, MemberCutOff, Degrading, "2 of 3 voters are connected, and 2 are needed", Degraded},
		{"one is down whose slot was given up", func(f *Facts) {
			f.Status.Nodes = append(f.Status.Nodes, NodeStatus{Node: "n4", State: "lost", Since: now, Volume: &plan.Volume{Slot: "d"}, Record: f.node(0).Record})
		}, "", "", "", Healthy},
		{"two are down", func(f *Facts) { f.lose(1); f.lose(2); f.leaderless(1) }, QuorumLost, Critical, "1 of 3 members run (a), and none has a leader; missing: b, c", NoQuorum},
		{"its process has just begun", func(f *Facts) { f.begin() }, NotExamined, Warning, "n1 has just started, and has not yet heard of a leader or of who runs a, b, c", Unknown},
		{"it has begun, and heard of the others", func(f *Facts) { f.begin(); f.heard() }, MemberCutOff, Degrading, "2 of 3 voters are connected", Degraded},
		{"it has begun, and heard of a follower only", func(f *Facts) {
			f.begin()
			f.heard()
			f.Status.Nodes = append(f.Status.Nodes[:1], f.Status.Nodes[2:]...)
		}, SlotDown, Degrading, "slot a has no live holder", Degraded},
		{"it has begun, and all wait", func(f *Facts) { f.leaderless(1); f.node(0).Early = true }, Electing, Critical, "the members of a, b, c are electing a leader", NoLeaderYet},
		{"all are down but in memory", func(f *Facts) { f.lose(0); f.lose(1); f.lose(2) }, QuorumLost, Critical, "no member of the slots a, b, c runs", NoQuorum},
		{"the leader died a second ago", func(f *Facts) { f.lose(0); f.leaderless(1) }, Electing, Critical, "the members of b, c are electing a leader", NoLeaderYet},
		{"an election that does not end", func(f *Facts) { f.leaderless(30) }, QuorumLost, Critical, "all members (a, b, c) run, and none has a leader", NoQuorum},
		{"one that was elected just now", func(f *Facts) {
			f.lose(2)
			f.leaderless(1)
			f.node(1).Etcd.Leader, f.node(1).Etcd.HasLead = true, true
		}, Electing, Critical, "the members of a, b are electing a leader", NoLeaderYet},
		{"a member was added and never started", func(f *Facts) { f.lose(2); f.node(0).Checkup.Members[2].Started = false }, MemberCutOff, Degrading, "was added and has never started", Degraded},
		{"a disk is replaced", func(f *Facts) { f.node(2).State = "learner" }, SlotDown, Degrading, "slot c is learner on n3", Degraded},
		{"a learner that does not know it yet", func(f *Facts) { f.node(0).Etcd.Learners = []string{"c"} }, SlotLearner, Degrading, "slot c on n3 has no vote yet", Degraded},
		{"a learner that takes long", func(f *Facts) { f.node(1).State, f.node(1).Since = "learner", now.Add(-11*time.Minute) }, LearnerSlow, Degrading, "a learner for 11m", Degraded},
		{"a slot without a member", func(f *Facts) { c := f.node(0).Checkup; c.Members = c.Members[:2] }, MemberMissing, Degrading, "slot c has no member", Degraded},
		{"a standby", func(f *Facts) {
			f.Status.Nodes = append(f.Status.Nodes, NodeStatus{Node: "n4", Live: true, Reached: true})
		}, "", "", "", Healthy},
		{"another one took the slot", func(f *Facts) {
			f.Status.Nodes = append(f.Status.Nodes, NodeStatus{Node: "n0", State: "lost", Volume: &plan.Volume{Slot: "a"}})
		}, "", "", "", Healthy},

		// A cluster is being taken over: another program runs what no node does.
		{"a foreign follower", func(f *Facts) { f.adopted(2) }, SlotForeign, Warning, "slot c is not taken over: another program runs its member, and raft is connected to it", Healthy},
		{"a foreign leader", func(f *Facts) { f.adopted(0) }, SlotForeign, Warning, "slot a is not taken over: another program runs its member", Healthy},
		{"two foreign members, one leads", func(f *Facts) { f.adopted(0, 1) }, SlotForeign, Warning, "slot b is not taken over", Healthy},
		{"a foreign member is down", func(f *Facts) { f.adopted(2); f.disconnect(2); f.apart(2) }, SlotDown, Degrading, "slot c is not taken over, and raft is not connected", Degraded},
		{"a foreign member is down, the slot", func(f *Facts) { f.adopted(2); f.disconnect(2); f.apart(2) }, SlotForeign, Warning, "no holdfast node has ever run its member", Degraded},
		{"the foreign leader was killed a second ago", func(f *Facts) { f.adopted(0, 1); f.apart(0); f.leaderless(1) }, Electing, Critical, "the members of b, c are electing a leader", NoLeaderYet},
		{"no quorum with foreign members", func(f *Facts) { f.adopted(0, 1); f.apart(0); f.apart(1); f.leaderless(1) }, QuorumLost, Critical, "1 of 3 members run (c), and none has a leader; missing: a, b", NoQuorum},
		{"a node of an adopted cluster is lost", func(f *Facts) { f.adopted(2); f.lose(1) }, SlotDown, Degrading, "slot b has no live holder (n2, which did,", Degraded},
		{"a foreign member of a cluster that holdfast founded", func(f *Facts) { f.adopted(2); f.found() }, SlotUnseen, Warning, "slot c: raft is connected to its member", Healthy},

		// What the gossip says may differ from who is really there.
		{"an impostor hides a follower", func(f *Facts) { f.unseen(2) }, SlotUnseen, Warning, "slot c: raft is connected to its member", Healthy},
		{"an impostor hides the leader", func(f *Facts) { f.unseen(0) }, SlotUnseen, Warning, "slot a: raft is connected to its member", Healthy},
		{"a holder does not answer", func(f *Facts) { n := f.node(1); n.Reached, n.Etcd, n.Checkup = false, nil, nil }, NodeSilent, Warning, "n2 is in the gossip but does not answer", Healthy},
		{"a holder does not answer, and raft neither", func(f *Facts) { n := f.node(1); n.Reached, n.Etcd, n.Checkup = false, nil, nil; f.disconnect(1) }, SlotDown, Degrading, "slot b is follower on n2", Degraded},
		{"a seed is away", says(GossipSeed, "seed 10.0.0.9: no answer"), GossipSeed, Warning, "n2: seed 10.0.0.9: no answer", Healthy},
		{"a stranger", says(GossipStranger, "10.0.0.9: another cluster"), GossipStranger, Warning, "another cluster", Healthy},
		{"another key", says(GossipKey, "10.0.0.9 uses another gossip key"), GossipKey, Warning, "another gossip key", Healthy},
		{"a twin", says(NodeTwin, "another live process calls itself n2"), NodeTwin, Warning, "calls itself n2", Healthy},
		{"a copied bucket", says(Conflict, "the store is a copy"), Conflict, Warning, "the store is a copy", Healthy},
		{"a standby with other slots", says(SlotsDiffer, "cluster.slots is x here"), SlotsDiffer, Warning, "cluster.slots is x here", Healthy},
		{"two holders", func(f *Facts) { f.node(1).Volume.Slot = "a" }, SlotTwice, Degrading, "slot a is held by n1 and by n2", Degraded},
		{"two clusters", func(f *Facts) { r := record("x"); f.node(2).Record = &r }, TwoClusters, Degrading, "two clusters claim the name", Degraded},

		// The way back.
		{"a follower was given back", func(f *Facts) { f.goingBack(false, 2) }, SlotReleased, Warning, "slot c was given back: another program runs its member, and raft is connected to it", Healthy},
		{"a follower was given back after a restore", func(f *Facts) { f.goingBack(false, 2); f.restored() }, SlotReleased, Warning, "slot c was given back", Healthy},
		{"its node is forgotten", func(f *Facts) { f.goingBack(true, 2) }, SlotReleased, Warning, "slot c was given back", Healthy},
		{"the leader was given back and leads again there", func(f *Facts) { f.goingBack(false, 0) }, SlotReleased, Warning, "slot a was given back", Healthy},
		{"two were given back, one leads", func(f *Facts) { f.goingBack(true, 0, 1) }, SlotReleased, Warning, "slot b was given back", Healthy},
		{"the other program does not serve", func(f *Facts) { f.goingBack(false, 2); f.disconnect(2); f.apart(2) }, SlotDown, Degrading, "slot c is run by no node while the cluster goes back", Degraded},
		{"it is drained, and holdfast still runs", func(f *Facts) {
			f.goingBack(false)
			f.node(2).State, f.node(2).Etcd = "drained", nil
			f.disconnect(2)
			f.apart(2)
		}, SlotDown, Degrading, "slot c is run by no node while the cluster goes back", Degraded},
		{"a machine reboots meanwhile", func(f *Facts) { f.goingBack(false, 2); f.node(1).State = "starting" }, SlotDown, Degrading, "slot b is starting on n2", Degraded},
		{"a foreign leader that is no leader any more", func(f *Facts) { f.goingBack(true, 0, 1); f.apart(0); f.leaderless(1) }, Electing, Critical, "the members of b, c are electing a leader", NoLeaderYet},
		{"paused for maintenance, and the leader's node is unseen", func(f *Facts) { f.adopted(); f.unseen(0); f.node(1).Paused = &plan.Pause{By: "alice", Since: now} }, SlotUnseen, Warning, "slot a: raft is connected to its member", Healthy},

		// Who leads.
		{"a leader that nothing confirms", func(f *Facts) {
			for i := range 3 {
				f.node(i).Etcd.Confirmed = false
			}
		}, QuorumLost, Critical, "n1 claims to lead at term 2, but no read through it is answered", NoQuorum},
		{"a deposed leader that hangs", func(f *Facts) {
			n := f.node(0)
			n.State, n.Etcd.Confirmed, n.Stall, n.Volume.Path = "stalled", false, &StallStatus{Unwritten: 12.4}, "/mnt/a"
			f.node(1).Etcd.Leader, f.node(1).Etcd.Term = true, 3
		}, LeaderDisputed, Degrading, "2 nodes claim to lead: n2 does, at term 3, because a read through it was just answered; n1 claims to lead at term 2, but no read through it is answered", Degraded},
		{"its disk", func(f *Facts) {
			n := f.node(1)
			n.State, n.Etcd.Confirmed, n.Stall = "stalled", false, &StallStatus{Unwritten: 12.4}
		}, Stalled, Degrading, "n2: no write has been committed here for 12 s, and no read is answered: the disk of slot b may hang", Degraded},
		{"one that catches up", func(f *Facts) {
			n := f.node(1)
			n.State, n.Etcd.Confirmed, n.Stall = "stalled", false, &StallStatus{Unwritten: 0.2}
		}, Stalled, Degrading, "although committed entries reach it: it is catching up", Degraded},
		{"a follower that is cut off from the leader alone", func(f *Facts) { f.disconnect(2) }, MemberCutOff, Degrading, "not connected to the leader, though n3 serves its slot", Degraded},
		{"the others have a wrong peer URL of a follower", func(f *Facts) { f.disconnect(2); f.node(0).Checkup.Members[2].PeerURL = "http://x:2380" }, MemberCutOff, Degrading, "though n3 serves its slot, and the others dial it at http://x:2380", Degraded},

		// Member list and alarms.
		{"a zombie", func(f *Facts) {
			c := f.node(0).Checkup
			c.Members = append(c.Members, plan.MemberInfo{ID: 0x99, Slot: "old", Started: true})
		}, MemberStale, Degrading, "99, slot old: this member belongs to no slot of the cluster and is not connected", Degraded},
		{"a slot that the cluster gave up", func(f *Facts) {
			f.node(0).Set = &plan.SlotSet{Record: f.node(0).Record.ID, Serial: 1, Slots: []string{"a", "b"}}
		}, MemberStale, Degrading, "3, slot c: this member belongs to no slot of the cluster, but it is connected", Degraded},
		{"NOSPACE", func(f *Facts) { f.node(0).Etcd.Alarms = []plan.Alarm{{Name: plan.NoSpace, Member: 1}} }, AlarmNoSpace, Critical, "NOSPACE of member 1: etcd refuses every put", Degraded},
		{"one differs", hashes("1 2", "1 x", "1 2"), MemberDiffers, Critical, "at revision 20 the data of n2 differs from what n1, n3 have", Degraded},
		{"one differs, as far as a majority tells", hashes("1 2", "x", "1"), MemberDiffers, Critical, "at revision 10 the data of n2 differs from what n1, n3 have", Degraded},
		{"all differ", hashes("1 2", "1 x", "1 y"), MemberDiffers, Critical, "the data of n1, n2, n3 differs at revision 20, and no majority", Degraded},
		{"two differ and the third tells nothing", hashes("1 2", "1 x", "1"), MemberDiffers, Critical, "the data of n1, n2 differs at revision 20, and no majority", Degraded},
		{"CORRUPT of nobody", func(f *Facts) { f.node(0).Etcd.Alarms = []plan.Alarm{{Name: plan.Corrupt, Member: 0}} }, AlarmCorrupt, Critical, "CORRUPT of member 0: the members' data differs, and etcd could not tell", Degraded},
		{"CORRUPT", func(f *Facts) { f.node(0).Etcd.Alarms = []plan.Alarm{{Name: plan.Corrupt, Member: 2}} }, AlarmCorrupt, Critical, "CORRUPT of member 2: etcd says that the data of this member differs", Degraded},
		{"an alarm of tomorrow", func(f *Facts) { f.node(0).Etcd.Alarms = []plan.Alarm{{Name: "MOON", Member: 2}} }, AlarmUnknown, Critical, "MOON", Degraded},

		// Versions and clocks.
		{"etcd's minors", func(f *Facts) { f.node(1).Etcd.Version = "3.6.9" }, VersionsDiffer, Warning, "3.6 on n2; 3.7 on n1, n3", Healthy},
		{"our versions", func(f *Facts) { f.node(1).Version = "1.1" }, VersionsDiffer, Warning, "1.0 on n1, n3; 1.1 on n2", Healthy},
		{"the cluster version lags", func(f *Facts) {
			for i := range 3 {
				f.node(i).Etcd.Version, f.node(i).Etcd.ClusterVersion = "3.10.0", "3.9.0"
			}
		}, ClusterVersion, Warning, "the cluster version is 3.9, although all members run etcd 3.10", Healthy},
		{"a downgrade", func(f *Facts) { f.node(1).Etcd.Downgrade = "3.6.0" }, DowngradeOpen, Warning, "being downgraded to etcd 3.6.0", Healthy},
		{"a clock ahead", func(f *Facts) { f.node(1).Checkup.Time = now.Add(3 * time.Second) }, ClockApart, Warning, "n2 is at least 2.999s ahead of that of n1", Healthy},
		{"a clock far behind", func(f *Facts) { f.node(1).Checkup.Time = now.Add(-2 * time.Minute) }, ClockApart, Degrading, "1m59.999s behind", Degraded},
		{"a slow answer says nothing of a clock", func(f *Facts) { f.node(1).Answered = now.Add(4 * time.Second) }, "", "", "", Healthy},

		// Disks and databases.
		{"a slow log", func(f *Facts) { f.node(1).Checkup.Fsync.Seconds = 0.0123 }, DiskSlow, Warning, "wal fsync) takes up to 12 ms", Healthy},
		{"a log that has become slow", func(f *Facts) {
			f.node(1).Checkup.Fsync = &Quantile{Seconds: 0.0123, Count: 100, Over: 600, Total: 1e6}
		}, DiskSlow, Warning, "takes up to 12 ms (99th percentile of 100 in the last 10m)", Healthy},
		{"a log so slow that it gives few samples", func(f *Facts) {
			f.node(1).Checkup.Fsync = &Quantile{Seconds: 8, Mean: 0.392, Count: 30, Total: 30}
		}, DiskSlow, Warning, "takes 392 ms on average (of 30 since the process started)", Healthy},
		{"a log that is somewhat slow in the beginning", func(f *Facts) {
			f.node(1).Checkup.Fsync = &Quantile{Seconds: 8, Mean: 0.011, Count: 30, Total: 30}
		}, DiskUnmeasured, Info, "fewer than 100 times", Healthy},
		{"a few slow writes", func(f *Facts) {
			f.node(1).Checkup.Fsync = &Quantile{Seconds: 8, Mean: 0.392, Count: 9, Over: 600, Total: 1000}
		}, "", "", "", Healthy},
		{"a slow commit", func(f *Facts) { f.node(1).Checkup.Commit.Seconds = 0.03 }, DiskSlow, Warning, "backend commit) takes up to 30 ms", Healthy},
		{"a young process", func(f *Facts) { f.node(1).Checkup.Fsync.Total = 99 }, DiskUnmeasured, Info, "fewer than 100 times", Healthy},
		{"a disk that is nearly full", func(f *Facts) { f.node(1).Checkup.Room.Free = 4 << 30 }, DiskFull, Degrading, "4.0 GiB of 100.0 GiB are free on the volume of n2", Degraded},
		{"a disk that is rather full", func(f *Facts) { f.node(1).Checkup.Room.Free = 9 << 30 }, DiskLow, Warning, "9.0 GiB of 100.0 GiB are free", Healthy},
		{"no room to defragment", func(f *Facts) {
			*f.node(1).Checkup.Room = VolumeRoom{Room: plan.Room{Free: 100 << 20, Size: 200 << 20}}
		}, DiskLow, Warning, "a defragmentation needs 129.0 MiB", Healthy},
		{"a disk with little more than its reserve", func(f *Facts) {
			*f.node(1).Checkup.Room = VolumeRoom{Room: plan.Room{Free: 190 << 20, Size: 1 << 30}, Reserve: 128 << 20, Enough: 192 << 20}
		}, DiskLow, Warning, "190.0 MiB of 1.0 GiB are free on the volume of n2, and with less than 128.0 MiB the cluster refuses writes", Healthy},
		{"a disk without its reserve", func(f *Facts) {
			*f.node(1).Checkup.Room = VolumeRoom{Room: plan.Room{Free: 100 << 20, Size: 1 << 30}, Reserve: 128 << 20, Enough: 192 << 20, Short: true}
		}, DiskReserve, Critical, "100.0 MiB of 1.0 GiB are free on the volume of n2, and etcd needs a reserve of 128.0 MiB to keep running: the cluster refuses writes until 192.0 MiB", Degraded},
		{"a small spool", func(f *Facts) {
			f.node(1).Checkup.Spool = &plan.Room{Free: 1 << 20, Size: 2 << 20}
			f.node(1).Etcd.Size = 2 << 20
		}, SpoolLow, Warning,
			"1.0 MiB of 2.0 MiB are free on the disk of the spool of the backups of n2, and the database takes 2.0 MiB", Healthy},
		{"a spool that is nearly full", func(f *Facts) { f.node(1).Checkup.Spool = &plan.Room{Free: 9 << 30, Size: 100 << 30} }, SpoolLow, Warning, "9.0 GiB of 100.0 GiB", Healthy},
		{"a scratch directory that is nearly full", func(f *Facts) { f.node(2).Checkup.Scratch = &plan.Room{Free: 9 << 30, Size: 100 << 30} }, ScratchLow, Warning,
			"9.0 GiB of 100.0 GiB are free on the disk of the scratch directory of n3", Healthy},
		{"a spool and a scratch directory with room", func(f *Facts) {
			f.node(1).Checkup.Spool, f.node(1).Checkup.Scratch = &plan.Room{Free: 11 << 30, Size: 100 << 30}, &plan.Room{Free: 11 << 30, Size: 100 << 30}
		}, "", "", "", Healthy},
		{"a disk that hangs", func(f *Facts) { f.node(1).Checkup.Room, f.node(1).Checkup.RoomErr = nil, "no answer" }, DiskUnread, Warning, "no answer", Healthy},
		{"much is set aside", func(f *Facts) { f.node(1).Aside = []plan.Aside{{Bytes: 30 << 30}} }, AsideLarge, Warning, "set aside takes 30.0 GiB", Healthy},
		{"a database near its quota", func(f *Facts) { f.node(1).Upkeep.Full = true }, DatabaseFull, Warning, "of its quota of 2.0 GiB", Healthy},
		{"a database that grows", func(f *Facts) { grows := int64(400 << 20); f.node(1).Upkeep.Growth = &grows }, DatabaseGrows, Warning, "full within a week", Healthy},
		{"a defragmentation that failed", func(f *Facts) { f.node(1).Upkeep.Last = &DefragStatus{Error: "no room"} }, DefragFails, Warning, "failed, 0 so far: no room", Healthy},
		{"fragmented in a pause", func(f *Facts) { f.node(1).Upkeep.Fragmented, f.node(1).Paused = true, &plan.Pause{} }, DefragPaused, Warning, "the pause prevents its defragmentation", Healthy},

		// Certificates and secrets.
		{"it ends in a month", cert(29 * day), CertificateEnds, Warning, "/c.pem on n2: etcd.cert-file: CN=x expires in 29d", Healthy},
		{"it ends in a week", cert(6 * day), CertificateEnds, Degrading, "expires in 6d", Degraded},
		{"it has ended", cert(-day), CertificateEnded, Critical, "expired at 2026-11-21T03:00:00Z", Degraded},
		{"it is valid", cert(31 * day), "", "", "", Healthy},
		{"one of hours that is young", files(File{Kind: OwnCertificate, Certs: []Certificate{{"CN=x", now.Add(-time.Hour), now.Add(23 * time.Hour)}}}), "", "", "", Healthy},
		{"one of hours that was not renewed", files(File{Kind: OwnCertificate, Certs: []Certificate{{"CN=x", now.Add(-23 * time.Hour), now.Add(time.Hour)}}}), CertificateEnds, Degrading, "expires in 60m", Degraded},
		{"it is not valid yet", files(File{Kind: OwnCertificate, Certs: []Certificate{{"CN=x", now.Add(day), now.Add(90 * day)}}}), CertificateEnded, Critical, "valid only from", Degraded},
		{"an old authority beside a new one", files(File{Kind: Authorities, Certs: []Certificate{{"CN=old", now.Add(-8 * day), now}, {"CN=new", now.Add(-8 * day), now.Add(90 * day)}}}),
			CertificateEnded, Warning, "CN=old expired", Healthy},
		{"one of ours that was not renewed", files(File{Kind: IssuedCertificate, Certs: []Certificate{{"CN=x", now.Add(-80 * day), now.Add(10 * day)}}}), CertificateEnds, Warning, "should have been renewed", Healthy},
		{"an unreadable file", files(File{Key: "etcd.key-file", Kind: Secret, Err: "permission denied"}), FileUnread, Warning, "permission denied", Healthy},
		{"an open key", files(File{Key: "etcd.key-file", Kind: Secret, Mode: 0o644}), SecretOpen, Warning, "mode 0644", Healthy},
		{"a key of a group", files(File{Key: "etcd.key-file", Kind: Secret, Mode: 0o640}), SecretOpen, Warning, "mode 0640", Healthy},
		{"a key of its owner", files(File{Key: "etcd.key-file", Kind: Secret, Mode: 0o600}), "", "", "", Healthy},
		{"plain text", func(f *Facts) { f.node(1).TLS = &TLSStatus{Insecure: true} }, Insecure, Warning, "reach etcd on n2 without TLS", Healthy},

		// The rotation of the authorities.
		{"a rotation", rotation("introduced", nil), AuthorityRotation, Info,
			"of clients and peers has been open since 2026-11-21T22:00:00Z, introduced for 2h: it waits until slot b is", Healthy},
		{"a rotation and old clients", rotation("issuing", old(time.Minute)), AuthorityRotation, Info,
			"in 3h: kube 60s ago", Healthy},
		{"a rotation that waits for a member", rotation("introduced", nil), RotationWaits, Warning,
			"in the phase introduced for 2h: until slot b is heard of", Healthy},
		{"a hold that has been over for an hour", rotation("introduced", hold(2*time.Hour, -time.Hour)), RotationWaits,
			Warning, "for 60m", Healthy},
		{"clients have an hour of three left", rotation("introduced", hold(2*time.Hour, time.Hour)), BundleDue, Warning,
			"from 2026-11-22T04:00:00Z on, in 60m, y signs", Healthy},
		{"clients have 29 days left", rotation("introduced", hold(300*day, 29*day)), BundleDue, Warning, "in 29d", Healthy},
		{"a client of an old authority", rotation(RotationRetiring, old(time.Minute)), ClientsOld, Warning,
			"authority (x), which ends at 2027-01-02T19:00:00Z: kube 60s ago", Healthy},
		{"a client's certificate of a year", issued(29*day, 365*day), ClientEnds, Warning,
			"the client certificate of kube expires in 29d, at 2026-12-21T03:00:00Z", Healthy},
		{"a client's certificate that has ended", issued(-day, 365*day), ClientEnds, Warning,
			"of kube expired at 2026-11-21T03:00:00Z", Healthy},
		{"a client's certificate of a month", issued(4*day, 30*day), "", "", "", Healthy},
		{"a client that is long gone", issued(-8*day, 365*day), "", "", "", Healthy},

		// Backups.
		{"no backup", func(f *Facts) { f.Store.Good = 0 }, BackupNone, Degrading, "no verified backup", Healthy},
		{"no backup in this node's own store", func(f *Facts) {
			f.Store.Good = 0
			f.node(0).Store, f.node(1).Store, f.node(1).Backup.Count = "x", "y", 3
		}, BackupNone, Warning, "others hold some (3 backups of n2), because the nodes do not share a store", Healthy},
		{"no backup in the store of all", func(f *Facts) {
			f.Store.Good = 0
			f.node(0).Store, f.node(1).Store, f.node(1).Backup.Count = "x", "x", 3
		}, BackupNone, Degrading, "nothing can be restored", Healthy},
		{"the newest is bad", func(f *Facts) { f.node(0).Backup.Skipped, f.node(0).Backup.Name = "x", "w" }, BackupBad, Degrading, "the newest backup, x, is bad: the newest good one is w", Degraded},
		{"none is good", func(f *Facts) { f.node(0).Backup.Skipped = "x" }, BackupBad, Degrading, "x, is bad, and the store holds NO good one", Degraded},
		{"one that may hold more", func(f *Facts) { f.node(0).Backup.Doubt = "backup x does not tell what it holds: torn" },
			BackupDoubt, Warning, "backup x does not tell what it holds: torn; if the cluster or its " +
				"majority is lost, nothing is restored or recovered automatically", Healthy},
		{"a damaged one", func(f *Facts) { f.Store.Broken = Sample{1, "b2: torn"} }, BackupBroken, Warning, "never verified, such as b2: torn", Healthy},
		{"another cluster's", func(f *Facts) { f.Store.Foreign = 1 }, BackupForeign, Warning, "1 backup", Healthy},
		{"one that was never finished", func(f *Facts) { f.Store.Left = 2 }, BackupLeft, Warning, "2 backups", Healthy},
		{"an unknown proof", func(f *Facts) { f.Store.Unproven = Sample{1, "b1: newer"} }, BackupUnproven, Warning, "such as b1: newer", Healthy},
		{"the store is away", func(f *Facts) { f.Store = &Holdings{Err: "access denied"} }, NotExamined, Warning, "the store cannot be read: access denied", Healthy},
		{"the store tells a node nothing", func(f *Facts) { f.node(2).Backup.StoreError = "connection refused" }, StoreSilent, Warning, "n3 cannot list the store: connection refused", Healthy},
		{"backups fail", func(f *Facts) { f.node(0).Backup.Failures, f.node(0).Backup.Error = 2, "EIO" }, BackupFails, Degrading, "2 in a row so far: EIO", Degraded},
		{"they failed under an earlier leader", func(f *Facts) { f.node(1).Backup.Failures = 2 }, "", "", "", Healthy},
		{"overdue", func(f *Facts) { f.node(0).Backup.Overdue = true }, BackupOverdue, Degrading, "older than the schedule allows", Degraded},
		{"a save that hangs", func(f *Facts) {
			b := f.node(0).Backup
			b.Overdue, b.Saving = true, now.Add(-10*time.Minute)
		}, BackupOverdue, Degrading, "and n1 has been saving one for 10m", Degraded},
		{"a drill that hangs", func(f *Facts) {
			b := f.node(0).Backup
			b.Overdue, b.Drill = true, &DrillStatus{Running: "b1"}
		}, BackupOverdue, Degrading, "and n1 still drills b1", Degraded},
		{"unplanned", func(f *Facts) { f.node(0).Backup.Due = time.Time{} }, BackupUnwanted, Warning, "no backup is planned", Healthy},
		{"nobody makes them", func(f *Facts) { f.node(0).Backup.Leading = false }, BackupUnknown, Warning, "no node reports that it does", Healthy},
		{"a drill failed", func(f *Facts) { f.node(0).Backup.Drill = &DrillStatus{Name: "b1", Error: "the hash differs"} }, DrillFails, Degrading, "backup b1 could not be restored by a drill: the hash differs", Degraded},
		{"a drill was not tried", func(f *Facts) { f.node(0).Backup.Drill = &DrillStatus{Untried: "no room"} }, DrillUntried, Warning, "could not be tried: no room", Healthy},
		{"a spool", func(f *Facts) { f.node(1).Backup.Spooled = []string{"b0"} }, BackupSpooled, Warning, "only on n2, and not in the store: 1 backup", Healthy},
		{"prune is denied", func(f *Facts) { f.node(1).Backup.Prune = &PruneStatus{Error: "AccessDenied"} }, PruneFails, Warning, "AccessDenied", Healthy},

		// Restores and operators.
		{"a restore", func(f *Facts) {
			f.node(2).Restore = &RestoreStatus{Title: "restore of b1", Generation: 2, State: RestorePreparing, Phase: "verifying", Done: 1, Total: 4}
		}, RestoreOpen, Degrading, "n3: a restore of b1 as generation 2 is under way: preparing, verifying 25 % of 4 B", Degraded},
		{"a restore that nobody has confirmed", func(f *Facts) {
			f.node(2).Restore = &RestoreStatus{ID: "p1", Title: "restore of b1", State: RestoreUnconfirmed}
		}, RestoreOpen, Warning, "nothing begins before an operator runs `holdfast restore --confirm p1`", Healthy},
		{"a restore without room", func(f *Facts) {
			f.node(2).Restore = &RestoreStatus{Title: "restore of b1", State: RestoreUnable, Error: "no room"}
		}, RestoreStuck, Degrading, "no room", Degraded},
		{"a restore without room, tried again", func(f *Facts) {
			f.node(2).Restore = &RestoreStatus{Title: "restore of b1", State: RestoreUnable, Error: "no room", Phase: "verifying"}
		}, RestoreStuck, Degrading, "unable: no room; trying again, verifying", Degraded},
		{"an action fails", func(f *Facts) { f.node(2).Error, f.node(2).Action = "disk full", plan.Start }, ActionFails, Degrading, "n3: the last attempt to start failed: disk full", Degraded},
		{"drained", func(f *Facts) {
			n := f.node(2)
			n.State, n.Etcd, n.Why = "drained", nil, "by an operator"
			f.disconnect(2)
		}, Drained, Degrading, "an operator drained n3", Degraded},
		{"paused", func(f *Facts) { f.node(0).Paused = &plan.Pause{By: "me", Since: now.Add(-time.Hour)} }, Paused, Info, "the cluster is paused by me", Healthy},
		{"paused and forgotten", func(f *Facts) { f.node(0).Paused = &plan.Pause{By: "me", Since: now.Add(-25 * time.Hour)} }, Paused, Warning, "by me", Healthy},
		{"the lock is held", func(f *Facts) {
			f.node(0).Lock = &plan.Lock{Slot: "b", Node: "n2", Purpose: "drain", Since: now.Add(-2 * time.Hour)}
		}, LockLong, Warning, "n2 (slot b) holds the disruption lock", Healthy},
		{"the coordinator hangs", func(f *Facts) { s := 31.0; f.node(1).Looked = &s }, LoopStuck, Critical, "for 31 s", Degraded},
		{"names are not ours", says(NamesUnknown, "/etc/hosts has our names"), NamesUnknown, Degrading, "n2: /etc/hosts has our names", Degraded},

		// Kubernetes.
		{"a stale endpoint", func(f *Facts) {
			f.Endpoints = &plan.Unleased{Prefix: "/registry/masterleases/", Keys: []plan.UnleasedKey{{Key: "/registry/masterleases/10.0.0.3", Revision: 7}}, Read: 3, Total: 3}
		}, EndpointStale, Degrading, "/registry/masterleases/10.0.0.3 is bound to no lease", Healthy},
		{"one with a lease that is gone", func(f *Facts) {
			f.Endpoints = &plan.Unleased{Prefix: "/l/", Keys: []plan.UnleasedKey{{Key: "/l/10.0.0.3", Lease: 0xab}}}
		}, EndpointStale, Degrading, "bound to lease ab, which is gone", Healthy},
		{"unread endpoints", func(f *Facts) { f.Endpoints = &plan.Unleased{Err: "no member runs"} }, NotExamined, Warning, "no member runs", Healthy},
		{"unread by a standby", func(f *Facts) { f.standby() }, NotExamined, Info, "n4 stands by and runs no member", Healthy},
		{"too many endpoints", func(f *Facts) { f.Endpoints = &plan.Unleased{Read: 1, Total: 2} }, NotExamined, Warning, "only 1 of 2", Healthy},
		{"events", func(f *Facts) { f.Events = &plan.Unleased{Keys: []plan.UnleasedKey{{Key: "x"}}, Read: 10, Total: 20} }, EventsStale, Warning, "of the first 10 of 20 events 1 are bound to no living lease", Healthy},

		// With several problems, the worst decides the verdict, and none hides another.
		{"a lost node and a bad backup", func(f *Facts) { f.lose(2); f.node(0).Backup.Skipped = "x" }, BackupBad, Degrading, "NO good one", Degraded},
		{"no quorum and a full disk", func(f *Facts) { f.lose(1); f.lose(2); f.leaderless(60); f.node(0).Checkup.Room.Free = 1 << 30 }, DiskFull, Degrading, "1.0 GiB of 100.0 GiB", NoQuorum},
		{"NOSPACE in an election", func(f *Facts) { f.leaderless(2); f.node(0).Etcd.Alarms = []plan.Alarm{{Name: plan.NoSpace, Member: 1}} }, AlarmNoSpace, Critical, "NOSPACE", NoLeaderYet},
		{"a partition beside an expired certificate", func(f *Facts) {
			f.lose(1)
			f.lose(2)
			f.leaderless(60)
			f.node(0).Checkup.Files = []File{{Kind: OwnCertificate, Certs: []Certificate{{"CN=x", now.Add(-8 * day), now.Add(-day)}}}}
		},
			CertificateEnded, Critical, "expired at", NoQuorum},
		{"the node here hangs", func(f *Facts) { f.Offline, f.Hangs = "it says nothing", true }, NodeSilent, Critical, "it says nothing", Healthy},
		{"the node here hangs, the rest", func(f *Facts) { f.Offline, f.Hangs = "it says nothing", true }, NotExamined, Warning, "the cluster is not known here", Healthy},
		{"the process here ended by itself", func(f *Facts) { f.Offline, f.Ended = "connection refused", "it lost its volume" }, NodeEnded, Degrading, "it lost its volume", Healthy},
		{"no node answers here", func(f *Facts) { f.Offline = "connection refused" }, NotExamined, Warning, "no node was asked: connection refused", Healthy},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := sound()
			c.make(f)
			status := f.Status
			status.Nodes = slices.Clone(status.Nodes)
			got := f.Judge([]string{"a", "b", "c"})
			if c.code == "" && len(got) > 0 {
				t.Errorf("got %q, want nothing", Texts(got))
			}
			if c.code != "" && !slices.ContainsFunc(got, func(f Finding) bool {
				return f.Code == c.code && f.Severity == c.severity && strings.Contains(f.Subject+": "+f.String(), c.text)
			}) {
				t.Errorf("want %s %s %q, got %+v", c.severity, c.code, c.text, got)
			}
			for _, f := range got {
				if f.Do == "" || f.Area == "" || f.Text == "" {
					t.Errorf("nothing is said to be done about %+v", f)
				}
			}
			// Whether there is a quorum is told by the time without a leader, which not all of these situations have.
			if c.code != "" && KindOf(c.code).Local() && KindOf(c.code).Area != areaQuorum &&
				!slices.ContainsFunc(status.Nodes, func(n NodeStatus) bool {
					return slices.ContainsFunc(n.Local([]string{"a", "b", "c"}, now), func(f Finding) bool { return f.Code == c.code })
				}) {
				t.Errorf("no node finds %s by itself, and so none has a series of it", c.code)
			}
			if f.Offline != "" {
				return
			}
			if status.Judge([]string{"a", "b", "c"}); status.Health != c.verdict {
				t.Errorf("got %s because %q, want %s", status.Health, status.Reasons(), c.verdict)
			}
		})
	}
}

// What a certificate's end asks for is not what an authority's does: a new one beside the old one, and no restart by
// hand.
func TestCureOfAuthorities(t *testing.T) {
	const day = 24 * time.Hour
	soon, later := Certificate{"CN=old", now.Add(-900 * day), now.Add(20 * day)},
		Certificate{"CN=new", now, now.Add(900 * day)}
	early := Certificate{"CN=new", now.Add(time.Hour), now.Add(900 * day)}
	if got := (File{Kind: Authorities, Certs: []Certificate{later, early}}).judge(now); got == nil ||
		got.Severity != Warning || !strings.HasPrefix(got.Do, "Look at the clocks") {
		t.Errorf("one that is not valid yet: got %+v", got)
	}
	for want, f := range map[string]File{
		"Put a new certificate in the place of the old one": {Kind: OwnCertificate, Certs: []Certificate{soon}},
		"Put a new authority into the file beside it":       {Kind: Authorities, Certs: []Certificate{soon}},
		"Remove it from the file when no client uses it":    {Kind: Authorities, Certs: []Certificate{soon, later}},
	} {
		if got := f.judge(now); got == nil || got.Code != CertificateEnds || !strings.HasPrefix(got.Do, want) {
			t.Errorf("want %q, got %+v", want, got)
		}
	}
}

// On a standby of a healthy cluster, doctor has one note and no warning. If no member serves, the note is a warning.
func TestStandby(t *testing.T) {
	f := sound()
	f.standby()
	if got := f.Judge([]string{"a", "b", "c"}); len(got) != 1 || got[0].Severity != Info || got[0].Do != "`holdfast doctor` on n1 or n2 or n3 checks them." {
		t.Errorf("got %+v", got)
	}
	f = sound()
	f.standby()
	for i := range 3 {
		f.lose(i)
	}
	if got := f.Judge([]string{"a", "b", "c"}); !slices.ContainsFunc(got, func(f Finding) bool { return f.Code == NotExamined && f.Severity == Warning }) {
		t.Errorf("got %q, want that Kubernetes' keys were not examined", Texts(got))
	}
}

// Nobody is told to provide a blank disk while there is no quorum that could fill it.
func TestNoBlankDisksWithoutQuorum(t *testing.T) {
	for _, lost := range [][]int{{2}, {1, 2}} {
		f := sound()
		for _, i := range lost {
			f.lose(i)
		}
		if len(lost) > 1 {
			f.leaderless(60)
		}
		for _, found := range f.Judge([]string{"a", "b", "c"}) {
			if (found.Code == SlotDown && !strings.Contains(found.Do, "what n1 waits for") || found.Code == NodeLost) && strings.Contains(found.Do, "filled by the others") != (len(lost) == 1) {
				t.Errorf("%d lost: %+v", len(lost), found)
			}
		}
	}
}

// The cluster version is not judged before every member has run.
func TestClusterVersionOfAll(t *testing.T) {
	f := sound()
	for i := range 3 {
		f.node(i).Etcd.ClusterVersion = "3.0.0"
	}
	f.node(2).Etcd = nil
	if got := f.Judge([]string{"a", "b", "c"}); slices.ContainsFunc(got, func(f Finding) bool { return f.Code == ClusterVersion }) {
		t.Errorf("got %q", Texts(got))
	}
}

// The advice about NOSPACE depends on its cause, and on whether the leader cures it. An advice to switch on what is on
// would be a lie, and without the leader nobody knows.
func TestNoSpaceAdvice(t *testing.T) {
	for name, c := range map[string]struct {
		leads, short, cures, paused bool
		want                        string
	}{
		"a full database":               {true, false, true, false, "If history takes the room, nothing"},
		"a full database, and no cure":  {true, false, false, true, "Switch upkeep.cure-nospace on"},
		"a full database, and a pause":  {true, false, true, true, "`holdfast resume`"},
		"a full database, nobody leads": {false, false, true, false, "`holdfast status --why` says what the cure waits for"},
		"a disk without room": {true, true, true, false,
			"Make room on the volume of n2, or make it larger: then the leader disarms the alarm."},
		"a disk without room, no cure": {true, true, false, false,
			"Make room on the volume of n2, or make it larger, then run `holdfast etcdctl alarm disarm`"},
	} {
		f := sound()
		f.node(0).Etcd.Alarms = []plan.Alarm{{Name: plan.NoSpace, Member: 2}}
		f.node(0).Checkup.Leader, f.node(0).Checkup.Cures, f.node(1).Checkup.Room.Short = c.leads, c.cures, c.short
		if c.paused {
			f.node(0).Paused = &plan.Pause{By: "root", Since: now}
		}
		got := f.Judge([]string{"a", "b", "c"})
		i := slices.IndexFunc(got, func(f Finding) bool { return f.Code == AlarmNoSpace })
		if i < 0 || !strings.HasPrefix(got[i].Do, c.want) {
			t.Errorf("%s: got %+v, want %q", name, got, c.want)
		}
	}
}

// Issued certificates are renewed at two thirds of their life, so thirty days do not matter for them. For given
// authorities they do.
func TestIssuedCertificates(t *testing.T) {
	certs := func(life, left time.Duration) []Certificate {
		return []Certificate{{Subject: "x", From: now.Add(left - life), Until: now.Add(left)}}
	}
	for name, tt := range map[string]struct {
		f    File
		want Severity
	}{
		"fresh, of a day":      {File{Kind: IssuedCertificate, Certs: certs(24*time.Hour, 20*time.Hour)}, ""},
		"about to be renewed":  {File{Kind: IssuedCertificate, Certs: certs(90*24*time.Hour, 29*24*time.Hour)}, ""},
		"not renewed":          {File{Kind: IssuedCertificate, Certs: certs(90*24*time.Hour, 20*24*time.Hour)}, Warning},
		"expired":              {File{Kind: IssuedCertificate, Certs: certs(90*24*time.Hour, -time.Hour)}, Critical},
		"not valid yet":        {File{Kind: IssuedCertificate, Certs: certs(24*time.Hour, 25*time.Hour)}, Critical},
		"a given one of days":  {File{Kind: OwnCertificate, Certs: certs(90*24*time.Hour, 20*24*time.Hour)}, Warning},
		"an authority of days": {File{Kind: Authorities, Certs: certs(900*24*time.Hour, 3*24*time.Hour)}, Degrading},
	} {
		got := Severity("")
		if f := tt.f.judge(now); f != nil {
			got = f.Severity
		}
		if got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

// A node alone finds only what the table says it can, and it knows its quorum, its alarms and its members.
func TestLocal(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*Facts)
		want []Code
	}{
		"all is well":  {func(*Facts) {}, nil},
		"one is down":  {func(f *Facts) { f.lose(2) }, []Code{MemberCutOff}},
		"two are down": {func(f *Facts) { f.lose(1); f.lose(2); f.leaderless(60) }, []Code{QuorumLost}},
		"an election":  {func(f *Facts) { f.leaderless(1); f.node(0).Checkup.Near = []uint64{2} }, []Code{Electing}},
		"NOSPACE":      {func(f *Facts) { f.node(0).Etcd.Alarms = []plan.Alarm{{Name: plan.NoSpace, Member: 1}} }, []Code{AlarmNoSpace}},
		"no room":      {func(f *Facts) { f.node(0).Checkup.Room.Free = 1 }, []Code{DiskFull}},
		"no reserve":   {func(f *Facts) { f.node(0).Checkup.Room.Free, f.node(0).Checkup.Room.Short = 1, true }, []Code{DiskReserve}},
		"no scratch":   {func(f *Facts) { f.node(0).Checkup.Scratch = &plan.Room{Free: 1, Size: 100} }, []Code{ScratchLow}},
		"a rotation": {func(f *Facts) { f.node(0).TLS = &TLSStatus{Rotation: rotating("issuing")} },
			[]Code{RotationWaits, AuthorityRotation}},
		"a downgrade": {func(f *Facts) { f.node(0).Etcd.Downgrade = "3.6.0" }, []Code{DowngradeOpen}},
		"a client": {func(f *Facts) {
			kube := IssuedClient{Name: "kube", NotBefore: now.Add(-10 * time.Hour), NotAfter: now.Add(time.Minute)}
			f.node(0).TLS = &TLSStatus{Issued: []IssuedClient{kube}}
		}, []Code{ClientEnds}},
	} {
		f := sound()
		c.make(f)
		var got []Code
		for _, f := range f.node(0).Local([]string{"a", "b", "c"}, now) {
			got = append(got, f.Code)
			if !KindOf(f.Code).Local() {
				t.Errorf("%s: %s is said to take a look at all", name, f.Code)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A node alone says nothing of who holds the slots of others.
func TestLocalOfALearnerThatStarts(t *testing.T) {
	f := sound()
	m := &f.node(0).Checkup.Members[2]
	m.Learner, m.Started, m.Connected = true, false, false
	all := f.node(0).Local(nil, now)
	if len(all) != 1 || all[0].Code != MemberCutOff || strings.Contains(all[0].Text, "holds") {
		t.Errorf("got %+v", all)
	}
}

// A cluster is judged by its own nodes, not by those of another one that has its name and comes first in the list.
func TestAnotherClusterOfOurName(t *testing.T) {
	other := record("x")
	with := func(f *Facts) *Facts {
		m := sound().Status.Nodes[0]
		m.Node, m.Record, m.Volume = "m1", &other, &plan.Volume{Slot: "x"}
		m.Etcd.Term = 9
		f.Status.Nodes = slices.Insert(f.Status.Nodes, 0, m)
		return f
	}
	seen := with(sound())
	lost := with(sound())
	lost.unseen(0)
	for name, f := range map[string]*Facts{"live": seen, "lost": lost} {
		f.Status.Judge([]string{"a", "b", "c"})
		if got := f.Status.Record.Lineage(); got == other.Lineage() || f.Status.Leader != "n1" {
			t.Errorf("%s: judged as cluster %s led by %s", name, got, f.Status.Leader)
		}
		for _, x := range f.Status.Findings {
			if x.Code != TwoClusters && x.Code != LostBlocks {
				t.Errorf("%s: %s: %s", name, x.Code, x)
			}
		}
	}
	down := sound()
	down.leaderless(60)
	if with(down).Status.Judge([]string{"a", "b", "c"}); down.Status.Health != NoQuorum {
		t.Errorf("without a leader of ours: %s: %v", down.Status.Health, down.Status.Reasons())
	}
}

// The reason why a restore cannot be prepared is reported once.
func TestRestoreTellsItsCauseOnce(t *testing.T) {
	n := sound().node(2)
	n.Action, n.Error = plan.Prepare, "no room"
	n.Decision = &Decision{Why: "slot c prepares", Obstacles: []string{"it could not: no room"}}
	for _, c := range []struct {
		restore *RestoreStatus
		want    []Code
	}{
		{nil, []Code{ActionFails}},
		{&RestoreStatus{Title: "restore of b1", State: RestorePreparing}, []Code{RestoreOpen, ActionFails}},
		{&RestoreStatus{Title: "restore of b1", State: RestoreUnable, Error: "no room"}, []Code{RestoreStuck}},
	} {
		n.Restore = c.restore
		n.explain()
		var got []Code
		for _, f := range ordered(n.Judge(now)) {
			got = append(got, f.Code)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if fails := slices.Contains(c.want, ActionFails); !slices.Equal(got, c.want) ||
			slices.Contains(n.Obstacles, "the last attempt failed: no room") != fails {
			t.Errorf("%+v: got %q, stopped by %q", c.restore, got, n.Obstacles)
		}
	}
}

// A node that asks no other node distinguishes an election from a lost quorum by the members that raft reaches.
func TestLocalQuorum(t *testing.T) {
	for name, c := range map[string]struct {
		near    []uint64
		seconds float64
		early   bool
		want    Code
		text    string
	}{
		"the leader died":            {[]uint64{3}, 1, false, Electing, "has had no leader for 1 s"},
		"the others died":            {nil, 1, false, QuorumLost, "has had no leader for 1 s, and reaches 1 of 3 voters"},
		"no connection was made yet": {nil, 1, true, Electing, "has had no leader for 1 s"},
		"nobody is elected":          {[]uint64{2, 3}, 30, false, QuorumLost, "has had no leader for 30 s"},
	} {
		f := sound()
		f.leaderless(c.seconds)
		n := f.node(0)
		n.Checkup.Near, n.Early = c.near, c.early
		got := n.Local(nil, now)
		if !slices.ContainsFunc(got, func(f Finding) bool { return f.Code == c.want && strings.Contains(f.Text, c.text) }) {
			t.Errorf("%s: got %+v, want %s %q", name, got, c.want, c.text)
		}
	}
}

// A node that is here and does not run is to be mended, not given up. A blank disk cannot bring the quorum back.
func TestKeptFromTheQuorum(t *testing.T) {
	for state, want := range map[string]string{"starting": "Mend what keeps n2:", "founding": "Mend what keeps n2:",
		"waiting": "Mend what keeps n2:",
		"joining": "Bring the missing nodes back.", "silent": "Bring the missing nodes back."} {
		f := sound()
		f.lose(2)
		f.disconnect(1)
		f.leaderless(60)
		n := f.node(1)
		n.State, n.Etcd, n.Reached = state, nil, state != "silent"
		all := f.Judge([]string{"a", "b", "c"})
		i := slices.IndexFunc(all, func(f Finding) bool { return f.Code == QuorumLost })
		if i < 0 || !strings.HasPrefix(all[i].Do, want) {
			t.Errorf("%s: got %+v, want %q", state, all, want)
		}
	}
}

// A majority that runs and is only cut off from each other must not be advised to give up a member.
func TestCutOffFromEachOther(t *testing.T) {
	f := sound()
	f.lose(2)
	f.leaderless(60)
	f.node(1).Checkup.Near = []uint64{1} // the connection is cut in one direction only
	all := f.Judge([]string{"a", "b", "c"})
	i := slices.IndexFunc(all, func(f Finding) bool { return f.Code == QuorumLost })
	const want = "No recovery is needed while a, b run (n1 does not reach n2): open the peer port between their nodes, "
	if i < 0 || !strings.HasPrefix(all[i].Do, want) || strings.Contains(all[i].Do, "`holdfast recover`") {
		t.Errorf("got %+v, want %q", all, want)
	}
}

// What keeps one member apart from a cluster that serves is the network, most often, and not its disk.
func TestCutOffFromTheLeader(t *testing.T) {
	alone := func(f *Facts) {
		e, seconds := f.node(1).Etcd, 1.0
		e.HasLead, e.Confirmed, e.Leaderless = false, false, &seconds
		f.node(1).State = "waiting"
		for _, i := range []int{0, 2} {
			f.node(i).Checkup.Near = []uint64{1, 3}
		}
	}
	stalls := func(unwritten float64) func(*Facts) {
		return func(f *Facts) { f.node(1).State, f.node(1).Stall = "stalled", &StallStatus{Unwritten: unwritten} }
	}
	for name, c := range map[string]struct {
		make func(*Facts)
		code Code
		want string
	}{
		"it has no leader":           {alone, SlotDown, "open the peer port between the nodes (n1 does not reach n2, "},
		"it hears the leader":        {stalls(0.2), Stalled, "open the peer port between the nodes"},
		"it writes nothing, and why": {stalls(12), Stalled, "Look at the disk"},
	} {
		f := sound()
		c.make(f)
		all := f.Judge([]string{"a", "b", "c"})
		i := slices.IndexFunc(all, func(f Finding) bool { return f.Code == c.code })
		if i < 0 || !strings.Contains(all[i].Do, c.want) {
			t.Errorf("%s: got %+v, want %q", name, all, c.want)
		}
	}
}

// /readyz?verbose has a line for each finding, whatever the error that it tells.
func TestOneLine(t *testing.T) {
	f := New(GossipOwn, "", "%v", errors.Join(errors.New("the authority is not known here"), errors.New("no such file")))
	if want := "the authority is not known here; no such file"; f.Text != want {
		t.Errorf("got %q, want %q", f.Text, want)
	}
}

// A damaged backup that the saving node has in doubt, or that is the newest, is reported once; further ones, and those
// of other stores, still are.
func TestDoubtIsSaidOnce(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*Facts)
		want []Code
	}{
		"the same":        {func(*Facts) {}, []Code{BackupDoubt}},
		"another as well": {func(f *Facts) { f.Store.Broken.Count = 2 }, []Code{BackupDoubt, BackupBroken}},
		"another store":   {func(f *Facts) { f.node(0).Store = "y" }, []Code{BackupDoubt, BackupBroken}},
		"no doubt now":    {func(f *Facts) { f.node(0).Backup.Doubt = "" }, []Code{BackupBroken}},
		"the newest is bad": {func(f *Facts) {
			f.node(0).Backup.Doubt, f.Store.Skipped = "", []string{"latest is not b2: torn"}
		}, []Code{BackupBad}},
	} {
		f := sound()
		f.Status.Asked = "n2"
		f.Store.Broken = Sample{1, "b2: torn"}
		f.node(0).Backup.Doubt = "backup b2 does not tell what it holds: torn"
		for i := range f.Status.Nodes {
			f.node(i).Store = "x"
		}
		c.make(f)
		var got []Code
		for _, found := range f.Judge([]string{"a", "b", "c"}) {
			if slices.Contains([]Code{BackupDoubt, BackupBroken, BackupBad}, found.Code) {
				got = append(got, found.Code)
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// Until the cluster is founded, the slots are those that the asked node wants now: they may have changed since its
// start.
func TestWantedSlotsOfNow(t *testing.T) {
	f := sound()
	f.Status.Nodes = f.Status.Nodes[:1]
	n := &f.Status.Nodes[0]
	n.Record, n.Volume, n.Etcd, n.State, n.Wanted = nil, nil, nil, "waiting", []string{"a", "d"}
	var down []string
	for _, found := range f.Judge([]string{"a", "b"}) {
		if found.Code == SlotDown {
			down = append(down, found.Subject)
		}
	}
	if !slices.Equal(down, []string{"slot a", "slot d"}) {
		t.Errorf("down: got %q, want slots a and d", down)
	}
}

// Programs go through the list of findings, so it is never null.
func TestReportOfASoundCluster(t *testing.T) {
	text, err := json.Marshal(sound().Report(nil))
	if err != nil || !strings.Contains(string(text), `"findings":[]`) {
		t.Errorf("got %s, %v, want an empty list of findings", text, err)
	}
}
