package cmd

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"holdfast/embedded"
	"holdfast/embedded/coordinator"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

var doctorNow = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// sound is a cluster of three of which all is well.
func sound() evidence {
	record := &plan.Record{ID: "0123456789abcdef", Charter: plan.Charter{Seats: []plan.Seat{{Slot: "a"}, {Slot: "b"}, {Slot: "c"}}}}
	e := evidence{Now: doctorNow, Status: coordinator.ClusterStatus{Cluster: "main", Asked: "n1", Record: record},
		Backups: []snapshot.Backup{{Meta: snapshot.Meta{Name: "b1", Created: doctorNow, Verified: doctorNow}}}}
	due := doctorNow.Add(time.Hour)
	var members []plan.MemberInfo
	for i, slot := range []string{"a", "b", "c"} {
		members = append(members, plan.MemberInfo{ID: uint64(i + 1), Slot: slot, Started: true, Connected: i > 0})
		s := coordinator.NodeStatus{Node: fmt.Sprintf("n%d", i+1), Live: true, Reached: true, State: "follower", Version: "1.0", Since: doctorNow,
			Volume: &coordinator.VolumeStatus{Slot: slot},
			Etcd:   &coordinator.EtcdStatus{Version: "3.7.3", ClusterVersion: "3.7.0", Quota: 2 << 30, Size: 1 << 20, InUse: 1 << 20},
			Upkeep: &coordinator.UpkeepStatus{}, Backup: &coordinator.BackupStatus{Leading: i == 0, Due: &due}}
		c := &checkup{Node: s.Node, Time: doctorNow, Member: uint64(i + 1), Leader: i == 0, Cures: true,
			Fsync: &quantile{0.002, 1000}, Commit: &quantile{0.004, 1000}, Room: &room{Free: 50 << 30, Total: 100 << 30}}
		e.Status.Nodes = append(e.Status.Nodes, s)
		e.Nodes = append(e.Nodes, examined{Status: s, Checkup: c, Asked: doctorNow.Add(-time.Millisecond), Answered: doctorNow.Add(time.Millisecond)})
	}
	e.Nodes[0].Checkup.Members, e.Nodes[0].Checkup.Names = members, map[uint64]string{1: "a", 2: "b", 3: "c"}
	return e
}

// status changes a node's status in both places where it is.
func (e *evidence) status(i int, change func(*coordinator.NodeStatus)) {
	change(&e.Status.Nodes[i])
	e.Nodes[i].Status = e.Status.Nodes[i]
}

// lose makes a node one that was not heard of for a while.
func (e *evidence) lose(i int) {
	e.status(i, func(s *coordinator.NodeStatus) {
		*s = coordinator.NodeStatus{Node: s.Node, State: "lost", Since: doctorNow.Add(-time.Hour), Volume: s.Volume, Why: "not heard of"}
	})
	e.Nodes[i].Checkup, e.Nodes[i].Err = nil, "not heard of"
	e.Nodes[0].Checkup.Members[i].Connected = false
}

func TestDoctorOfASoundCluster(t *testing.T) {
	r := diagnose(sound())
	if len(r.Findings) != len(checks) || r.worst() != 0 {
		t.Errorf("%d findings of %d checks, exit code %d", len(r.Findings), len(checks), r.worst())
	}
	for _, f := range r.Findings {
		if f.Grade != well || f.Do != "" || f.Means == "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDoctor(t *testing.T) {
	week, day := -8*24*time.Hour, 24*time.Hour
	cert := func(until time.Duration) []file {
		return []file{{Key: "etcd.cert-file", Path: "/c.pem", Kind: ownCertificate, Certs: []certificate{{"CN=x", doctorNow.Add(week), doctorNow.Add(until)}}}}
	}
	files := func(f []file) func(*evidence) { return func(e *evidence) { e.Nodes[1].Checkup.Files = f } }
	for _, c := range []struct {
		name  string
		make  func(*evidence)
		check string
		want  grade
		text  string
	}{
		{"silent", func(e *evidence) { e.Nodes[1].Checkup, e.Nodes[1].Err = nil, "no answer to the question" }, "nodes", unknown, "no answer to the question"},
		{"lost", func(e *evidence) { e.lose(2) }, "nodes", warned, "It holds slot c and was not heard of since 2026-11-22T02:00:00Z"},
		{"lost member", func(e *evidence) { e.lose(2) }, "members", bad, "no live node holds its slot (n3, which did, was not heard of since 2026-11-22T02:00:00Z)"},
		{"voters", func(e *evidence) { e.lose(2) }, "members", warned, "2 of 3 voters are connected, and 2 are needed"},
		{"never started", func(e *evidence) { e.lose(2); e.Nodes[0].Checkup.Members[2].Started = false }, "members", bad, "was added and has never started"},
		{"zombie", func(e *evidence) {
			e.Nodes[0].Checkup.Members = append(e.Nodes[0].Checkup.Members, plan.MemberInfo{ID: 0x99, Slot: "old", Started: true})
		}, "members", bad, "99, slot old: This member belongs to no slot of the cluster and is not there: a zombie"},
		{"zombie, paused", func(e *evidence) {
			e.Nodes[0].Checkup.Members = append(e.Nodes[0].Checkup.Members, plan.MemberInfo{ID: 0x99})
			e.Status.Paused = &plan.Pause{By: "me", Since: doctorNow}
		}, "members", bad, "the cluster is paused by me"},
		{"a slot of the set", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) {
				s.Set = &plan.SlotSet{Record: e.Status.Record.ID, Serial: 1, Slots: []string{"a", "b"}}
			})
		}, "members", warned, "3, slot c: This member belongs to no slot of the cluster, and yet it is connected"},
		{"a set of another generation", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) {
				s.Set = &plan.SlotSet{Record: "other", Serial: 1, Slots: []string{"a", "b"}}
			})
		}, "members", well, "All 3 members"},
		{"a slot without a member", func(e *evidence) { e.Nodes[0].Checkup.Members = e.Nodes[0].Checkup.Members[:2] }, "members", warned, "slot c: The slot has no member"},
		{"drained member", func(e *evidence) {
			e.status(2, func(s *coordinator.NodeStatus) { s.State, s.Etcd = "drained", nil })
			e.Nodes[0].Checkup.Members[2].Connected = false
		}, "members", warned, "2 of 3 voters are connected"},
		{"cut off", func(e *evidence) { e.Nodes[0].Checkup.Members[2].Connected = false }, "members", bad, "not connected to the leader, though n3 holds its slot"},
		{"no leader", func(e *evidence) { e.Nodes[0].Checkup.Leader = false }, "members", bad, "no quorum"},
		{"NOSPACE", func(e *evidence) {
			e.status(0, func(s *coordinator.NodeStatus) { s.Etcd.Alarms = []string{"NOSPACE of member 1"} })
		}, "alarms", bad, "the leader is curing it"},
		{"NOSPACE, not cured", func(e *evidence) {
			e.status(0, func(s *coordinator.NodeStatus) { s.Etcd.Alarms = []string{"NOSPACE of member 1"} })
			e.Nodes[0].Checkup.Cures = false
		}, "alarms", bad, "Switch upkeep.cure-nospace on"},
		{"CORRUPT", func(e *evidence) {
			e.status(0, func(s *coordinator.NodeStatus) { s.Etcd.Alarms = []string{"CORRUPT of member 1"} })
		}, "alarms", bad, "CORRUPT of member 1: The data of this member differs"},
		{"stale endpoint", func(e *evidence) {
			e.Endpoints.Unleased = embedded.Unleased{Keys: []embedded.UnleasedKey{{Key: endpointsPrefix + "10.0.0.3", Revision: 7}}, Read: 3, Total: 3}
		}, "kubernetes endpoints", bad, "10.0.0.3: /registry/masterleases/10.0.0.3 is bound to no lease"},
		{"gone lease", func(e *evidence) {
			e.Endpoints.Keys = []embedded.UnleasedKey{{Key: endpointsPrefix + "10.0.0.3", Revision: 7, Lease: 0xab}}
		}, "kubernetes endpoints", bad, "bound to lease ab, which is gone"},
		{"unread endpoints", func(e *evidence) { e.Endpoints.Err = "no member runs" }, "kubernetes endpoints", unknown, "no member runs"},
		{"too many endpoints", func(e *evidence) { e.Endpoints.Read, e.Endpoints.Total = 1, 2 }, "kubernetes endpoints", unknown, "Only 1 of 2"},
		{"events", func(e *evidence) {
			e.Events.Unleased = embedded.Unleased{Keys: []embedded.UnleasedKey{{Key: "x"}}, Read: 10, Total: 20}
		}, "kubernetes events", warned, "Of the first 10 of 20 events 1 are bound to no living lease"},
		{"etcd's minors", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.Etcd.Version = "3.6.9" }) }, "versions", warned, "3.6 on n2; 3.7 on n1, n3"},
		{"our versions", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.Version = "1.1" }) }, "versions", warned, "1.0 on n1, n3; 1.1 on n2"},
		{"cluster version", func(e *evidence) {
			for i := range 3 {
				e.status(i, func(s *coordinator.NodeStatus) { s.Etcd.Version = "3.10.0"; s.Etcd.ClusterVersion = "3.9.0" })
			}
		}, "versions", warned, "works as etcd 3.9, although all members are 3.10"},
		{"downgrade", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.Etcd.Downgrade = "3.6.0" }) }, "versions", warned, "being downgraded to etcd 3.6.0"},
		{"ahead", func(e *evidence) { e.Nodes[1].Checkup.Time = doctorNow.Add(3 * time.Second) }, "clocks", warned, "n2: Its clock is at least 2.999s ahead of that of n1"},
		{"behind", func(e *evidence) { e.Nodes[1].Checkup.Time = doctorNow.Add(-2 * time.Minute) }, "clocks", bad, "n2: Its clock is at least 1m59.999s behind"},
		{"slow answer", func(e *evidence) { e.Nodes[1].Answered = doctorNow.Add(4 * time.Second) }, "clocks", unknown, "took 4.001s"},
		{"slow log", func(e *evidence) { e.Nodes[1].Checkup.Fsync.Seconds = 0.0123 }, "disk speed", warned, "wal fsync) takes up to 12 ms"},
		{"slow commit", func(e *evidence) { e.Nodes[1].Checkup.Commit.Seconds = 0.03 }, "disk speed", warned, "backend commit) takes up to 30 ms"},
		{"unmeasured", func(e *evidence) { e.Nodes[1].Checkup.Fsync.Count = 99 }, "disk speed", unknown, "less than 100 times"},
		{"two holders", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.Volume.Slot = "a" }) }, "problems", bad, "slot a is held by n1 and by n2"},
		{"nearly full", func(e *evidence) { e.Nodes[1].Checkup.Room.Free = 4 << 30 }, "disk space", bad, "4.0 GiB of 100.0 GiB are free"},
		{"rather full", func(e *evidence) { e.Nodes[1].Checkup.Room.Free = 9 << 30 }, "disk space", warned, "9.0 GiB of 100.0 GiB are free"},
		{"no room to defragment", func(e *evidence) { *e.Nodes[1].Checkup.Room = room{Free: 100 << 20, Total: 200 << 20} }, "disk space", warned, "a defragmentation needs 129.0 MiB"},
		{"set aside", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) { s.Aside = []coordinator.AsideStatus{{Bytes: 30 << 30}} })
		}, "disk space", warned, "set aside takes 30.0 GiB"},
		{"set aside, and little free", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) { s.Aside = []coordinator.AsideStatus{{Bytes: 21 << 30}} })
			e.Nodes[1].Checkup.Room.Free = 20 << 30
		}, "disk space", warned, "set aside takes 21.0 GiB"},
		{"nobody tells", func(e *evidence) {
			for i := range 3 {
				e.Nodes[i].Checkup = nil
			}
		}, "clocks", unknown, "No node has told"},
		{"room unknown", func(e *evidence) { e.Nodes[1].Checkup.Room, e.Nodes[1].Checkup.RoomErr = nil, "it hangs" }, "disk space", unknown, "it hangs"},
		{"quota", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.Upkeep.Full = true }) }, "databases", warned, "of its quota of 2.0 GiB"},
		{"growth", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) { grows := int64(400 << 20); s.Upkeep.Growth = &grows })
		}, "databases", warned, "full within a week"},
		{"defragmentation", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) { s.Upkeep.Last = &coordinator.DefragStatus{Error: "no room"} })
		}, "databases", warned, "failed: no room"},
		{"soon", files(cert(29 * day)), "certificates and keys", warned, "/c.pem on n2: etcd.cert-file: CN=x expires in 29d"},
		{"very soon", files(cert(6 * day)), "certificates and keys", bad, "expires in 6d"},
		{"expired", files(cert(-day)), "certificates and keys", bad, "expired at 2026-11-21T03:00:00Z"},
		{"valid", files(cert(31 * day)), "certificates and keys", well, "1 certificates and keys"},
		{"not yet", files([]file{{Kind: ownCertificate, Certs: []certificate{{"CN=x", doctorNow.Add(day), doctorNow.Add(90 * day)}}}}), "certificates and keys", bad, "valid only from"},
		{"an old authority", files([]file{{Kind: authorities, Certs: []certificate{{"CN=old", doctorNow.Add(week), doctorNow}, {"CN=new", doctorNow.Add(week), doctorNow.Add(90 * day)}}}}), "certificates and keys", warned, "CN=old expired"},
		{"unreadable", files([]file{{Key: "etcd.key-file", Kind: secret, Err: "permission denied"}}), "certificates and keys", unknown, "permission denied"},
		{"open key", files([]file{{Key: "etcd.key-file", Kind: secret, Mode: 0o644}}), "certificates and keys", warned, "mode 0644"},
		{"key of a group", files([]file{{Key: "etcd.key-file", Kind: secret, Mode: 0o640}}), "certificates and keys", well, "1 certificates and keys"},
		{"no backup", func(e *evidence) { e.Backups = nil }, "backups", bad, "no verified backup"},
		{"foreign", func(e *evidence) { e.Backups = append(e.Backups, snapshot.Backup{Foreign: true}) }, "backups", warned, "1 backups in the store are another cluster's"},
		{"unverified", func(e *evidence) {
			e.Backups = append(e.Backups, snapshot.Backup{Meta: snapshot.Meta{Name: "b2"}})
		}, "backups", warned, "such as b2: not verified"},
		{"left behind", func(e *evidence) {
			e.Backups = append(e.Backups, snapshot.Backup{Unfinished: true, Problem: "begun only", Meta: snapshot.Meta{Created: doctorNow.Add(-2 * day)}})
		}, "backups", warned, "never finished"},
		{"being saved", func(e *evidence) {
			e.Backups = append(e.Backups, snapshot.Backup{Unfinished: true, Problem: "begun only", Meta: snapshot.Meta{Created: doctorNow}})
		}, "backups", well, "1 verified"},
		{"store", func(e *evidence) { e.BackupsErr = "access denied" }, "backups", unknown, "access denied"},
		{"failures", func(e *evidence) { e.status(0, func(s *coordinator.NodeStatus) { s.Backup.Failures = 2 }) }, "backup schedule", bad, "2 in a row"},
		{"overdue", func(e *evidence) { e.status(0, func(s *coordinator.NodeStatus) { s.Backup.Overdue = true }) }, "backup schedule", bad, "older than the schedule allows"},
		{"unplanned", func(e *evidence) { e.status(0, func(s *coordinator.NodeStatus) { s.Backup.Due = nil }) }, "backup schedule", warned, "No backup is planned"},
		{"drill", func(e *evidence) {
			e.status(0, func(s *coordinator.NodeStatus) {
				s.Backup.Drill = &coordinator.DrillStatus{Name: "b1", Error: "hash differs"}
			})
		}, "backup schedule", bad, "Backup b1 could not be restored by a drill: hash differs"},
		{"spool", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.Backup.Spooled = []string{"b0"} }) }, "backup schedule", warned, "n2: 1 backups lie only on this machine"},
		{"nobody saves", func(e *evidence) { e.status(0, func(s *coordinator.NodeStatus) { s.Backup.Leading = false }) }, "backup schedule", unknown, "no node says that it does"},
		{"restore", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) {
				s.Restore = &coordinator.RestoreStatus{Backup: "b1", By: "me", State: "preparing"}
			})
		}, "restore", warned, "The restore of b1, asked for by me, is preparing"},
		{"drained", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.State = "drained" }) }, "held up", warned, "n2: An operator has drained it"},
		{"learner", func(e *evidence) {
			e.status(1, func(s *coordinator.NodeStatus) { s.State, s.Since = "learner", doctorNow.Add(-11*time.Minute) })
		}, "held up", warned, "a learner for 11m"},
		{"a new learner", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.State = "learner" }) }, "held up", well, "No node is drained"},
		{"pause", func(e *evidence) { e.Status.Paused = &plan.Pause{By: "me", Since: doctorNow.Add(-25 * time.Hour)} }, "held up", warned, "by me"},
		{"a short pause", func(e *evidence) { e.Status.Paused = &plan.Pause{By: "me", Since: doctorNow.Add(-time.Hour)} }, "held up", well, "No node is drained"},
		{"lock", func(e *evidence) {
			e.Status.Lock = &plan.Lock{Slot: "b", Node: "n2", Purpose: "drain", Since: doctorNow.Add(-2 * time.Hour)}
		}, "held up", warned, "n2 (slot b) holds the disruption lock"},
		{"problem", func(e *evidence) { e.Nodes[1].Checkup.Problems = []string{"/etc/hosts has our names"} }, "problems", warned, "n2: /etc/hosts has our names"},
		{"failing action", func(e *evidence) { e.status(1, func(s *coordinator.NodeStatus) { s.Error = "port in use" }) }, "problems", warned, "port in use"},
		{"offline", func(e *evidence) { e.Offline = "no node answers" }, "alarms", unknown, "no node answers"},
		{"offline store", func(e *evidence) { e.Offline = "no node answers" }, "backups", well, "1 verified"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := sound()
			c.make(&e)
			var got []string
			for _, f := range diagnose(e).Findings {
				text := fmt.Sprintf("%s: %s", f.About, f.Means)
				if f.Check != c.check {
					continue
				}
				got = append(got, fmt.Sprintf("%s %s %s", f.Grade, text, f.Do))
				if f.Grade != well && f.Do == "" {
					t.Errorf("nothing is said to be done about %s", text)
				}
			}
			if !slices.ContainsFunc(got, func(line string) bool {
				return strings.HasPrefix(line, string(c.want)+" ") && strings.Contains(line, c.text)
			}) {
				t.Errorf("want %s %q, got\n%s", c.want, c.text, strings.Join(got, "\n"))
			}
			if c.want == well && len(got) != 1 {
				t.Errorf("all is well and more is said:\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

// A node that nobody has heard of for a while is not missed where another one holds its slot.
func TestDoctorAfterATakeover(t *testing.T) {
	e := sound()
	gone := coordinator.NodeStatus{Node: "n0", State: "lost", Volume: &coordinator.VolumeStatus{Slot: "a"}}
	e.Status.Nodes = append(e.Status.Nodes, gone)
	e.Nodes = append(e.Nodes, examined{Status: gone, Err: "lost"})
	if r := diagnose(e); r.worst() != 0 {
		t.Errorf("%+v", r.Findings)
	}
}

func TestDoctorReport(t *testing.T) {
	r := report{Cluster: "main", Findings: []finding{
		{Check: "nodes", Grade: well, Means: "All answer."},
		{Check: "clocks", About: "n2", Grade: unknown, Means: "Too slow.", Do: "Again."},
		{Check: "alarms", Grade: bad, Means: "Full.", Do: "Delete.", Fix: &repair{ID: "delete x at revision 7"}},
	}}
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	want := "[-] alarms: Full.\n      Delete.\n[?] clocks (n2): Too slow.\n      Again.\n[+] nodes: All answer.\n\n" +
		"cluster main: 1 bad, 0 to look at, 1 unknown, 1 ok\n`holdfast doctor --fix` would: delete x at revision 7\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	for code, findings := range [][]finding{r.Findings[:1], r.Findings[:2], r.Findings} {
		if got := (report{Findings: findings}).worst(); got != code {
			t.Errorf("exit code %d, want %d", got, code)
		}
	}
}

func TestDiskTimes(t *testing.T) {
	reg := prometheus.NewRegistry()
	if fsync, commit := diskTimes(reg); fsync != nil || commit != nil {
		t.Errorf("of nothing: %v %v", fsync, commit)
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "etcd_disk_wal_fsync_duration_seconds", Buckets: []float64{0.001, 0.002, 0.004}})
	reg.MustRegister(h)
	for range 98 {
		h.Observe(0.0005)
	}
	h.Observe(0.003)
	h.Observe(0.003)
	if fsync, _ := diskTimes(reg); fsync == nil || *fsync != (quantile{0.003, 100}) {
		t.Errorf("got %+v, want the middle of the bucket from 2 to 4 ms", fsync)
	}
	for range 100 {
		h.Observe(1)
	}
	if fsync, _ := diskTimes(reg); fsync == nil || *fsync != (quantile{0.004, 200}) {
		t.Errorf("got %+v, want the highest bound", fsync)
	}
}

func TestAskYes(t *testing.T) {
	lines := bufio.NewReader(strings.NewReader("y\nno\n Yes \n\nyes"))
	var out bytes.Buffer
	for i, want := range []bool{true, false, true, false, true, false} { // the last one is the end of the input
		if got, err := askYes(t.Context(), &out, lines, "sure?"); err != nil || got != want {
			t.Errorf("answer %d: got %t, %v, want %t", i, got, err, want)
		}
	}
	if !strings.HasPrefix(out.String(), "sure? [y/N] ") {
		t.Errorf("asked %q", out.String())
	}
}
