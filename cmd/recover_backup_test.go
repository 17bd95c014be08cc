package cmd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/embedded/plan"
	"holdfast/snapshot"
)

// survivorOf is a recovery from slot c, which has applied revision 2 of generation 2, with a backup that a test makes.
func survivorOf(b *snapshot.Backup) recovery {
	record := plan.FoundingRecord(plan.Charter{Cluster: "main", Generation: 1})
	record.Generation = 2
	s := recovery{Record: &record, Chosen: plan.Survivor{Slot: "c"}, Declare: []string{"a", "b"}, Able: true, Revisions: map[string]int64{"c": 2}, Backup: b}
	s.compare()
	return s
}

func TestRecoverWeighsTheBackup(t *testing.T) {
	backup := func(generation uint64, revision int64) *snapshot.Backup {
		b := with(made("b1", time.Minute), func(b *snapshot.Backup) { b.Generation, b.Content.Revision = generation, revision })
		return &b
	}
	legacy := with(made("old", time.Minute), func(b *snapshot.Backup) { b.Legacy, b.Verified = true, time.Time{} })
	for name, tc := range map[string]struct {
		backup *snapshot.Backup
		more   string
		text   string
		raised int64
	}{
		"a higher revision":                        {backup(2, 22), moreBackup, "it holds MORE than slot c", 1020},
		"the same revision":                        {backup(2, 2), moreSurvivor, "slot c holds as much or more", 1000},
		"a lower revision":                         {backup(2, 1), moreSurvivor, "slot c holds as much or more", 1000},
		"an earlier generation, a higher revision": {backup(1, 22), moreSurvivor, "slot c holds as much or more", 1000},
		"a later generation, a lower revision":     {backup(3, 1), moreBackup, "it holds MORE than slot c", 1000},
		"etcd-manager's":                           {&legacy, "", "cannot be compared", 1000},
		"none":                                     {nil, "", "none", 1000},
	} {
		s := survivorOf(tc.backup)
		if got := s.raised(1000); s.More != tc.more || !strings.Contains(s.backup(time.Now()), tc.text) || got != tc.raised {
			t.Errorf("%s: got %q, raised by %d: %s", name, s.More, got, s.backup(time.Now()))
		}
		if err := s.poorer("c"); (err != nil) != (tc.more == moreBackup) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// What ends before the newest backup is refused, with both ways said in full, until both are named.
func TestRecoverRefusesThePoorer(t *testing.T) {
	b := with(made("b1", time.Minute), func(b *snapshot.Backup) { b.Generation, b.Content.Revision = 2, 22 })
	for _, tc := range []struct{ survivor, despite, want string }{
		{"", "", "holdfast restore b1 --lost a,b"},
		{"c", "", "holdfast recover --lost a,b --survivor c --despite-backup b1 --yes"},
		{"c", "b0", "--despite-backup: got b0, want b1"},
		{"c", "unknown", "--despite-backup: got unknown, want b1"},
		{"c", "b1", ""},
	} {
		s := survivorOf(&b)
		s.despite = tc.despite
		err := s.poorer(tc.survivor)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "nothing was changed")) {
			t.Errorf("--survivor %q --despite-backup %q: got %v, want %q", tc.survivor, tc.despite, err, tc.want)
		}
	}
	s := survivorOf(&b)
	if s.despite = "b1"; s.command("c") != "holdfast recover --lost a,b --survivor c --despite-backup b1 --yes" {
		t.Errorf("the command is %s", s.command("c"))
	}
}

// unlisted is a store that does not list.
type unlisted struct{ snapshot.Store }

func (unlisted) List(context.Context, string) ([]snapshot.Object, error) {
	return nil, errors.New("connection refused")
}

// Backups that cannot be listed are not none; and an operator can go on all the same.
func TestRecoverWithoutTheListing(t *testing.T) {
	s := survivorOf(nil)
	r := &restoration{b: &backupStore{main: unlisted{snapshot.NewDir(t.TempDir())}}}
	if r.weigh(t.Context(), &s); s.More != moreUnknown || !strings.Contains(s.backup(time.Now()), "not known: ") {
		t.Fatalf("got %q: %s", s.More, s.backup(time.Now()))
	}
	if err := s.poorer("c"); err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "--survivor c --despite-backup unknown --yes") {
		t.Errorf("got %v", err)
	}
	if s.despite = moreUnknown; s.poorer("c") != nil || s.poorer("") == nil {
		t.Errorf("named: got %v; without a survivor: %v", s.poorer("c"), s.poorer(""))
	}
	s, r.b.main = survivorOf(nil), snapshot.NewDir(t.TempDir())
	if r.weigh(t.Context(), &s); s.More != "" || s.poorer("") != nil || s.backup(time.Now()) != "none" {
		t.Errorf("an empty store: got %q, %v", s.More, s.poorer(""))
	}
}
