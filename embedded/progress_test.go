package embedded

import (
	"os"
	"path/filepath"
	"testing"
)

// TestProgressOfDisk: the leader knows how far each member's disk had come when it went away, and an older copy of that
// disk shows less.
func TestProgressOfDisk(t *testing.T) {
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
	acked := func(id uint64) uint64 { all, _ := leader.Progress(); return all[id].Matched }
	id, client := away.Status().MemberID, leader.client(t)
	put(t, client, "k", "1")
	await(t, "it has acknowledged all", func() bool { return acked(id) > 0 && acked(id) == leader.Status().Committed })
	older := filepath.Join(t.TempDir(), "etcd")
	if err := os.CopyFS(older, os.DirFS(away.spec.DataDir)); err != nil {
		t.Fatal(err)
	}
	atCopy := acked(id)
	put(t, client, "k", "2")
	await(t, "it has acknowledged more", func() bool { return acked(id) > atCopy && acked(id) == leader.Status().Committed })
	stop(t, away, 0)
	before := acked(id)
	put(t, client, "k", "3")
	all, term := leader.Progress()
	if term != leader.Status().Term || all[id].Matched < before {
		t.Errorf("the leader in term %d says %+v in term %d; it had %d of %x", leader.Status().Term, all, term, before, id)
	}
	now, err := (Disk{}).Inspect(away.spec.DataDir)
	if err != nil || now.Log.Index < all[id].Matched || now.Term != term {
		t.Errorf("the disk: got %+v, %v; the leader has seen %+v", now, err, all)
	}
	then, err := (Disk{}).Inspect(older)
	if err != nil || then.Log.Index >= all[id].Matched {
		t.Errorf("the older copy: got %+v, %v; the leader has seen %+v", then, err, all)
	}
}
