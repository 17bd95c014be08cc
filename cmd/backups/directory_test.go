package backups

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	agecrypt "filippo.io/age"
	"go.uber.org/zap"

	"holdfast/cmd/child"
	"holdfast/cmd/config"
	"holdfast/embedded"
	"holdfast/embedded/plan"
	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// savedBackup saves a small database as a backup of a cluster.
func savedBackup(t *testing.T, store snapshot.Store, cluster string, opt snapshot.Options) snapshot.Meta {
	t.Helper()
	db := snapshottest.NewDB(t)
	for _, key := range []string{"a", "b", "a", "c"} {
		db.Put(key, "x")
	}
	meta, err := snapshot.Save(t.Context(), store, db.Begin(), snapshot.Meta{Cluster: cluster, Lineage: "4711"}, opt)
	must(t, err)
	return meta
}

// managersBackup puts into the store what etcd-manager would have, and returns its name.
func managersBackup(t *testing.T, store snapshot.Store) string {
	t.Helper()
	db := snapshottest.NewDB(t)
	db.Put("a", "x")
	tx := db.Begin()
	defer tx.Close()
	var data bytes.Buffer
	packed, sum := gzip.NewWriter(&data), sha256.New()
	if _, err := tx.WriteTo(io.MultiWriter(packed, sum)); err != nil {
		t.Fatal(err)
	}
	if _, err := packed.Write(sum.Sum(nil)); err != nil {
		t.Fatal(err)
	}
	must(t, packed.Close())
	const name = "2026-07-01T00:15:03Z-000042"
	mark := `{"etcdVersion":"3.5.9","timestamp":"1782864903","clusterSpec":{"memberCount":3,"etcdVersion":"3.5.9"}}`
	for file, r := range map[string]io.Reader{"etcd.backup.gz": &data, "_etcd_backup.meta": strings.NewReader(mark)} {
		must(t, store.Put(t.Context(), name+"/"+file, r))
	}
	return name
}

// wantRestored starts what was restored, as the lone member x.
func wantRestored(t *testing.T, dir string, spec plan.Spec, revision int64) {
	t.Helper()
	got, err := embedded.Try(t.Context(), dir, spec, revision, zap.NewNop())
	must(t, err)
	if got.Revision != revision || got.Members != len(spec.Peers) {
		t.Errorf("got %+v, want revision %d", got, revision)
	}
}

func TestRestoreTo(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	key, err := agecrypt.GenerateX25519Identity()
	must(t, err)
	plain := savedBackup(t, store, "holdfast", snapshot.Options{})
	secret := savedBackup(t, store, "holdfast", snapshot.Options{Recipients: []agecrypt.Recipient{key.Recipient()}})
	foreign := savedBackup(t, store, "other", snapshot.Options{})
	legacy := managersBackup(t, store)
	with := snapshot.Options{Identities: []agecrypt.Identity{key}}
	for name, c := range map[string]struct {
		backup   string
		as       Directory
		opt      snapshot.Options
		revision int64  // 0: refused
		want     string // in the output, or in the error
	}{
		"plain":            {plain.Name, Directory{Bump: -1}, snapshot.Options{}, 1_000_000_005, "the revision is 1000000005"},
		"as it was":        {plain.Name, Directory{}, snapshot.Options{}, 5, "etcd --name a --data-dir"},
		"another's member": {plain.Name, Directory{MemberName: "etcd-b", InitialCluster: "etcd-b=http://10.0.0.2:2380", Token: "fresh"}, snapshot.Options{}, 5, "--listen-peer-urls http://10.0.0.2:2380"},
		"legacy":           {legacy, Directory{Bump: 7}, snapshot.Options{}, 9, "verified " + legacy},
		"encrypted":        {secret.Name, Directory{}, with, 5, "etcd --name a"},
		"by force":         {foreign.Name, Directory{Foreign: true}, snapshot.Options{}, 5, "etcd --name a"},

		"without the key":  {secret.Name, Directory{}, snapshot.Options{}, 0, "identity"},
		"foreign":          {foreign.Name, Directory{}, snapshot.Options{}, 0, "another cluster, other: set cluster.name"},
		"unknown":          {"2020-07-01T00:15:03Z-000042", Directory{}, snapshot.Options{}, 0, "holdfast snapshot list"},
		"not in it":        {plain.Name, Directory{InitialCluster: "b=http://h:1"}, snapshot.Options{}, 0, "must name the member a itself"},
		"no URL":           {plain.Name, Directory{InitialCluster: "a=h"}, snapshot.Options{}, 0, "--initial-cluster: "},
		"twice":            {plain.Name, Directory{InitialCluster: "a=http://h:1,a=http://h:2"}, snapshot.Options{}, 0, "each member once"},
		"beyond all bumps": {plain.Name, Directory{Bump: config.MaxRevisionBump + 1}, snapshot.Options{}, 0, "--revision-bump: must be 0–"},
	} {
		t.Run(name, func(t *testing.T) {
			volume := t.TempDir()
			dir := filepath.Join(volume, "etcd")
			var out bytes.Buffer
			cfg := config.Default()
			c.as.Path = dir
			err := c.as.make(t.Context(), &out, cfg, store, c.backup, c.opt)
			if c.revision == 0 {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want an error with %q", err, c.want)
				}
				wantNothing(t, volume)
				return
			}
			must(t, err)
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("output: got\n%swant %q", out.String(), c.want)
			}
			spec, err := c.as.spec(cfg, c.backup)
			must(t, err)
			wantRestored(t, dir, spec, c.revision)
		})
	}
}

func wantNothing(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%s: got %v, %v, want nothing in it", dir, entries, err)
	}
}

// The directory is whole or absent, and what is there is never lost.
func TestRestoreToPlace(t *testing.T) {
	root := t.TempDir()
	store := snapshot.NewDir(root)
	name := savedBackup(t, store, "holdfast", snapshot.Options{}).Name
	restore := func(ctx context.Context, dir string) error {
		return Directory{Path: dir}.make(ctx, io.Discard, config.Default(), store, name, snapshot.Options{})
	}
	volume := t.TempDir()
	empty, full, file := filepath.Join(volume, "empty"), filepath.Join(volume, "full"), filepath.Join(volume, "file")
	for _, err := range []error{os.Mkdir(empty, 0o700), os.MkdirAll(filepath.Join(full, "member"), 0o700), os.WriteFile(file, []byte("x"), 0o600)} {
		must(t, err)
	}
	if err := restore(t.Context(), empty); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{empty, full, file} {
		if err := restore(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "must not exist, or be an empty directory") {
			t.Errorf("%s: got %v", dir, err)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	taken := filepath.Join(volume, "taken")
	must(t, os.Mkdir(taken+".partial", 0o700))
	if err := restore(t.Context(), taken); err == nil || !strings.Contains(err.Error(), "taken.partial is in the way") {
		t.Errorf("taken: got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := restore(ctx, filepath.Join(volume, "never")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}

	// A backup that is damaged is found out before there is a directory.
	object := filepath.Join(root, name, "etcd.backup.zst")
	data, err := os.ReadFile(object)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(object, data, 0o600))
	if err := restore(t.Context(), filepath.Join(volume, "never")); err == nil || !strings.Contains(err.Error(), "want sha256") {
		t.Errorf("damaged: got %v", err)
	}
	entries, err := os.ReadDir(volume)
	if err != nil || len(entries) != 4 {
		t.Errorf("left: got %v, %v, want what was there and nothing of the failed ones", entries, err)
	}
}

// A drill of a good backup is green, one of a damaged one is not, and one of none was no drill.
func TestRunDrill(t *testing.T) {
	root, scratch := t.TempDir(), t.TempDir()
	store := snapshot.NewDir(root)
	meta := savedBackup(t, store, "holdfast", snapshot.Options{})
	opt := snapshot.Options{Scratch: scratch}
	d, err := child.Drill(t.Context(), store, meta.Name, opt)
	if err != nil || d.Error != "" || !d.Compared || d.Unrecorded || d.Revision != 5 || d.HashKV != meta.Content.HashKV || d.Took <= 0 || d.Time.IsZero() {
		t.Errorf("good: got %+v, %v", d, err)
	}
	legacy := managersBackup(t, store)
	if d, err := child.Drill(t.Context(), store, legacy, opt); err != nil || d.Error != "" || d.Revision != 2 || d.Compared ||
		!d.Unrecorded || len(d.Checked) != 4 {
		t.Errorf("legacy: got %+v, %v", d, err)
	}
	object := filepath.Join(root, meta.Name, "etcd.backup.zst")
	must(t, os.Truncate(object, meta.Stored.Size-1))
	if d, err := child.Drill(t.Context(), store, meta.Name, opt); err != nil || !strings.Contains(d.Error, "stored size") {
		t.Errorf("cut short: got %+v, %v", d, err)
	}
	if d, err := child.Drill(t.Context(), store, "2020-07-01T00:15:03Z-000042", opt); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("unknown: got %+v, %v", d, err)
	}
	wantNothing(t, scratch)
}
