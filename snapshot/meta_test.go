package snapshot_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
)

// TestSidecarChecks changes one field of a good sidecar at a time, with a matching checksum.
func TestSidecarChecks(t *testing.T) {
	good := forged(midday, "data")
	for name, change := range map[string]func(*snapshot.Meta){
		"":                        func(*snapshot.Meta) {},
		"no lineage":              func(m *snapshot.Meta) { m.Lineage = "" },
		"encrypted":               func(m *snapshot.Meta) { m.Stored.Encrypted = true },
		"gzip":                    func(m *snapshot.Meta) { m.Stored.Codec = "gzip" },
		"compacted":               func(m *snapshot.Meta) { m.Content.CompactRevision, m.Content.HashKV = m.Content.Revision, 17 },
		"never compacted":         func(m *snapshot.Meta) { m.Content.CompactRevision = -1 },
		"name":                    func(m *snapshot.Meta) { m.Name = "by-hand" },
		"created":                 func(m *snapshot.Meta) { m.Created = m.Created.Add(time.Microsecond) },
		"cluster":                 func(m *snapshot.Meta) { m.Cluster = "../prod" },
		"lineage":                 func(m *snapshot.Meta) { m.Lineage = "a b" },
		"members":                 func(m *snapshot.Meta) { m.Members = -1 },
		"content.size":            func(m *snapshot.Meta) { m.Content.Size = 0 },
		"content.compactRevision": func(m *snapshot.Meta) { m.Content.CompactRevision = m.Content.Revision + 1 },
		"stored.size":             func(m *snapshot.Meta) { m.Stored.Size = -1 },
		"stored.codec":            func(m *snapshot.Meta) { m.Stored.Codec = "xz" },
		"stored.sha256":           func(m *snapshot.Meta) { m.Stored.SHA256 = m.Stored.SHA256[1:] },
		"trailer":                 func(m *snapshot.Meta) { m.Trailer = strings.Repeat("x", 64) },
	} {
		m := good
		change(&m)
		text, err := snapshot.EncodeMeta(m)
		must(t, err)
		got, err := snapshot.DecodeMeta(text)
		bad := map[string]bool{"name": true, "created": true, "cluster": true, "lineage": true, "members": true, "trailer": true}[name] || strings.Contains(name, ".")
		switch {
		case !bad && (err != nil || got != m):
			t.Errorf("%q: want %+v, got %+v, %v", name, m, got, err)
		case bad && (err == nil || name != "name" && !strings.Contains(err.Error(), name+":")):
			t.Errorf("%q: want that it is named, got %v", name, err)
		}
	}
}

// TestSidecarOfLaterProgram checks that fields of a later version are skipped, but covered by the checksum.
func TestSidecarOfLaterProgram(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	m := forge(t, store, forged(midday, "data"), "data")
	text, err := snapshot.EncodeMeta(m)
	must(t, err)
	later := snapshot.EncodeRaw(strings.Replace(snapshot.RawOf(text), `"cluster"`, `"later": 7, "cluster"`, 1))
	if got, err := snapshot.DecodeMeta(later); err != nil || got != m {
		t.Errorf("want %+v, got %+v, %v", m, got, err)
	}
	if _, err := snapshot.DecodeMeta([]byte(strings.Replace(string(later), "7", "8", 1))); err == nil {
		t.Error("changed: want an error")
	}
}

func TestBackupNames(t *testing.T) {
	for _, name := range []string{"2026-07-01T00:15:03Z-000042", "2019-05-07T18:28:01Z-1", "before-the-upgrade", "x", "latest", "holdfast-1", strings.Repeat("a", 200)} {
		if err := snapshot.CheckBackupName(name); err != nil {
			t.Errorf("%q: want that it is a name, got %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", ".holdfast", "a/b", "a b", "control", "holdfast", "holdfast-store-id", "holdfast-probe-1", strings.Repeat("a", 201), "ä"} {
		if err := snapshot.CheckBackupName(name); err == nil {
			t.Errorf("%q: want that it is none", name)
		}
	}
}
