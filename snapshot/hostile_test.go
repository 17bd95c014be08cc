package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"
	"go.etcd.io/bbolt"

	"holdfast/snapshot"
)

// The tests below use data of an attacker who knows the formats. Every result must be an error, soon.

// For a forged database: the size of a page, and no freelist.
const (
	forgedPage = 4096
	noFreelist = 1<<64 - 1
)

// forgedDB is a database whose root page, number 2, consists of these bytes, on as many pages as they need. Its meta
// pages are sound, so bbolt opens it.
func forgedDB(root []byte, freelist uint64) []byte {
	native := binary.NativeEndian
	count := max(1, (len(root)+forgedPage-1)/forgedPage)
	b := make([]byte, (2+count)*forgedPage)
	for i := range 2 {
		page := b[i*forgedPage:]
		native.PutUint64(page, uint64(i))
		native.PutUint16(page[8:], 0x04)
		meta := page[16:]
		native.PutUint32(meta, 0xed0cdaed)
		native.PutUint32(meta[4:], 2)
		native.PutUint32(meta[8:], forgedPage)
		native.PutUint64(meta[16:], 2)
		native.PutUint64(meta[32:], freelist)
		native.PutUint64(meta[40:], uint64(2+count))
		native.PutUint64(meta[48:], uint64(i))
		sum := fnv.New64a()
		sum.Write(meta[:56])
		native.PutUint64(meta[56:], sum.Sum64())
	}
	copy(b[2*forgedPage:], root)
	native.PutUint64(b[2*forgedPage:], 2)
	native.PutUint32(b[2*forgedPage+12:], uint32(count-1))
	return b
}

// laughs is a leaf page of n elements that share one value: a bucket in it, which is such a page again. The walk would
// visit n to the power of levels elements. The keys end where the value begins, and differ in where they begin.
func laughs(n, levels int) []byte {
	var value []byte
	if levels > 0 {
		value = append(make([]byte, 16), laughs(n, levels-1)...)
	}
	native := binary.NativeEndian
	b := make([]byte, 16+n*16)
	native.PutUint16(b[8:], 0x02)
	native.PutUint16(b[10:], uint16(n))
	for i := range n {
		e := b[16+i*16:]
		if levels > 0 {
			native.PutUint32(e, 1)
		}
		native.PutUint32(e[4:], uint32(n*16+n-(i+1)-i*16))
		native.PutUint32(e[8:], uint32(i+1))
		native.PutUint32(e[12:], uint32(len(value)))
	}
	for i := range n {
		b = append(b, byte(n-i))
	}
	return append(b, value...)
}

// checkSoon checks a database and fails if that takes long.
func checkSoon(t *testing.T, database []byte) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(file, database, 0o600))
	done := make(chan error, 1)
	go func() { done <- snapshot.CheckFile(t.Context(), file) }()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the check does not end")
		return nil
	}
}

// TestPagesThatNest checks that the walk ends if elements share their content, level by level.
func TestPagesThatNest(t *testing.T) {
	if err := checkSoon(t, forgedDB(laughs(1, 0), noFreelist)); err == nil || !strings.Contains(err.Error(), "not an etcd database") {
		t.Errorf("a sound page: want only that it is no etcd database, got %v", err)
	}
	for _, levels := range []int{1, 20, 60} {
		if err := checkSoon(t, forgedDB(laughs(200, levels), noFreelist)); err == nil || !strings.Contains(err.Error(), "share bytes") {
			t.Errorf("%d levels: want that the elements share bytes, got %v", levels, err)
		}
	}
	if err := checkSoon(t, forgedDB(laughs(1, 100), noFreelist)); err == nil || !strings.Contains(err.Error(), "pages deep") {
		t.Errorf("100 levels of one: want that they are too many, got %v", err)
	}
}

// TestFreelist checks the list of free pages, which etcd does not store but other programs do.
func TestFreelist(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: forgedPage, NoSync: true}) // bbolt then stores a freelist
	must(t, err)
	for _, size := range []int{100, 50000, 10} { // the large value's pages are free afterwards
		must(t, db.Update(func(tx *bbolt.Tx) error {
			for _, name := range []string{"key", "meta"} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err == nil && name == "meta" {
					err = b.Put([]byte("padding"), make([]byte, size))
				}
				if err != nil {
					return err
				}
			}
			return nil
		}))
	}
	var whole bytes.Buffer
	must(t, db.View(func(tx *bbolt.Tx) error { _, err := tx.WriteTo(&whole); return err }))
	must(t, db.Close())
	good, native := whole.Bytes(), binary.NativeEndian
	if err := checkSoon(t, good); err != nil {
		t.Errorf("as bbolt wrote it: %v", err)
	}
	at, root := int(native.Uint64(good[16+32:])), native.Uint64(good[16+16:])
	if n := native.Uint16(good[at*forgedPage+10:]); n < 2 {
		t.Fatalf("want a few free pages, got %d", n)
	}
	for want, damage := range map[string]func(list []byte){
		"flags are":          func(l []byte) { l[8] = 0x02 },
		"says it is page":    func(l []byte) { l[0] ^= 1 },
		"no room for 65534":  func(l []byte) { native.PutUint16(l[10:], 0xfffe) },
		"no room for 109951": func(l []byte) { native.PutUint16(l[10:], 0xffff); native.PutUint64(l[16:], 1<<40) },
		"reached twice":      func(l []byte) { native.PutUint64(l[16:], root) },
		"not among":          func(l []byte) { native.PutUint64(l[16:], 1<<60) },
		": reached twice":    func(l []byte) { copy(l[24:32], l[16:24]) },
	} {
		b := bytes.Clone(good)
		damage(b[at*forgedPage:])
		if err := checkSoon(t, b); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "list of free pages") {
			t.Errorf("want an error of the list of free pages with %q, got %v", want, err)
		}
	}
	if err := checkSoon(t, forgedDB(laughs(1, 0), 1<<50)); err == nil || !strings.Contains(err.Error(), "list of free pages") {
		t.Errorf("a list beyond the file: got %v", err)
	}
}

// FuzzRoot makes the root page of a database from any bytes and wants a result.
func FuzzRoot(f *testing.F) {
	f.Add(laughs(1, 0), uint64(noFreelist))
	f.Add(laughs(3, 2), uint64(noFreelist))
	f.Add(laughs(200, 9), uint64(2))
	f.Add(append(laughs(2, 1), laughs(1, 30)...), uint64(1<<60))
	f.Add([]byte(nil), uint64(0))
	path := filepath.Join(f.TempDir(), "db")
	f.Fuzz(func(t *testing.T, root []byte, freelist uint64) {
		if len(root) > 1<<20 {
			return
		}
		must(t, os.WriteFile(path, forgedDB(root, freelist), 0o600))
		begun := time.Now()
		if err := snapshot.CheckFile(t.Context(), path); errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 5*time.Second { // a megabyte takes milliseconds
			t.Errorf("took %s", took)
		}
	})
}

// crafted puts a database into a store as etcd-manager does, with a correct trailer.
func crafted(t *testing.T, store snapshot.Store, database []byte) string {
	t.Helper()
	sum := sha256.Sum256(database)
	return bomb(t, store, bytes.NewReader(append(bytes.Clone(database), sum[:]...)))
}

// bomb puts the compressed form of a stream into a store as etcd-manager does.
func bomb(t *testing.T, store snapshot.Store, r io.Reader) string {
	t.Helper()
	const name = "2026-07-01T00:15:03Z-000042"
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.Copy(w, r)
	must(t, err)
	must(t, w.Close())
	legacy(t, store, name, midday, b.String())
	return name
}

// TestVerifyCrafted checks that a backup with correct digests but a bad database is damaged, in whatever process it is
// opened, and that one that could not be examined is not.
func TestVerifyCrafted(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	for _, database := range [][]byte{
		forgedDB(laughs(200, 30), noFreelist), forgedDB(laughs(1, 0), 1<<50), forgedDB(nil, noFreelist),
	} {
		name := crafted(t, store, database)
		if _, err := snapshot.Verify(t.Context(), store, name, snapshot.Options{Scratch: t.TempDir()}); !snapshot.Damaged(err) {
			t.Errorf("want that it is damaged, got %v", err)
		}
		path := filepath.Join(t.TempDir(), "db")
		if _, err := snapshot.Fetch(t.Context(), store, name, path, snapshot.Options{}); !snapshot.Damaged(err) {
			t.Errorf("want that it is not fetched, got %v", err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("want that nothing is left of what was fetched")
		}
	}

	name := crafted(t, store, forgedDB(nil, noFreelist))
	for want, err := range map[bool]error{true: errors.New("it crashes its reader"), false: fmt.Errorf("%w: no child", snapshot.ErrNotExamined)} {
		opt := snapshot.Options{Scratch: t.TempDir(), Examine: func(_ context.Context, f *os.File, size int64) (snapshot.Content, error) {
			if info, err := f.Stat(); err != nil || info.Size() != size {
				t.Errorf("want a file of %d bytes, got %v, %v", size, info, err)
			}
			return snapshot.Content{}, err
		}}
		if _, got := snapshot.Verify(t.Context(), store, name, opt); !errors.Is(got, err) || snapshot.Damaged(got) != want {
			t.Errorf("want %v, which is damage: %t, got %v", err, want, got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	opt := snapshot.Options{Scratch: t.TempDir(), Examine: func(ctx context.Context, _ *os.File, _ int64) (snapshot.Content, error) {
		cancel()
		return snapshot.Content{}, context.Cause(ctx)
	}}
	if _, err := snapshot.Verify(ctx, store, name, opt); !errors.Is(err, context.Canceled) || snapshot.Damaged(err) {
		t.Errorf("given up: want that nothing is known, got %v", err)
	}
}

// padded is a head followed by n zero bytes.
func padded(head []byte, n int64) io.Reader {
	return io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, n))
}

// TestBombs checks that no more is written than the backup declares, and than there is room for.
func TestBombs(t *testing.T) {
	root := t.TempDir()
	store := snapshot.NewDir(root)
	head := forgedDB(laughs(1, 0), noFreelist)
	name := bomb(t, store, padded(head, 32<<20)) // three pages, according to its meta page
	if _, err := snapshot.Verify(t.Context(), store, name, snapshot.Options{Scratch: t.TempDir()}); !snapshot.Damaged(err) || !strings.Contains(err.Error(), "more than 12320 bytes") {
		t.Errorf("more than the database tells: got %v", err)
	}

	large := bytes.Clone(head) // 2^40 minus one pages with a correct checksum: terabytes
	meta := large[16:]
	binary.NativeEndian.PutUint64(meta[40:], 1<<40)
	sum := fnv.New64a()
	sum.Write(meta[:56])
	binary.NativeEndian.PutUint64(meta[56:], sum.Sum64())
	name = bomb(t, store, padded(large, 1<<20))
	if _, err := snapshot.Verify(t.Context(), store, name, snapshot.Options{Scratch: t.TempDir()}); !errors.Is(err, syscall.ENOSPC) || snapshot.Damaged(err) {
		t.Errorf("petabytes: want that there is no room, got %v", err)
	}

	m := forged(midday, "data")
	m.Content.Size = 1 << 62
	forge(t, store, m, "data")
	if _, err := snapshot.Verify(t.Context(), store, m.Name, snapshot.Options{Scratch: t.TempDir()}); err == nil {
		t.Error("exabytes by the sidecar: want an error")
	}
}

// TestTooManyObjects checks that a store that someone has filled with objects is an error for everything that lists it,
// and that nothing is pruned because of a partial listing.
func TestTooManyObjects(t *testing.T) {
	store := snapshot.NewDir(t.TempDir())
	for i := range 4 {
		forge(t, store, forged(midday.Add(time.Duration(i)*time.Hour), "data"), "data")
	}
	before := objects(t, store, "")
	snapshot.LimitObjects(t, len(before))
	if list, err := snapshot.List(t.Context(), store, ours); err != nil || len(list) != 4 {
		t.Errorf("as many as may be: want 4 backups, got %d, %v", len(list), err)
	}
	snapshot.LimitObjects(t, len(before)-1)
	for what, do := range map[string]func() error{
		"List":   func() error { _, err := snapshot.List(t.Context(), store, ours); return err },
		"Latest": func() error { _, _, err := snapshot.Latest(t.Context(), store, ours); return err },
		"Prune": func() error {
			_, err := snapshot.Prune(t.Context(), store, ours, snapshot.Keep{Newest: 1}, midday.Add(1000*time.Hour), false)
			return err
		},
	} {
		if err := do(); !errors.Is(err, snapshot.ErrTooMany) || errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("%s: want that there are too many, got %v", what, err)
		}
	}
	snapshot.LimitObjects(t, len(before))
	if after := objects(t, store, ""); len(after) != len(before) {
		t.Errorf("want %d objects still, got %d", len(before), len(after))
	}
}

// TestHeaders checks that an encrypted backup with the longest accepted header, or with a work factor that would take
// years, is refused soon. No identity is ever a passphrase.
func TestHeaders(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	must(t, err)
	const version = "age-encryption.org/v1\n"
	body := strings.Repeat("A", 43) + "\n"
	share := "CQ" + strings.Repeat("A", 41) + "\n" // a point on the curve
	for name, header := range map[string]string{
		"stanzas": version + strings.Repeat("-> X25519 "+share+body, 8000) + "--- " + body,
		"ssh":     version + strings.Repeat("-> ssh-ed25519 AAAAAA "+share+body, 8000) + "--- " + body,
		"scrypt":  version + "-> scrypt AAAAAAAAAAAAAAAAAAAAAA 62\n" + body + "--- " + body,
		"endless": version + "-> X25519 " + strings.Repeat("A", 4<<20),
	} {
		begun := time.Now()
		file, err := os.Create(filepath.Join(t.TempDir(), "db"))
		must(t, err)
		defer file.Close()
		m := snapshot.Meta{Content: snapshot.Content{Size: 4096}, Trailer: "some", Stored: snapshot.Stored{Codec: "zstd", Encrypted: true}}
		_, err = snapshot.Decode(t.Context(), strings.NewReader(header), file, m, snapshot.Options{Identities: []age.Identity{id}})
		if took := time.Since(begun); err == nil || took > 20*time.Second { // a second, for trying 10,000 keys
			t.Errorf("%s: want an error soon, got %v after %s", name, err, took)
		}
	}
}

// TestSmallObjects checks that small objects that are huge, too deep or of other types are an error, or are listed with
// a problem.
func TestSmallObjects(t *testing.T) {
	for name, text := range map[string]string{
		"huge":     strings.Repeat(" ", 2<<20) + "{}",
		"deep":     strings.Repeat(`{"meta":`, 100000),
		"types":    `{"version":"1","sha256":7,"meta":[]}`,
		"negative": string(snapshot.EncodeRaw(`{"name":"2026-07-01T12:00:00Z-000000","created":"2026-07-01T12:00:00Z","cluster":"prod","content":{"size":-1},"stored":{"size":-9223372036854775808,"codec":"zstd"}}`)),
		"path":     string(snapshot.EncodeRaw(`{"name":"../../etc/passwd","cluster":"../..","stored":{"codec":"../x"}}`)),
		"float":    string(snapshot.EncodeRaw(`{"name":"2026-07-01T12:00:00Z-000000","content":{"size":1e300}}`)),
	} {
		store := snapshot.NewDir(t.TempDir())
		m := forge(t, store, forged(midday, "data"), "data")
		for _, file := range []string{"holdfast.meta.json", "holdfast.pin.json", "holdfast.begin.json"} {
			put(t, store, m.Name+"/"+file, text)
		}
		list, err := snapshot.List(t.Context(), store, ours)
		if err != nil || len(list) != 1 || list[0].Problem == "" {
			t.Errorf("%s: want one backup with a problem, got %+v, %v", name, list, err)
		}
		if _, err := snapshot.Verify(t.Context(), store, m.Name, snapshot.Options{Scratch: t.TempDir()}); err == nil {
			t.Errorf("%s: want that it is not verified", name)
		}
	}
}
