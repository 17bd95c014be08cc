package embedded

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// These tests verify what meanings says of etcd 3.7: what happens to a cluster whose databases list other members than
// raft has. Each makes a cluster, stops it, writes into the databases what an older etcd has left there, checks what
// ReadMemberships finds, and starts the cluster again.

// trio returns a cluster of three that was stopped, and the IDs of its members.
func trio(t *testing.T) (nodes []*node, ids []uint64) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts clusters")
	}
	nodes = found(t, "a", "b", "c")
	put(t, nodes[0].client(t), "k", "v")
	for _, n := range nodes {
		ids = append(ids, n.Status().ID)
	}
	for _, n := range nodes {
		n.Kill() // without a hand-over, and without waiting
		awaitClosed(t, n.spec.Slot+" has ended", n.Done())
	}
	return nodes, ids
}

// list writes members into the database's list.
func list(t *testing.T, n *node, members ...*membership.Member) {
	t.Helper()
	edit(t, DatabasePath(n.spec.DataDir), func(tx *bolt.Tx) error {
		for _, m := range members {
			text, err := json.Marshal(m)
			if err == nil {
				err = tx.Bucket(schema.Members.Name()).Put(schema.BackendMemberKey(m.ID), text)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// unlist removes a member from the database's list without a trace.
func unlist(t *testing.T, n *node, id uint64) {
	t.Helper()
	edit(t, DatabasePath(n.spec.DataDir), func(tx *bolt.Tx) error {
		return tx.Bucket(schema.Members.Name()).Delete(schema.BackendMemberKey(types.ID(id)))
	})
}

// asLearner is a member as the database would list it if it had missed the promotion.
func asLearner(n *node, id uint64) *membership.Member {
	return &membership.Member{ID: types.ID(id), RaftAttributes: membership.RaftAttributes{PeerURLs: []string{n.spec.PeerURL}, IsLearner: true},
		Attributes: membership.Attributes{Name: n.spec.Slot}}
}

// finds fails unless ReadMemberships finds differences of this kind, for these members.
func finds(t *testing.T, n *node, kind Discrepancy, ids ...uint64) {
	t.Helper()
	m, err := ReadMemberships(n.spec.DataDir)
	check(t, err)
	var got []uint64
	for _, d := range m.Differences {
		if d.Kind == kind {
			got = append(got, d.ID)
		}
	}
	slices.Sort(ids)
	if !slices.Equal(got, ids) || len(m.Differences) != len(ids) {
		t.Fatalf("%s: got %+v, want %s of %x", n.spec.Slot, m.Differences, kind, ids)
	}
}

// cutLog appends a record to the log, as RepairWAL does, so that nothing is replayed that the database already has.
func cutLog(t *testing.T, dir string, votes []uint64) {
	t.Helper()
	before, err := (Disk{}).Inspect(dir)
	check(t, err)
	applied, term, err := appliedEntry(DatabasePath(dir))
	check(t, err)
	w, err := wal.Open(zap.NewNop(), datadir.ToWALDir(dir), message(&walpb.Snapshot{}))
	check(t, err)
	_, state, _, err := w.ReadAll()
	check(t, err)
	state.Commit = field(max(value(state.Commit), applied))
	check(t, w.Save(state, nil))
	check(t, w.SaveSnapshot(message(&walpb.Snapshot{Index: field(applied), Term: field(term), ConfState: &raftpb.ConfState{Voters: votes}})))
	check(t, w.Close())
	if applied > before.Log.Index {
		t.Fatalf("the log ends at %d, and the database is at %d", before.Log.Index, applied)
	}
}

// removeInLog does what etcd 3.5 does with --force-new-cluster if the database is ahead of HardState.Commit. The
// removals are in the log and in raft's configuration, and never reach the database's list.
func removeInLog(t *testing.T, n *node, self uint64, others ...uint64) {
	t.Helper()
	dir := n.spec.DataDir
	before, err := (Disk{}).Inspect(dir)
	check(t, err)
	w, err := wal.Open(zap.NewNop(), datadir.ToWALDir(dir), message(&walpb.Snapshot{}))
	check(t, err)
	_, state, _, err := w.ReadAll()
	check(t, err)
	var entries []logEntry
	for i, id := range others {
		data, err := marshal(remove(id))
		check(t, err)
		entries = append(entries, message(&raftpb.Entry{Type: field(raftpb.EntryConfChange), Term: field(before.Log.Term),
			Index: field(before.Log.Index + 1 + uint64(i)), Data: data}))
	}
	last := value(entries[len(entries)-1].Index)
	state.Commit = field(last)
	check(t, w.Save(state, entries))
	check(t, w.Close())
	edit(t, DatabasePath(dir), func(tx *bolt.Tx) error {
		text, err := json.Marshal(&raftpb.ConfState{Voters: []uint64{self}})
		check(t, err)
		meta := tx.Bucket(schema.Meta.Name())
		check(t, meta.Put(schema.MetaConfStateName, text))
		return meta.Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, last))
	})
}

// watched makes a node's log observable.
func watched(n *node) *observer.ObservedLogs {
	core, logs := observer.New(zap.InfoLevel)
	n.lg, n.cfg.LogLevel, n.Member = zap.New(core), "info", nil
	return logs
}

// awaitElections waits until a member has asked for votes a second time: the first time it got too few.
func awaitElections(t *testing.T, n *node, logs *observer.ObservedLogs) {
	t.Helper()
	await(t, n.spec.Slot+" has stood for election in vain", func() bool {
		asked := 0
		for _, e := range logs.All() {
			if strings.Contains(e.Message, "is starting a new election") {
				asked++
			}
		}
		return asked >= 2
	})
	if n.Status().Ready || n.Status().HasLead {
		t.Errorf("%s has a leader: %+v", n.spec.Slot, n.Status())
	}
}

// loseFollower kills a follower, and waits until the leader no longer leads. The leader of a whole cluster of three
// would continue to lead.
func loseFollower(t *testing.T, nodes []*node) {
	t.Helper()
	var leader *node
	await(t, "one leads", func() bool { leader = leaderOf(nodes); return leader != nil })
	for _, n := range nodes {
		if n != leader {
			n.Kill()
			break
		}
	}
	await(t, leader.spec.Slot+" leads no more", func() bool { return !leader.Status().HasLead })
}

// Data that our own etcd leaves has no differences.
func TestNoPhantoms(t *testing.T) {
	t.Parallel()
	nodes, _ := trio(t)
	for _, n := range nodes {
		finds(t, n, noDifference)
	}
}

// Two members that left long ago vote again. Of five, three are a majority, so losing one of the three live members
// ends the cluster.
func TestPhantoms(t *testing.T) {
	t.Parallel()
	nodes, _ := trio(t)
	gone := func(id uint64, url string) *membership.Member {
		return &membership.Member{ID: types.ID(id), RaftAttributes: membership.RaftAttributes{PeerURLs: []string{url}}}
	}
	for _, n := range nodes {
		list(t, n, gone(101, "http://127.0.0.1:1"), gone(103, "http://127.0.0.1:2"))
		finds(t, n, onlyV3, 101, 103)
	}
	for _, n := range nodes {
		n.run(t)
	}
	for _, n := range nodes {
		n.awaitReady(t)
	}
	if got := len(nodes[0].Members()); got != 5 {
		t.Errorf("%d members, want the phantoms as well", got)
	}
	loseFollower(t, nodes)
}

// The phantoms of --force-new-cluster outvote the member that it was to set free.
func TestPhantomsOfForceNewCluster(t *testing.T) {
	t.Parallel()
	nodes, ids := trio(t)
	n := nodes[0]
	removeInLog(t, n, ids[0], ids[1], ids[2])
	finds(t, n, onlyV3, ids[1], ids[2])
	logs := watched(n)
	awaitElections(t, n.run(t), logs)
}

// A member that the database lost no longer counts: two members are a cluster of two, and the third has no leader.
func TestLostMember(t *testing.T) {
	t.Parallel()
	nodes, ids := trio(t)
	for _, n := range nodes {
		unlist(t, n, ids[2])
		finds(t, n, onlyV2, ids[2])
		cutLog(t, n.spec.DataDir, ids) // see TestLostMemberPanics
	}
	for _, n := range nodes {
		n.run(t)
	}
	for _, n := range nodes[:2] {
		n.awaitReady(t)
	}
	if s := nodes[2].Status(); s.HasLead || nodes[2].Status().Ready {
		t.Errorf("the lost member has a leader: %+v", s)
	}
	if got := len(nodes[0].Members()); got != 2 {
		t.Errorf("%d members, want 2", got)
	}
	loseFollower(t, nodes[:2]) // two of the three that raft had still run
}

// If the log still has the name of the lost member, etcd ends at each start.
func TestLostMemberPanics(t *testing.T) {
	const child = "EMBEDDED_TEST_LOST_MEMBER"
	if dir := os.Getenv(child); dir != "" {
		n := newNode(t, "a")
		n.spec.DataDir = dir
		n.lg = zap.Must(zap.NewProduction())
		n.run(t).awaitReady(t)
		return
	}
	nodes, ids := trio(t)
	unlist(t, nodes[0], ids[2])
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLostMemberPanics$")
	cmd.Env = append(os.Environ(), child+"="+nodes[0].spec.DataDir, "TMPDIR="+t.TempDir()) // a panic cleans nothing up
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "failed to update; member unknown") {
		t.Errorf("etcd started: %v\n%s", err, out)
	}
}

// A promoted member is a learner again, so losing one of the two voters ends the cluster.
func TestForgottenPromotion(t *testing.T) {
	t.Parallel()
	nodes, ids := trio(t)
	for _, n := range nodes {
		list(t, n, asLearner(nodes[2], ids[2]))
		finds(t, n, learnerInV3, ids[2])
	}
	for _, n := range nodes {
		n.run(t)
	}
	for _, n := range nodes {
		n.awaitReady(t)
	}
	if !nodes[2].Status().Learner {
		t.Error("c still votes")
	}
	loseFollower(t, nodes[:2])
}

// The databases of a cluster may also differ from each other (etcd-io/etcd#20793). Here one member alone considers
// itself a majority and acknowledges a write. The other two, which are a majority, never hear of it. So each member's
// directory must be examined.
func TestForgottenPromotionLosesWrites(t *testing.T) {
	t.Parallel()
	nodes, ids := trio(t)
	a, others := nodes[0], nodes[1:]
	list(t, a, asLearner(nodes[1], ids[1]), asLearner(nodes[2], ids[2]))
	finds(t, a, learnerInV3, ids[1:]...)
	for _, n := range others {
		finds(t, n, noDifference)
	}
	put(t, a.run(t).awaitReady(t).client(t), "acknowledged", "by a")
	a.Kill()
	for _, n := range others {
		n.run(t)
	}
	for _, n := range others {
		n.awaitReady(t)
	}
	got, err := others[0].client(t).Get(t.Context(), "acknowledged")
	check(t, err)
	if got.Count != 0 {
		t.Errorf("the write is there: %v", got.Kvs)
	}
}
