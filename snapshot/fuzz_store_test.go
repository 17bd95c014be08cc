package snapshot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
)

// FuzzBegin checks that what is accepted can be written again, and contains no path.
func FuzzBegin(f *testing.F) {
	good, err := snapshot.EncodeBegin(snapshot.Begin{Cluster: "prod", Lineage: "l-1", Node: "n1", Since: midday, SHA256: strings.Repeat("0", 64)})
	must(f, err)
	f.Add(good)
	f.Add([]byte(`{"version":1,"node":"n1","since":"2026-07-01T12:00:00Z"}`))
	f.Add([]byte(`{"version":1,"cluster":"../prod"}`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := snapshot.DecodeBegin(text)
		if err != nil {
			return
		}
		if strings.ContainsAny(b.Cluster+b.Lineage, "/ \n") {
			t.Errorf("accepted %q", text)
		}
		again, err := snapshot.EncodeBegin(b)
		must(t, err)
		if got, err := snapshot.DecodeBegin(again); err != nil || !got.Since.Equal(b.Since) || got.Cluster != b.Cluster || got.Lineage != b.Lineage {
			t.Errorf("want %+v again, got %+v, %v", b, got, err)
		}
	})
}

// FuzzManagerMeta checks that the result can be listed as JSON and written again.
func FuzzManagerMeta(f *testing.F) {
	for _, s := range []string{
		`{"etcdVersion":"3.6.11","timestamp":"1782864903","clusterSpec":{"memberCount":3,"etcdVersion":"3.6.11"}}`,
		`{"etcd_version":"3.6.11","timestamp":1782864903,"cluster_spec":{"member_count":3}}`, `{"timestamp":"-1"}`, `{"timestamp":1e9}`, `{"timestamp":"`, `null`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := snapshot.DecodeManagerMeta(text)
		if err != nil {
			return
		}
		if _, err := json.Marshal(m); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if m.EtcdVersion == "" || m.Created.IsZero() {
			return
		}
		again, err := snapshot.EncodeManagerMeta(m)
		must(t, err)
		if got, err := snapshot.DecodeManagerMeta(again); err != nil || !got.Created.Equal(m.Created) || got.Members != max(m.Members, 0) {
			t.Errorf("want %+v again, got %+v, %v", m, got, err)
		}
	})
}

// FuzzCommand checks that every command in the store is listed, and that a backup to be restored has a valid name.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{
		`{"timestamp":"1557253681000000000","restoreBackup":{"clusterSpec":{"memberCount":3,"etcdVersion":"3.5.9"},"backup":"2019-05-07T18:28:01Z-000977"}}`,
		`{"timestamp":1,"restore_backup":{"backup":".."}}`, `{"timestamp":"-9223372036854775808","restoreBackup":null}`, `{"restoreBackup":{"backup":7}}`, `[]`, ``,
	} {
		f.Add("2019-05-07T18:31:00Z-000000", []byte(s))
	}
	root := f.TempDir()
	store := snapshot.NewDir(root)
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		if snapshot.CheckBackupName(name) != nil {
			return
		}
		dir := filepath.Join(root, "control", name)
		must(t, os.MkdirAll(dir, 0o700))
		defer os.RemoveAll(dir)
		must(t, os.WriteFile(filepath.Join(dir, "_command.json"), text, 0o600))
		got, err := snapshot.Commands(t.Context(), store)
		if err != nil || len(got) != 1 || got[0].Name != name {
			t.Fatalf("%q: want one command, got %+v, %v", text, got, err)
		}
		if c := got[0]; c.Problem != "" && c.Backup != "" || c.Backup != "" && snapshot.CheckBackupName(c.Backup) != nil {
			t.Errorf("%q: got %+v", text, c)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// FuzzBackupName checks that a name is one part of a path, and reaches nothing outside its directory.
func FuzzBackupName(f *testing.F) {
	for _, s := range []string{"2026-07-01T00:15:03Z-000042", "", ".", "..", "control", "a/../control", "holdfast-store-id", "a\x00", "A:b_c.d-e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if snapshot.CheckBackupName(name) != nil {
			return
		}
		if path.Clean("/"+name) != "/"+name || name == "control" || name == "holdfast" || strings.HasPrefix(name, ".") {
			t.Errorf("accepted %q", name)
		}
	})
}

// FuzzStore fills a store with objects in any combination, then reads and prunes it. Each three bytes choose a name, a
// file and its content; the last content is the input itself.
func FuzzStore(f *testing.F) {
	own, other := forged(midday, "data"), gzipped(forged(midday.Add(time.Hour), "data"))
	foreign := forged(midday.Add(2*time.Hour), "data")
	foreign.Lineage = "l-2"
	names := []string{own.Name, other.Name, foreign.Name, "by-hand", "control", "2019-05-07T18:28:01Z-1"}
	names = append(names, "a b", "holdfast")
	filesOf := []string{
		"holdfast.begin.json", "etcd.backup.zst", "etcd.backup.gz", "etcd.backup.zst.age", "holdfast.meta.json", "_etcd_backup.meta", "holdfast.pin.json",
		"notes.txt", "deep/holdfast.meta.json", "etcd.backup.gz/x",
	}
	contents := [][]byte{nil, []byte("data"), []byte("dat"), []byte("{}"), []byte(`{"etcdVersion":"3.5.9","timestamp":"1782907200"}`), []byte(`{"version":1,"cluster":"prod"}`)}
	for _, m := range []snapshot.Meta{own, other, foreign} {
		text, err := snapshot.EncodeMeta(m)
		must(f, err)
		contents = append(contents, text)
	}
	f.Add([]byte{0, 4, 6, 0, 1, 1, 0, 0, 5})                         // a good one
	f.Add([]byte{1, 4, 7, 1, 2, 1, 2, 4, 8, 2, 1, 1, 3, 5, 4, 3, 2}) // others, foreign, legacy
	f.Add([]byte{0, 4, 7, 0, 1, 1, 3, 4, 6, 3, 6, 3, 4, 5, 4, 4, 2, 1, 5, 8, 6, 6, 4, 6, 7, 4, 6})
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 120 {
			return
		}
		root := t.TempDir()
		store := snapshot.NewDir(root)
		for choice := range slices.Chunk(input, 3) {
			if len(choice) < 3 {
				break
			}
			file := filepath.Join(root, names[int(choice[0])%len(names)], filesOf[int(choice[1])%len(filesOf)])
			text := input
			if i := int(choice[2]) % (len(contents) + 1); i < len(contents) {
				text = contents[i]
			}
			if os.MkdirAll(filepath.Dir(file), 0o700) == nil {
				os.WriteFile(file, text, 0o600) // fails if a directory is a file, or the reverse
			}
		}
		written(t, root, time.Now().Add(-48*time.Hour))
		if len(input)%2 == 0 { // then there is a recent write, and unfinished backups are old
			must(t, os.WriteFile(filepath.Join(root, "written-since"), nil, 0o600))
		}
		list, err := snapshot.List(t.Context(), store, ours)
		must(t, err)
		for _, b := range list {
			if b.Problem == "" {
				wantSupported(t, root, b)
			}
			if b.Foreign != (b.Cluster != "" && (b.Cluster != "prod" || b.Lineage == "l-2")) {
				t.Errorf("foreign: got %+v", b)
			}
		}
		if _, err := json.Marshal(list); err != nil {
			t.Error(err)
		}

		pruned, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, time.Now(), false)
		must(t, err)
		gone := namesOf(slices.Concat(pruned.Expired, pruned.Orphans))
		after, err := snapshot.List(t.Context(), store, ours)
		must(t, err)
		left := namesOf(after)
		for _, b := range list {
			if stays := !slices.Contains(gone, b.Name); stays != slices.Contains(left, b.Name) {
				t.Errorf("%s: said to stay %t, got %q", b.Name, stays, left)
			} else if !stays && (b.Foreign || b.Legacy || b.Pinned || b.Problem != "" && b.Cluster != "prod") {
				t.Errorf("pruned %+v", b)
			}
		}
	})
}

// wantSupported fails unless the files show that a backup listed as good is good.
func wantSupported(t *testing.T, root string, b snapshot.Backup) {
	t.Helper()
	dir := filepath.Join(root, b.Name)
	if b.Legacy {
		text, err := os.ReadFile(filepath.Join(dir, "_etcd_backup.meta"))
		must(t, err)
		info, statErr := os.Stat(filepath.Join(dir, "etcd.backup.gz"))
		if _, err := snapshot.DecodeManagerMeta(text); err != nil || statErr != nil || info.Size() == 0 {
			t.Errorf("listed as good: %+v, but %v, %v", b, err, statErr)
		}
		return
	}
	text, err := os.ReadFile(filepath.Join(dir, "holdfast.meta.json"))
	must(t, err)
	m, err := snapshot.DecodeMeta(text)
	file := map[string]string{"zstd": "etcd.backup.zst", "gzip": "etcd.backup.gz"}[m.Stored.Codec]
	info, statErr := os.Stat(filepath.Join(dir, file))
	if err != nil || m != b.Meta || m.Name != b.Name || statErr != nil || info.Size() != m.Stored.Size {
		t.Errorf("listed as good: %+v, but %v, %v", b, err, fmt.Sprint(statErr))
	}
}
