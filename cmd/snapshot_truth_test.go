package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What could not be checked is not called bad: people delete what is bad.
func TestVerifyTellsBadFromUnknown(t *testing.T) {
	a := newAtStore(t)
	good, bad := a.save("ours"), a.save("ours")
	open := filepath.Join(t.TempDir(), "key")
	write(t, open, []byte("AGE-SECRET-KEY-1"))
	must(t, os.Chmod(open, 0o644))
	if out, err := a.run("verify", "--snapshot.identity-file", open); err == nil || !strings.Contains(err.Error(), "chmod 600") || out != "" {
		t.Errorf("with a key file that everyone may read: got %q, %v, want that error alone", out, err)
	}
	out, err := a.run("verify", good, "nope")
	if err == nil || !strings.Contains(err.Error(), "1 of 2 backups in "+a.dir+" could not be checked") || strings.Contains(err.Error(), "bad") ||
		!strings.Contains(out, "nope  NOT CHECKED: there is no backup nope (`holdfast snapshot list`") {
		t.Errorf("a name that is not there: got %q, %v", out, err)
	}
	a.fails([]string{"drill", "nope"}, "there is no backup nope (`holdfast snapshot list`")
	a.fails([]string{"copy", "nope", "--to", t.TempDir()}, "there is no backup nope (`holdfast snapshot list`")
	must(t, os.Remove(filepath.Join(a.dir, bad, "etcd.backup.zst")))
	out, err = a.run("verify")
	if err == nil || !strings.Contains(err.Error(), "1 of 2 backups in "+a.dir+" are bad") || !strings.Contains(out, bad+"  BAD: ") {
		t.Errorf("without its data: got %q, %v", out, err)
	}
}

// A backup that may be under way is deleted by force only, and one without a time in its name has no age.
func TestUnfinishedBackup(t *testing.T) {
	a := newAtStore(t)
	name := time.Now().UTC().Format("2006-01-02T15:04:05Z") + "-000000"
	write(t, filepath.Join(a.dir, name, "holdfast.begin.json"), []byte(`{"version":1,"cluster":"main","lineage":"ours","since":"2026-07-01T00:00:00Z"}`))
	a.fails([]string{"delete", name}, "may be being saved")
	a.says([]string{"delete", "--force", name}, "deleted "+name)
	write(t, filepath.Join(a.dir, "by-hand", "etcd.backup.gz"), []byte("x"))
	if out, err := a.run("list"); err != nil || strings.Contains(out, "106751d") {
		t.Errorf("list: got %q, %v, want no age", out, err)
	}
}

// A typing mistake is no success.
func TestUnknownSubcommand(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "prone" for "holdfast snapshot": did you mean prune?`:                                 {"snapshot", "prone"},
		`unknown command "x" for "holdfast volume": ` + "`holdfast volume --help` shows what there is":         {"volume", "x"},
		`unknown command "statuss" for "holdfast": did you mean status?`:                                       {"statuss", "--config", "x"},
		`unknown command "chek" for "holdfast config": did you mean check?`:                                    {"config", "chek"},
		`unknown command "restore" for "holdfast etcdutl": ` + "`holdfast etcdutl --help` shows what there is": {"etcdutl", "restore"},
	} {
		c := newRoot()
		c.SetArgs(args)
		if err := c.ExecuteContext(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", args, err, want)
		}
	}
}

// Anyone who names no etcd, or one that does not answer, is told what is wrong.
func TestEndpoints(t *testing.T) {
	a := newAtStore(t)
	for _, endpoint := range []string{",", "10.0.0.1:2379", "localhost:2379", "foo bar", "ftp://10.0.0.1:2379"} {
		got := strings.Trim(endpoint, ",")
		a.fails([]string{"save", "--endpoints", endpoint},
			`--endpoints: must be URLs such as https://10.0.0.1:2379, got "`+got+`"`)
	}
}
