package backups

import (
	"strings"
	"testing"
	"time"

	"holdfast/cmd/show"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// made returns a good backup of our cluster that is so old at noon.
func made(name string, old time.Duration) snapshot.Backup {
	return snapshottest.Backup(name, noon.Add(-old))
}

// with returns b after change.
func with(b snapshot.Backup, change func(*snapshot.Backup)) snapshot.Backup {
	change(&b)
	return b
}

func TestListOfTwoPlaces(t *testing.T) {
	damaged := with(made("4", 20*time.Minute), func(b *snapshot.Backup) { b.Problem = "the data is missing" })
	main := []snapshot.Backup{
		with(made("1", 50*time.Hour), func(b *snapshot.Backup) { b.Pinned, b.PinReason = true, "before 1.31" }),
		with(made("2", 3*time.Hour), func(b *snapshot.Backup) { b.Foreign, b.Cluster, b.Stored.Encrypted = true, "events", true }),
		made("3", time.Hour), damaged,
	}
	spool := []snapshot.Backup{made("3", time.Hour), made("4", 20*time.Minute), made("5", 5*time.Minute)}
	want := `
 NAME  AGE  SIZE     STORED   REVISION  KEYS  CODEC      VERIFIED  PINNED       CLUSTER          WHERE      PROBLEM
 1     2d   5.0 MiB  1.0 MiB      4711    99  zstd       yes       before 1.31                   s3
 2     3h   5.0 MiB  1.0 MiB      4711    99  zstd, age  yes                    foreign: events  s3
 3     60m  5.0 MiB  1.0 MiB      4711    99  zstd       yes                                     s3, spool
 4     20m  5.0 MiB  1.0 MiB      4711    99  zstd       yes                                     s3, spool  in the s3 copy: the data is missing
 5     5m   5.0 MiB  1.0 MiB      4711    99  zstd       yes                                     spool      only in the spool of this machine, not copied to the store yet
`
	if got := show.Listing("", "", merge(show.InBucket, main, spool, true), noon); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
	want = " NAME  AGE  SIZE     STORED   REVISION  KEYS  CODEC  VERIFIED  WHERE\n 3     60m  5.0 MiB  1.0 MiB      4711    99  zstd   yes       dir\n"
	if got := show.Listing("", "", merge(show.InDirectory, []snapshot.Backup{made("3", time.Hour)}, nil, true),
		noon); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// While the main store cannot be read, nobody knows what it has.
	if got := merge(show.InBucket, nil, spool, false); len(got) != 3 || got[0].Problem != "" {
		t.Errorf("without the main store: got %+v", got)
	}
}

func TestDeletable(t *testing.T) {
	all := merge(show.InDirectory, []snapshot.Backup{
		made("old", 3*time.Hour),
		with(made("pinned", 2*time.Hour), func(b *snapshot.Backup) { b.Pinned = true }),
		with(made("foreign", time.Hour), func(b *snapshot.Backup) { b.Foreign = true }),
		made("newest", time.Minute),
		with(made("broken", 0), func(b *snapshot.Backup) { b.Problem = "incomplete" }),
	}, nil, true)
	for name, want := range map[string]string{
		"old": "", "broken": "", "pinned": "unpin it first", "foreign": "another cluster's", "newest": "the newest verified", "none": "there is no backup none",
	} {
		err := deletable(all, []string{"old", name}, false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if err := deletable(all, []string{name}, true); (err != nil) != (name == "none") {
			t.Errorf("%s by force: got %v", name, err)
		}
	}
	// A clock that was ahead made an older one.
	ordered := merge(show.InDirectory, []snapshot.Backup{
		with(made("next", time.Hour), func(b *snapshot.Backup) { b.Generation = 2 }),
		with(made("ahead", -24*time.Hour), func(b *snapshot.Backup) { b.Generation = 1 }),
	}, nil, true)
	bad := func(b *snapshot.Backup) { b.Failed = &snapshot.Proof{} }
	rotten := merge(show.InDirectory, []snapshot.Backup{with(made("older", time.Hour), bad), with(made("newer", time.Minute), bad)}, nil, true)
	if err := deletable(rotten, []string{"older"}, false); err != nil {
		t.Errorf("the older of two bad ones: got %v", err)
	}
	if err := deletable(rotten, []string{"newer"}, false); err == nil || !strings.Contains(err.Error(), "none is good") {
		t.Errorf("the newest of bad ones: got %v", err)
	}
	if err := deletable(ordered, []string{"ahead"}, false); err != nil {
		t.Errorf("an older one with a later time: got %v", err)
	}
	if err := deletable(ordered, []string{"next"}, false); err == nil {
		t.Error("the newest one with an earlier time could be deleted")
	}
}
