package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// FuzzSidecar checks that an accepted sidecar is exactly what would be written.
func FuzzSidecar(f *testing.F) {
	_, _, meta := saved(f, smallDB(f))
	good, err := snapshot.EncodeMeta(meta)
	must(f, err)
	f.Add(good)
	f.Add([]byte(`{"version": 1, "sha256": "", "meta": {}}`))
	f.Add([]byte(`{"version": 2}`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := snapshot.DecodeMeta(b)
		if err != nil {
			return
		}
		if _, err := snapshot.ParseName(m.Name); err != nil {
			t.Errorf("accepted %q with %v", b, err)
		}
		again, err := snapshot.EncodeMeta(m)
		must(t, err)
		if got, err := snapshot.DecodeMeta(again); err != nil || got != m {
			t.Errorf("want %+v again, got %+v, %v", m, got, err)
		}
	})
}

// FuzzName checks that an accepted name stands for one time and is one part of an object's name.
func FuzzName(f *testing.F) {
	for _, s := range []string{
		"2026-07-01T00:15:03Z-000042", "2026-07-01T00:15:03Z-42", "2026-07-01T00:15:03+00:00-000042", "2026-02-30T00:15:03Z-000042",
		"2026-07-01T00:15:60Z-000042", "latest", "", "-", "2026-07-01T00:15:03Z-000042/x", "2026-07-01T00:15:03Z.5-000042",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		created, err := snapshot.ParseName(name)
		if err != nil {
			return
		}
		if got := snapshot.FormatName(created); got != name || strings.ContainsAny(name, "/\\ ") {
			t.Errorf("want %q again, got %q", name, got)
		}
	})
}

func TestNamesThatAreNone(t *testing.T) {
	for _, name := range []string{
		"", "-", "latest", "2026-07-01T00:15:03Z", "2026-07-01T00:15:03Z-42", "2026-07-01T00:15:03Z-0000042", "2026-07-01T0:15:03Z-000042",
		"2026-07-01T00:15:03.5Z-000042", "2026-07-01T00:15:03+00:00-000042", "2026-02-30T00:15:03Z-000042", "2026-07-01T00:15:60Z-000042",
		"2026-07-01T00:15:03Z-000042/x", "2026-07-01t00:15:03z-000042", "2026-07-01T00:15:03Z--00042", "../2026-07-01T00:15:03Z-000042",
	} {
		if got, err := snapshot.ParseName(name); err == nil {
			t.Errorf("%q: want that it is no name, got %s", name, got)
		}
	}
}

func TestNamesOrderByTime(t *testing.T) {
	first := time.Date(2026, 7, 1, 0, 15, 3, 42_000, time.FixedZone("east", 3600))
	if got, want := snapshot.FormatName(first), "2026-06-30T23:15:03Z-000042"; got != want {
		t.Errorf("name: want %s, got %s", want, got)
	}
	for _, later := range []time.Duration{time.Microsecond, time.Second, time.Hour, 24 * 365 * time.Hour} {
		if a, b := snapshot.FormatName(first), snapshot.FormatName(first.Add(later)); a >= b {
			t.Errorf("names: want %s before %s", a, b)
		}
	}
}

// FuzzPages changes a sound database anywhere, and repairs the checksum of its meta pages so that bbolt opens it. There
// must be a result: no panic, no fault in mapped memory, no endless walk.
func FuzzPages(f *testing.F) {
	db := snapshottest.NewDB(f)
	db.Fill(150, 100)
	db.Put("large", strings.Repeat("x", 20000))
	tx := db.Begin()
	var good bytes.Buffer
	_, err := tx.WriteTo(&good)
	must(f, err)
	must(f, tx.Close())
	page := os.Getpagesize()
	count := good.Len() / page
	for i := range count {
		for _, at := range []int{0, 8, 10, 12, 16, 20, 24, 28} { // header and first element
			f.Add(uint32(i*page+at), uint32(3))
			f.Add(uint32(i*page+at), uint32(0xffffffff))
		}
	}
	for at := 16; at < 80; at += 4 {
		f.Add(uint32(at), uint32(0x10)) // the meta page
		f.Add(uint32(at), uint32(0xffffffff))
	}
	file := filepath.Join(f.TempDir(), "db")
	f.Fuzz(func(t *testing.T, at, value uint32) {
		b := bytes.Clone(good.Bytes())
		at %= uint32(len(b) - 4)
		binary.NativeEndian.PutUint32(b[at:], value)
		for _, meta := range [][]byte{b[16:80], b[page+16 : page+80]} {
			sum := fnv.New64a()
			sum.Write(meta[:56])
			binary.NativeEndian.PutUint64(meta[56:], sum.Sum64())
		}
		must(t, os.WriteFile(file, b, 0o600))
		if err := snapshot.CheckFile(t.Context(), file); errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	})
}
