package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/cmd/node"
	"holdfast/snapshot"
)

// rot changes a byte of a backup's data and returns a function that changes it back.
func (a *atStore) rot(name string) (mend func()) {
	a.t.Helper()
	path := filepath.Join(a.dir, name, "etcd.backup.zst")
	data, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	flip := func() {
		data[len(data)/2] ^= 1
		write(a.t, path, data)
	}
	flip()
	return flip
}

// A backup that was found to be bad is no longer latest, for anybody, until it is found to be good.
func TestBadBackupIsNotLatest(t *testing.T) {
	a := newAtStore(t)
	first, second := a.save("ours"), a.save("ours")
	a.says([]string{"verify", "latest"}, second+"  good")
	a.says([]string{"list"}, "PROVEN", "verify ", " ago")
	mend := a.rot(second)
	a.fails([]string{"verify"}, "1 of 2 backups in "+a.dir+" are bad: restore from another (the newest good one is "+first+")")

	a.says([]string{"list"}, "FAILED", "FAILED its verify ", " ago by "+operator()+": ",
		"latest is not "+second, "the newest good backup is "+first)
	for _, args := range [][]string{{"verify", "latest"}, {"pin", "latest"}} {
		out, said, err := a.runBoth(args...)
		if err != nil || !strings.Contains(out, first) || !strings.Contains(said, "latest is not "+second+": it FAILED its verify") ||
			!strings.Contains(said, "the newest good backup is "+first) {
			t.Errorf("%q: got %q, %q, %v, want %s and why", args, out, said, err, first)
		}
	}
	a.fails([]string{"verify", second}, "are bad") // it may be tried

	mend()
	a.says([]string{"verify", second}, "good")
	a.says([]string{"verify", "latest"}, second+"  good")

	// With all of them bad there is none.
	a.rot(first)
	a.rot(second)
	a.fails([]string{"verify"}, "there is no other good one in this store")
	a.fails([]string{"verify", "latest"}, "2 failed a verify or a drill")
	a.says([]string{"list"}, "NO good backup is left")
}

// Where the result cannot be recorded, what was found is told all the same.
func TestVerifyUnrecorded(t *testing.T) {
	a := newAtStore(t)
	name := a.save("ours")
	a.rot(name)
	write(t, filepath.Join(a.dir, name, "holdfast.verify.json", "in the way"), nil)
	_, said, err := a.runBoth("verify", name)
	if err == nil || !strings.Contains(said, "the result is known here only") {
		t.Errorf("got %q, %v", said, err)
	}
}

// A good verify does not clear what a drill has found, and a proof that cannot be read is shown.
func TestProofsAreWeighed(t *testing.T) {
	a := newAtStore(t)
	first, second := a.save("ours"), a.save("ours")
	must(t, snapshot.Record(t.Context(), snapshot.NewDir(a.dir), second,
		snapshot.Proof{Kind: snapshot.ProofDrill, By: "n2", Error: "HashKV: want 1, got 2"}))
	a.says([]string{"verify", second}, "good")
	a.says([]string{"list"}, "FAILED its drill ", " ago by n2: HashKV: want 1, got 2")
	a.says([]string{"verify", "latest"}, first)
	write(t, filepath.Join(a.dir, second, "holdfast.drill.json"), []byte(`{"version":2}`))
	a.says([]string{"list"}, "the result of its last drill is not known: a newer holdfast wrote it: version 2")
	a.says([]string{"verify", "latest"}, second+"  good")
}

// A restore of the newest that turns out to be bad names the one to restore instead, which the next `latest` is.
func TestRestoreNamesAnother(t *testing.T) {
	a := newAtStore(t)
	first, second := a.save("ours"), a.save("ours")
	a.rot(second)
	b := node.Archive{Store: snapshot.NewDir(a.dir), Cluster: "main", Options: snapshot.Options{By: "n1"}}
	_, err := b.Check(t.Context(), "", "ours", nil)
	if err == nil || !strings.Contains(err.Error(), "the newest good one is "+first) {
		t.Errorf("got %v, want that it names %s", err, first)
	}
	var told []string
	b.Skipped = func(lines []string) { told = append(told, lines...) }
	got, err := b.Check(t.Context(), "", "ours", nil)
	if err != nil || got.Name != first || len(told) != 2 || !strings.Contains(told[0], second) {
		t.Errorf("again: got %+v, %v, %q, want %s", got, err, told, first)
	}
	// Who recovers unasked must not end before what the bad one tells was there.
	if stand, err := b.Newest(t.Context(), "ours"); err != nil || stand.Name == first {
		t.Errorf("for a recovery: got %+v, %v", stand, err)
	}
}
