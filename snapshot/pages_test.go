package snapshot_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// TestPagesAgreeWithBolt walks databases of several shapes that bbolt's own check finds sound.
func TestPagesAgreeWithBolt(t *testing.T) {
	for name, fill := range map[string]func(db *snapshottest.DB){
		"empty":         func(*snapshottest.DB) {},
		"small":         func(db *snapshottest.DB) { db.Put("a", "1") },
		"overflow":      func(db *snapshottest.DB) { db.Fill(20, 1<<16) },
		"deep":          func(db *snapshottest.DB) { db.Fill(12000, 20) },
		"many rewrites": func(db *snapshottest.DB) { db.Fill(1, 10); db.Fill(1, 10000); db.Fill(500, 100); db.Delete("x") },
	} {
		t.Run(name, func(t *testing.T) {
			db := snapshottest.NewDB(t)
			fill(db)
			tx := db.Begin()
			defer tx.Close()
			for err := range tx.Check() {
				t.Errorf("bbolt: %v", err)
			}
			file := filepath.Join(t.TempDir(), "copy")
			must(t, tx.CopyFile(file, 0o600))
			if err := snapshot.CheckFile(t.Context(), file); err != nil {
				t.Errorf("pages: %v", err)
			}
		})
	}
}

// TestPagesFindDamage damages the root of bucket "key", a branch, and its first child, a leaf, as a disk can but no
// program should. With several of these faults, bbolt's Tx.Check would end the process.
func TestPagesFindDamage(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Fill(500, 100)
	tx := db.Begin()
	defer tx.Close()
	var good bytes.Buffer
	_, err := tx.WriteTo(&good)
	must(t, err)
	root := int(tx.Bucket([]byte("key")).Root())
	size, native := os.Getpagesize(), binary.NativeEndian
	page := func(b []byte, id int) []byte { return b[id*size : (id+1)*size] }
	child := int(native.Uint64(page(good.Bytes(), root)[24:]))

	for name, test := range map[string]struct {
		damage func(branch, leaf []byte)
		want   string
	}{
		"child twice":        {func(b, _ []byte) { copy(b[40:48], b[24:32]) }, "reached twice"},
		"child is its root":  {func(b, _ []byte) { native.PutUint64(b[24:], uint64(root)) }, "reached twice"},
		"child is a meta":    {func(b, _ []byte) { native.PutUint64(b[24:], 1) }, "not among the pages"},
		"child beyond":       {func(b, _ []byte) { native.PutUint64(b[24:], 1<<40) }, "not among the pages"},
		"children exchanged": {func(b, _ []byte) { x := bytes.Clone(b[24:32]); copy(b[24:32], b[40:48]); copy(b[40:48], x) }, "must precede"},
		"wrong number":       {func(_, l []byte) { l[0] ^= 1 }, "says it is page"},
		"wrong type":         {func(_, l []byte) { l[8] = 0x10 }, "neither a branch nor a leaf"},
		"no child":           {func(b, _ []byte) { native.PutUint16(b[10:], 0) }, "neither a branch nor a leaf"},
		"too many elements":  {func(_, l []byte) { native.PutUint16(l[10:], 0xffff) }, "no room for 65535 elements"},
		"overflow":           {func(_, l []byte) { native.PutUint32(l[12:], 1<<30) }, "overflows by"},
		"value beyond":       {func(_, l []byte) { native.PutUint32(l[28:], 1<<31) }, "element 0 ends at byte"},
		"keys exchanged":     {func(_, l []byte) { keys(l)[0][7], keys(l)[1][7] = keys(l)[1][7], keys(l)[0][7] }, "must follow"},
		"same key twice":     {func(_, l []byte) { copy(keys(l)[1], keys(l)[0]) }, "must follow"},
		"key too large":      {func(_, l []byte) { k := keys(l); k[len(k)-1][0] = 1 }, "must precede"},
		"key is a bucket":    {func(_, l []byte) { native.PutUint32(l[16:], 1) }, "page"},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(good.Bytes())
			test.damage(page(b, root), page(b, child))
			file := filepath.Join(t.TempDir(), "db")
			must(t, os.WriteFile(file, b, 0o600))
			if err := snapshot.CheckFile(t.Context(), file); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want an error with %q, got %v", test.want, err)
			}
		})
	}
}

// keys returns the keys of a leaf, of 17 bytes each.
func keys(leaf []byte) (all [][]byte) {
	for i := range int(binary.NativeEndian.Uint16(leaf[10:])) {
		at := 16 + 16*i
		start := at + int(binary.NativeEndian.Uint32(leaf[at+4:]))
		all = append(all, leaf[start:start+17])
	}
	return all
}

// TestContentOfDamage reads a tree with a child far outside the file, which can happen to a live database. The result
// is an error; bbolt panics or faults.
func TestContentOfDamage(t *testing.T) {
	for name, wild := range map[string]uint64{"beyond the file": 1 << 24, "beyond the address space": 1 << 50, "a meta page": 0} {
		t.Run(name, func(t *testing.T) {
			db := snapshottest.NewDB(t)
			db.Fill(500, 100)
			tx := db.Begin()
			defer tx.Close()
			file := filepath.Join(t.TempDir(), "db")
			must(t, tx.CopyFile(file, 0o600))
			b, err := os.ReadFile(file)
			must(t, err)
			binary.NativeEndian.PutUint64(b[int(tx.Bucket([]byte("key")).Root())*os.Getpagesize()+40:], wild)
			must(t, os.WriteFile(file, b, 0o600))
			damaged, err := bbolt.Open(file, 0, &bbolt.Options{ReadOnly: true})
			must(t, err)
			defer damaged.Close()
			must(t, damaged.View(func(tx *bbolt.Tx) error {
				if _, err := snapshot.ContentOf(t.Context(), tx); err == nil || !strings.Contains(err.Error(), "damaged database") {
					t.Errorf("want that it is damaged, got %v", err)
				}
				return nil
			}))
		})
	}
}

// TestExamineCutFile examines a file that was truncated after its size was read: bbolt maps what is there.
func TestExamineCutFile(t *testing.T) {
	db := snapshottest.NewDB(t)
	db.Fill(500, 100)
	tx := db.Begin()
	defer tx.Close()
	file := filepath.Join(t.TempDir(), "copy")
	must(t, tx.CopyFile(file, 0o600))
	must(t, os.Truncate(file, tx.Size()/2))
	f, err := os.Open(file)
	must(t, err)
	_, err = snapshot.Examine(t.Context(), f, tx.Size())
	if err == nil || !strings.Contains(err.Error(), "fewer than") {
		t.Errorf("want that the file has fewer bytes, got %v", err)
	}
}
