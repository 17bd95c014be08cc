package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// contentOf returns the content of db, and whole its bytes.
func contentOf(t testing.TB, db *snapshottest.DB) (c snapshot.Content, whole []byte) {
	t.Helper()
	tx := db.Begin()
	defer tx.Close()
	c, err := snapshot.ContentOf(t.Context(), tx)
	must(t, err)
	var b bytes.Buffer
	_, err = tx.WriteTo(&b)
	must(t, err)
	return c, b.Bytes()
}

// TestLevels saves in each format at each level, and fetches what was saved.
func TestLevels(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.FillKubernetes(1 << 20)
	_, whole := contentOf(t, db)
	for _, format := range []string{"", snapshot.FormatNative, snapshot.FormatManager} {
		for _, level := range append([]string{""}, snapshot.Levels...) {
			if testing.Short() && level != snapshot.Levels[0] && level != snapshot.Levels[3] {
				continue
			}
			store, opt := snapshot.NewDir(t.TempDir()), snapshot.Options{Scratch: t.TempDir(), Format: format, Level: level}
			meta, err := snapshot.Save(t.Context(), store, db.Begin(), identity, opt)
			must(t, err)
			path := filepath.Join(t.TempDir(), "db")
			got, err := snapshot.Fetch(t.Context(), store, meta.Name, path, opt)
			must(t, err)
			b, err := os.ReadFile(path)
			must(t, err)
			if got != meta || !bytes.Equal(b, whole) {
				t.Errorf("%s %s: want %d bytes and %+v, got %d and %+v", format, level, len(whole), meta, len(b), got)
			}
		}
	}
	for _, opt := range []snapshot.Options{{Level: "most"}, {Format: "tar"}, {Format: snapshot.FormatManager, Recipients: mustRecipients(t)}} {
		root := t.TempDir()
		if _, err := snapshot.Save(t.Context(), snapshot.NewDir(root), db.Begin(), identity, opt); err == nil || len(files(t, root)) != 0 {
			t.Errorf("%+v: want an error and nothing stored, got %v", opt, err)
		}
	}
}

// TestManagerFormat checks what etcd-manager reads: gzip of the database and its SHA-256, and its own mark.
func TestManagerFormat(t *testing.T) {
	db := smallDB(t)
	root := t.TempDir()
	store, opt := snapshot.NewDir(root), snapshot.Options{Scratch: t.TempDir(), Format: snapshot.FormatManager}
	of := identity
	of.Members = 3
	meta, err := snapshot.Save(t.Context(), store, db.Begin(), of, opt)
	must(t, err)
	dir := filepath.Join(root, meta.Name)
	if got, want := files(t, dir), []string{"_etcd_backup.meta", "etcd.backup.gz", "holdfast.begin.json", "holdfast.meta.json"}; !slices.Equal(got, want) {
		t.Errorf("objects: want %v, got %v", want, got)
	}
	f, err := os.Open(filepath.Join(dir, "etcd.backup.gz"))
	must(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f) // of the standard library, which etcd-manager uses
	must(t, err)
	raw, err := io.ReadAll(r)
	must(t, err)
	_, whole := contentOf(t, db)
	if sum := sha256.Sum256(whole); !bytes.Equal(raw, append(bytes.Clone(whole), sum[:]...)) {
		t.Errorf("data: want the database and its SHA-256, %d bytes, got %d", len(whole)+32, len(raw))
	}
	mark, err := os.ReadFile(filepath.Join(dir, "_etcd_backup.meta"))
	must(t, err)
	if text := strings.Join(strings.Fields(string(mark)), ""); !strings.Contains(text, `"memberCount":3`) || !strings.Contains(text, `"etcdVersion":"3.7.3"`) {
		t.Errorf("mark: got %s", mark)
	}
	of.EtcdVersion = ""
	if _, err := snapshot.Save(t.Context(), store, db.Begin(), of, opt); err == nil || !strings.Contains(err.Error(), "version of etcd") {
		t.Errorf("without a version: got %v", err)
	}
}

// managers turns a backup into one that etcd-manager alone wrote, and returns the file with its data.
func managers(t testing.TB, db *snapshottest.DB) (store snapshot.Store, meta snapshot.Meta, data string) {
	t.Helper()
	root := t.TempDir()
	store = snapshot.NewDir(root)
	meta, err := snapshot.Save(t.Context(), store, db.Begin(), identity, snapshot.Options{Scratch: t.TempDir(), Format: snapshot.FormatManager})
	must(t, err)
	for _, file := range []string{"holdfast.begin.json", "holdfast.meta.json"} {
		must(t, os.Remove(filepath.Join(root, meta.Name, file)))
	}
	return store, meta, filepath.Join(root, meta.Name, "etcd.backup.gz")
}

func TestLegacy(t *testing.T) {
	db := smallDB(t)
	store, meta, data := managers(t, db)
	v, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: t.TempDir()})
	if err != nil || !v.Full || v.Content != meta.Content || v.Stored != meta.Stored || v.Trailer != meta.Trailer || v.EtcdVersion != "3.7.3" || v.Cluster != "" {
		t.Errorf("Verify: want the content of %+v, got %+v, %v", meta, v, err)
	}
	path := filepath.Join(t.TempDir(), "db")
	got, err := snapshot.Fetch(t.Context(), store, meta.Name, path, snapshot.Options{})
	if _, whole := contentOf(t, db); err != nil || got.Content != meta.Content || !bytes.Equal(whole, mustRead(t, path)) {
		t.Errorf("Fetch: want %+v, got %+v, %v", meta, got, err)
	}

	good := mustRead(t, data)
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "the data is empty"},
		"truncated":       {good[:len(good)-20], "decompress"},
		"changed":         {flipped(good, len(good)/2), "d"},
		"no database":     {inGzip(t, make([]byte, 8192)), "not a database of etcd"},
		"without trailer": {inGzip(t, gunzipped(t, good)[:meta.Content.Size]), "decompress trailer: EOF"},
		"too long":        {inGzip(t, append(gunzipped(t, good), 0)), "more than"},
		"another trailer": {inGzip(t, flipped(gunzipped(t, good), int(meta.Content.Size)+3)), "database: want sha256"},
	} {
		must(t, os.WriteFile(data, test.data, 0o600))
		if v, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: t.TempDir()}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: want an error with %q, got %+v, %v", name, test.want, v, err)
		}
	}
}

// TestFetchFails wants an error and no file.
func TestFetchFails(t *testing.T) {
	root, store, meta := saved(t, smallDB(t))
	path := filepath.Join(t.TempDir(), "db")
	fails := func(want string) {
		t.Helper()
		m, err := snapshot.Fetch(t.Context(), store, meta.Name, path, snapshot.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || m != (snapshot.Meta{}) {
			t.Errorf("want an error with %q, got %+v, %v", want, m, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("want no file, got %v", err)
		}
	}
	data := filepath.Join(root, meta.Name, "etcd.backup.zst")
	good := mustRead(t, data)
	must(t, os.WriteFile(data, flipped(good, 200), 0o600))
	fails("stored bytes: want sha256")
	must(t, os.WriteFile(data, good, 0o600))

	forged := meta
	forged.Content.Size = 1 << 60
	text, err := snapshot.EncodeMeta(forged)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(root, meta.Name, "holdfast.meta.json"), text, 0o600))
	fails(path + ": 1152921504606846976 bytes are needed there: choose a directory with more room: ")
	forged = meta
	forged.Content.HashKV++
	text, err = snapshot.EncodeMeta(forged)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(root, meta.Name, "holdfast.meta.json"), text, 0o600))
	fails("hash of keys and values: want ")

	must(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := snapshot.Fetch(t.Context(), store, meta.Name, path, snapshot.Options{}); !errors.Is(err, os.ErrExist) || string(mustRead(t, path)) != "mine" {
		t.Errorf("existing file: want that it stays, got %v", err)
	}
}

// TestRate saves an incompressible database of 2 MiB at 4 MiB a second. The amount of the first second may come at
// once.
func TestRate(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Fill(500, 4000)
	start := time.Now()
	_, err := snapshot.Save(t.Context(), snapshot.NewDir(t.TempDir()), db.Begin(), identity, snapshot.Options{Scratch: t.TempDir(), Rate: 4 << 20})
	must(t, err)
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("want at least 0.2 s, got %s", took)
	}
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}

func inGzip(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	must(t, errors.Join(err, w.Close()))
	return out.Bytes()
}

func gunzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	raw, err := io.ReadAll(r)
	must(t, err)
	return raw
}
