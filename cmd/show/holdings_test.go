package show

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"holdfast/embedded/health"
	"holdfast/snapshot"
)

// What an operator must know of backups is found, by the account of the keeper.
var moment = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestBackupFindings(t *testing.T) {
	for _, tt := range []struct {
		status snapshot.Status
		want   []health.Code
	}{
		{snapshot.Status{}, nil},
		{snapshot.Status{Leading: true, Due: moment, Holdings: snapshot.Holdings{
			Newest: snapshot.Meta{Name: "x", Cluster: "main", Created: moment, Verified: moment}}}, nil},
		{snapshot.Status{Leading: true, Overdue: true, Due: moment}, []health.Code{health.BackupOverdue}},
		{snapshot.Status{Leading: true, Failures: 2, LastError: "EIO", Spooled: []string{"x"}}, []health.Code{health.BackupSpooled, health.BackupFails}},
		{snapshot.Status{Leading: true, Due: moment, Drill: snapshot.DrillStatus{Off: "no identity"}}, nil},
		{snapshot.Status{Leading: true, Due: moment, Drill: snapshot.DrillStatus{Error: "no room"}, Prune: snapshot.PruneStatus{Last: moment, Error: "EIO"}},
			[]health.Code{health.PruneFails, health.DrillUntried}},
		{snapshot.Status{Leading: true, Due: moment, Drill: snapshot.DrillStatus{Last: snapshot.Drill{Name: "x", Error: "bad"}}}, []health.Code{health.DrillFails}},
	} {
		n := health.NodeStatus{Node: "n1", Reached: true, Backup: BackupStatus(tt.status)}
		var got []health.Code
		for _, f := range n.Judge(moment) {
			got = append(got, f.Code)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %q, want %q", tt.status, got, tt.want)
		}
	}
}

// What a listing of the store comes to.
func TestHoldings(t *testing.T) {
	now := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	good := snapshot.Backup{Meta: snapshot.Meta{Name: "b1", Created: now, Verified: now}}
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		all  []snapshot.Backup
		want health.Holdings
	}{
		"one":        {[]snapshot.Backup{good}, health.Holdings{Good: 1}},
		"none":       {nil, health.Holdings{}},
		"foreign":    {[]snapshot.Backup{good, {Foreign: true}}, health.Holdings{Good: 1, Foreign: 1}},
		"unverified": {[]snapshot.Backup{good, {Meta: snapshot.Meta{Name: "b2"}}}, health.Holdings{Good: 1, Broken: health.Sample{Count: 1, Example: "b2: not verified"}}},
		"left behind": {[]snapshot.Backup{good, {Unfinished: true, Problem: "begun only", Meta: snapshot.Meta{Created: now.Add(-2 * day)}}},
			health.Holdings{Good: 1, Left: 1}},
		"being saved": {[]snapshot.Backup{good, {Unfinished: true, Problem: "begun only", Meta: snapshot.Meta{Created: now}}}, health.Holdings{Good: 1}},
		"unknown proof": {[]snapshot.Backup{{Meta: good.Meta, Proofs: []snapshot.Proof{{Kind: "verify", Unknown: "a newer holdfast wrote it"}}}},
			health.Holdings{Good: 1, Unproven: health.Sample{Count: 1, Example: "b1: a newer holdfast wrote it"}}},
	} {
		if got := Holdings(tc.all, nil, now); !reflect.DeepEqual(*got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", name, *got, tc.want)
		}
	}
	bad := good
	bad.Failed = &snapshot.Proof{Kind: "drill", By: "n2", Error: "HashKV: want 1, got 2"}
	if got := Holdings([]snapshot.Backup{bad}, nil, now); got.Good != 0 || got.Broken.Count != 1 || len(got.Skipped) == 0 {
		t.Errorf("bad by a drill: got %+v", got)
	}
	if got := Holdings(nil, errors.New("access denied"), now); got.Err != "access denied" {
		t.Errorf("unread: got %+v", got)
	}
}
