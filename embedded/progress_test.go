package embedded

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holdfast/embedded/plan"
)

// TestProgressOfDisk: the leader knows how far each member's disk was when the member went away, and an older copy of
// that disk shows less.
func TestProgressOfDisk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs three members")
	}
	nodes := found(t, "a", "b", "c")
	var leader, away *node
	await(t, "one of them leads", func() bool { leader = leaderOf(nodes); return leader != nil })
	for _, n := range nodes {
		if n == leader {
			continue
		}
		away = n
	}
	told := func(id uint64) plan.MemberInfo {
		m, _ := leader.State()
		return m.Members[slices.IndexFunc(m.Members, func(i plan.MemberInfo) bool { return i.ID == id })]
	}
	acked := func(id uint64) uint64 { return told(id).Matched }
	committed := func() uint64 { return leader.current().etcd.Server.CommittedIndex() }
	id, client := away.Status().ID, leader.client(t)
	put(t, client, "k", "1")
	await(t, "it has acknowledged all", func() bool { return acked(id) > 0 && acked(id) == committed() })
	older := filepath.Join(t.TempDir(), "etcd")
	if err := os.CopyFS(older, os.DirFS(away.spec.DataDir)); err != nil {
		t.Fatal(err)
	}
	atCopy := acked(id)
	put(t, client, "k", "2")
	await(t, "it has acknowledged more", func() bool { return acked(id) > atCopy && acked(id) == committed() })
	stop(t, away, 0)
	before := acked(id)
	put(t, client, "k", "3")
	m, _ := leader.State()
	seen := told(id)
	if m.Leads == 0 || m.Leads != m.Term || seen.Matched < before {
		t.Errorf("the leader in term %d says %+v in term %d; it had %d", m.Term, seen, m.Leads, before)
	}
	now, err := (Disk{}).Inspect(away.spec.DataDir)
	if err != nil || now.Log.Index < seen.Matched || now.Term != m.Leads {
		t.Errorf("the disk: got %+v, %v; the leader has seen %+v", now, err, seen)
	}
	then, err := (Disk{}).Inspect(older)
	if err != nil || then.Log.Index >= seen.Matched {
		t.Errorf("the older copy: got %+v, %v; the leader has seen %+v", then, err, seen)
	}
}
