package cmd

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"holdfast/cmd/config"
	"holdfast/embedded/health"
	"holdfast/snapshot"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// made returns a good backup of our cluster that is so old at noon.
func made(name string, old time.Duration) snapshot.Backup {
	var b snapshot.Backup
	b.Name, b.Cluster, b.Created, b.Verified = name, "main", noon.Add(-old), noon.Add(-old)
	b.Content.Size, b.Content.Revision, b.Content.Keys = 5<<20, 4711, 99
	b.Stored = snapshot.Stored{Codec: "zstd", Size: 1 << 20}
	return b
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
	var out bytes.Buffer
	if err := writeBackups(&out, config.Config{}, merge(inBucket, main, spool, true), noon); err != nil {
		t.Fatal(err)
	}
	want := `
 NAME  AGE  SIZE     STORED   REVISION  KEYS  CODEC      VERIFIED  PINNED       CLUSTER          WHERE      PROBLEM
 1     2d   5.0 MiB  1.0 MiB      4711    99  zstd       yes       before 1.31                   s3
 2     3h   5.0 MiB  1.0 MiB      4711    99  zstd, age  yes                    foreign: events  s3
 3     60m  5.0 MiB  1.0 MiB      4711    99  zstd       yes                                     s3, spool
 4     20m  5.0 MiB  1.0 MiB      4711    99  zstd       yes                                     s3, spool  in the s3 copy: the data is missing
 5     5m   5.0 MiB  1.0 MiB      4711    99  zstd       yes                                     spool      only in the spool of this machine, not copied to the store yet
`
	if got := trimLines(out.String()); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
	out.Reset()
	if err := writeBackups(&out, config.Config{}, merge(inDirectory, []snapshot.Backup{made("3", time.Hour)}, nil, true), noon); err != nil {
		t.Fatal(err)
	}
	want = " NAME  AGE  SIZE     STORED   REVISION  KEYS  CODEC  VERIFIED  WHERE\n 3     60m  5.0 MiB  1.0 MiB      4711    99  zstd   yes       dir\n"
	if got := trimLines(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// While the main store cannot be read, nobody knows what it has.
	if got := merge(inBucket, nil, spool, false); len(got) != 3 || got[0].Problem != "" {
		t.Errorf("without the main store: got %+v", got)
	}
}

func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

func TestDeletable(t *testing.T) {
	all := merge(inDirectory, []snapshot.Backup{
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
	ordered := merge(inDirectory, []snapshot.Backup{
		with(made("next", time.Hour), func(b *snapshot.Backup) { b.Generation = 2 }),
		with(made("ahead", -24*time.Hour), func(b *snapshot.Backup) { b.Generation = 1 }),
	}, nil, true)
	bad := func(b *snapshot.Backup) { b.Failed = &snapshot.Proof{} }
	rotten := merge(inDirectory, []snapshot.Backup{with(made("older", time.Hour), bad), with(made("newer", time.Minute), bad)}, nil, true)
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

func TestNewerBackupStatus(t *testing.T) {
	early, late := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), time.Date(2029, 7, 1, 0, 0, 0, 0, time.UTC)
	nodes := []health.NodeStatus{
		{Node: "n1", Backup: &health.BackupStatus{Name: "ahead", Time: &late, Generation: 1, Revision: 900}},
		{Node: "n2", Backup: &health.BackupStatus{Name: "next", Time: &early, Generation: 2, Revision: 10}},
		{Node: "n3", Backup: &health.BackupStatus{}},
	}
	if got := backupText(nodes, late); !strings.Contains(got, "newest: next,") {
		t.Errorf("got %q, want the one of the later generation", got)
	}
}

func TestPrunedText(t *testing.T) {
	p := snapshot.Pruned{
		Expired: []snapshot.Backup{made("1", 400*24*time.Hour), made("2", 390*24*time.Hour)},
		Orphans: []snapshot.Backup{with(made("3", 50*time.Hour), func(b *snapshot.Backup) { b.Stored.Size = 10 })},
		Kept:    map[string]string{"2": "locked until 2027"},
	}
	var out bytes.Buffer
	if err := writePruned(&out, p, noon, true); err != nil {
		t.Fatal(err)
	}
	want := ` NAME  AGE   STORED   WHAT                     WHY
 1     400d  1.0 MiB  would be removed         beyond snapshot.keep
 2     390d  1.0 MiB  kept: locked until 2027  beyond snapshot.keep
 3     2d    10 B     would be removed         left by a failed save
2 backups would be removed, 1.0 MiB
`
	if got := trimLines(out.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A snapshot stream is taken only whole, however it comes in pieces.
func TestReceive(t *testing.T) {
	db := bytes.Repeat([]byte("0123456789abcdef"), 40000) // 640000 bytes, more than one buffer
	sum := sha256.Sum256(db)
	whole := append(bytes.Clone(db), sum[:]...)
	flipped := bytes.Clone(whole)
	flipped[1000] ^= 1
	for name, tt := range map[string]struct {
		stream io.Reader
		ok     bool
	}{
		"whole":           {bytes.NewReader(whole), true},
		"in halves":       {iotest.HalfReader(bytes.NewReader(whole)), true},
		"EOF with data":   {iotest.DataErrReader(bytes.NewReader(whole)), true},
		"byte by byte":    {iotest.OneByteReader(bytes.NewReader(whole)), true},
		"no trailer":      {bytes.NewReader(db), false},
		"cut":             {bytes.NewReader(whole[:len(whole)-512]), false},
		"cut in trailer":  {bytes.NewReader(whole[:len(whole)-1]), false},
		"a bit is wrong":  {bytes.NewReader(flipped), false},
		"nothing":         {bytes.NewReader(nil), false},
		"trailer alone":   {bytes.NewReader(sum[:]), false},
		"the server died": {io.MultiReader(bytes.NewReader(whole[:100000]), iotest.ErrReader(io.ErrUnexpectedEOF)), false},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "db"))
		if err != nil {
			t.Fatal(err)
		}
		size, err := receive(f, tt.stream, int64(len(db)), func(snapshot.Progress) {})
		if (err == nil) != tt.ok {
			t.Errorf("%s: got %v", name, err)
		}
		if got, _ := os.ReadFile(f.Name()); tt.ok && (size != int64(len(db)) || !bytes.Equal(got, db)) {
			t.Errorf("%s: got %d bytes, file of %d", name, size, len(got))
		}
		f.Close()
	}
}
