package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"holdfast/snapshot"
)

// TestSidecarFindsEveryByte changes each byte in several ways: 0x20 turns a letter into the other case, which JSON
// decoding would not mind, and a blank into a zero byte.
func TestSidecarFindsEveryByte(t *testing.T) {
	_, _, meta := saved(t, smallDB(t))
	text, err := snapshot.EncodeMeta(meta)
	must(t, err)
	for i := range text {
		for _, flip := range []byte{0x01, 0x20, 0x2a, 0xff} {
			text[i] ^= flip
			if _, err := snapshot.DecodeMeta(text); err == nil {
				t.Errorf("byte %d changed by %#x: want an error", i, flip)
			}
			text[i] ^= flip
		}
	}
	if got, err := snapshot.DecodeMeta(text); err != nil || got != meta {
		t.Errorf("unchanged again: want %+v, got %+v, %v", meta, got, err)
	}
}

// TestVerifyFindsChanges changes a byte of every part of a backup.
func TestVerifyFindsChanges(t *testing.T) {
	root, store, meta := saved(t, smallDB(t))
	opt := snapshot.Options{Scratch: t.TempDir()}
	change := func(file string, at int, flip byte) {
		t.Helper()
		path := filepath.Join(root, meta.Name, file)
		b, err := os.ReadFile(path)
		must(t, err)
		good := bytes.Clone(b)
		b[at] ^= flip
		must(t, os.WriteFile(path, b, 0o600))
		if _, err := snapshot.Verify(t.Context(), store, meta.Name, opt); err == nil {
			t.Errorf("%s: byte %d changed by %#x: want an error", file, at, flip)
		}
		must(t, os.WriteFile(path, good, 0o600))
	}
	for _, at := range []int{0, 5, 100, 300, 600} {
		change("holdfast.meta.json", at, 1)
	}
	n := int(meta.Stored.Size)
	for _, at := range []int{0, 1, 2, 3, 4, 5, 6, n / 4, n / 2, n - 40, n - 30, n - 5, n - 4, n - 1} {
		change("etcd.backup.zst", at, 1)
	}
	if _, err := snapshot.Verify(t.Context(), store, meta.Name, opt); err != nil {
		t.Errorf("unchanged again: %v", err)
	}
}

func TestVerifyWrongLength(t *testing.T) {
	root, store, meta := saved(t, smallDB(t))
	path := filepath.Join(root, meta.Name, "etcd.backup.zst")
	good, err := os.ReadFile(path)
	must(t, err)
	for want, b := range map[string][]byte{
		fmt.Sprintf("stored size: want %d bytes, got %d", len(good), len(good)-1):          good[:len(good)-1],
		fmt.Sprintf("stored size: want %d bytes, got 0", len(good)):                        nil,
		fmt.Sprintf("stored size: want %d bytes, got at least %d", len(good), len(good)+1): append(bytes.Clone(good), make([]byte, 100)...),
	} {
		must(t, os.WriteFile(path, b, 0o600))
		if _, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: t.TempDir()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: want %q, got %v", len(b), want, err)
		}
	}
}

// TestVerifyForged writes sidecars whose checksum is right and whose claims are not: each claim is checked by itself.
func TestVerifyForged(t *testing.T) {
	root, store, meta := saved(t, smallDB(t))
	for name, test := range map[string]struct {
		forge func(m *snapshot.Meta)
		want  string
	}{
		"revision":         {func(m *snapshot.Meta) { m.Content.Revision++ }, "revision: want 7, got 6"},
		"keys":             {func(m *snapshot.Meta) { m.Content.Keys++ }, "keys: want 6, got 5"},
		"crc":              {func(m *snapshot.Meta) { m.Content.CRC++ }, "crc: want "},
		"consistent index": {func(m *snapshot.Meta) { m.Content.ConsistentIndex++ }, "consistent index: want 8, got 7"},
		"term":             {func(m *snapshot.Meta) { m.Content.Term++ }, "term: want 4, got 3"},
		"size too large":   {func(m *snapshot.Meta) { m.Content.Size += 4096 }, "decompress: want "},
		"size too small":   {func(m *snapshot.Meta) { m.Content.Size -= 4096 }, "decompress: more than "},
		"size one less":    {func(m *snapshot.Meta) { m.Content.Size-- }, "decompress: more than "},
		"size absurd":      {func(m *snapshot.Meta) { m.Content.Size = 1 << 60 }, "set snapshot.scratch to a directory with more room"},
		"trailer":          {func(m *snapshot.Meta) { m.Trailer = strings.Repeat("0", 64) }, "trailer: want 0000"},
		"stored size":      {func(m *snapshot.Meta) { m.Stored.Size-- }, "stored size: want "},
		"stored sha256":    {func(m *snapshot.Meta) { m.Stored.SHA256 = strings.Repeat("0", 64) }, "stored bytes: want sha256 0000"},
		"codec":            {func(m *snapshot.Meta) { m.Stored.Codec = "lzma" }, `stored.codec: must be zstd or gzip, got "lzma"`},
		"name":             {func(m *snapshot.Meta) { m.Name = "2026-07-01T00:15:03Z-000042" }, "created: want 2026-07-01T00:15:03.000042Z"},
		"negative size":    {func(m *snapshot.Meta) { m.Content.Size = -1 }, "content.size: must be positive"},
	} {
		t.Run(name, func(t *testing.T) {
			m := meta
			test.forge(&m)
			text, err := snapshot.EncodeMeta(m)
			must(t, err)
			must(t, os.WriteFile(filepath.Join(root, meta.Name, "holdfast.meta.json"), text, 0o600))
			_, err = snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: t.TempDir()})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Verify: want an error with %q, got %v", test.want, err)
			}
		})
	}
}

// TestVerifyForgedData replaces the data as well, so that stored size and digest are right: what is inside is checked.
func TestVerifyForgedData(t *testing.T) {
	root, store, good := saved(t, smallDB(t))
	at := func(file string) string { return filepath.Join(root, good.Name, file) }
	raw := decompressed(t, at("etcd.backup.zst"))
	raw = raw[:len(raw)-sha256.Size]
	forge := func(raw, trailer []byte) (err error) {
		enc, err := zstd.NewWriter(nil)
		must(t, err)
		defer enc.Close()
		data := enc.EncodeAll(append(bytes.Clone(raw), trailer...), nil)
		m := good
		m.Trailer = hex.EncodeToString(trailer)
		m.Stored.Size = int64(len(data))
		m.Stored.SHA256 = fmt.Sprintf("%x", sha256.Sum256(data))
		text, err := snapshot.EncodeMeta(m)
		must(t, err)
		must(t, os.WriteFile(at("etcd.backup.zst"), data, 0o600))
		must(t, os.WriteFile(at("holdfast.meta.json"), text, 0o600))
		_, err = snapshot.Verify(t.Context(), store, good.Name, snapshot.Options{Scratch: t.TempDir()})
		return err
	}
	trailer := sha256.Sum256(raw)
	if err := forge(raw, trailer[:]); err != nil {
		t.Errorf("unchanged, compressed anew: %v", err)
	}
	raw = bytes.ReplaceAll(raw, []byte("long long"), []byte("long gone")) // in free pages, too
	if err := forge(raw, trailer[:]); err == nil || !strings.Contains(err.Error(), "database: want sha256 ") {
		t.Errorf("changed value: want that the digest differs, got %v", err)
	}
	trailer = sha256.Sum256(raw)
	if err := forge(raw, trailer[:]); err == nil || !strings.Contains(err.Error(), "crc: want ") {
		t.Errorf("changed value and digest: want that the crc differs, got %v", err)
	}
	for i := 2 * os.Getpagesize(); i < len(raw); i += os.Getpagesize() {
		raw[i]++ // the number of each page
	}
	trailer = sha256.Sum256(raw)
	if err := forge(raw, trailer[:]); err == nil || !strings.Contains(err.Error(), "says it is page") {
		t.Errorf("damaged pages: want that they are found, got %v", err)
	}
	raw = make([]byte, len(raw))
	trailer = sha256.Sum256(raw)
	if err := forge(raw, trailer[:]); err == nil || !strings.Contains(err.Error(), "check database") {
		t.Errorf("zeros: want that it is no database, got %v", err)
	}
}

// TestVerifyBomb stores a stream that decompresses to far more than the sidecar says: no more than that is written.
func TestVerifyBomb(t *testing.T) {
	var bomb bytes.Buffer
	enc, err := zstd.NewWriter(&bomb, zstd.WithEncoderConcurrency(1))
	must(t, err)
	_, err = io.CopyN(enc, zeros{}, 1<<24)
	must(t, err)
	must(t, enc.Close())
	f, err := os.Create(filepath.Join(t.TempDir(), "db"))
	must(t, err)
	defer f.Close()
	_, err = snapshot.Decode(t.Context(), &bomb, f, snapshot.Meta{
		Content: snapshot.Content{Size: 4096}, Trailer: "some", Stored: snapshot.Stored{Codec: "zstd"},
	}, snapshot.Options{})
	if info, _ := f.Stat(); err == nil || info.Size() != 4096 {
		t.Errorf("want 4096 bytes and an error, got %d bytes, %v", info.Size(), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestVerifyScratch(t *testing.T) {
	_, store, meta := saved(t, smallDB(t))
	scratch := t.TempDir()
	for _, name := range []string{meta.Name, meta.Name} {
		_, err := snapshot.Verify(t.Context(), store, name, snapshot.Options{Scratch: scratch})
		must(t, err)
	}
	if got := files(t, scratch); len(got) != 0 {
		t.Errorf("scratch: want nothing left, got %v", got)
	}
	_, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: filepath.Join(scratch, "gone")})
	if err == nil || !strings.Contains(err.Error(), "create scratch file") {
		t.Errorf("no scratch directory: got %v", err)
	}
}

func TestVerifyAbsent(t *testing.T) {
	_, store, _ := saved(t, smallDB(t))
	if _, err := snapshot.Verify(t.Context(), store, "2026-07-01T00:15:03Z-000042", snapshot.Options{}); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("want ErrNotFound, got %v", err)
	}
	for _, name := range []string{"", "..", "../other/2026-07-01T00:15:03Z-000042"} {
		if _, err := snapshot.Verify(t.Context(), store, name, snapshot.Options{}); err == nil || errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Verify(%q): want that it is no name, got %v", name, err)
		}
	}
}

func TestDelete(t *testing.T) {
	root, store, meta := saved(t, smallDB(t))
	for _, name := range []string{"", ".", "..", "control", "holdfast-store-id", meta.Name + "/etcd.backup.zst", "../" + meta.Name} {
		if err := snapshot.Delete(t.Context(), store, name); err == nil {
			t.Errorf("Delete(%q): want an error", name)
		}
	}
	if _, err := snapshot.Verify(t.Context(), store, meta.Name, snapshot.Options{Scratch: t.TempDir()}); err != nil {
		t.Errorf("after refusals: %v", err)
	}
	must(t, snapshot.Delete(t.Context(), store, meta.Name))
	if got := files(t, root); len(got) != 1 {
		t.Errorf("store: want only its hidden directory, got %v", got)
	}
	if err := snapshot.Delete(t.Context(), store, meta.Name); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("second Delete: want ErrNotFound, got %v", err)
	}
}
