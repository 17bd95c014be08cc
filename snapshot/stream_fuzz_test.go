package snapshot_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"holdfast/snapshot"
)

// stream is one kind of stored stream.
type stream struct {
	data []byte
	meta snapshot.Meta
	opt  snapshot.Options
}

// streams are the good ones: zstd, gzip, zstd that is encrypted, and gzip without anything known beforehand. whole
// is the database they hold.
func streams(t testing.TB) (all []stream, whole []byte) {
	id, err := age.GenerateX25519Identity()
	must(t, err)
	db := smallDB(t)
	for _, opt := range []snapshot.Options{
		{}, {Format: snapshot.FormatManager}, {Recipients: []age.Recipient{id.Recipient()}, Identities: []age.Identity{id}},
	} {
		root := t.TempDir()
		opt.Scratch = t.TempDir()
		meta, err := snapshot.Save(t.Context(), snapshot.NewDir(root), db.Begin(), identity, opt)
		must(t, err)
		file := map[string]string{"zstd": "etcd.backup.zst", "gzip": "etcd.backup.gz"}[meta.Stored.Codec]
		if meta.Stored.Encrypted {
			file += ".age"
		}
		all = append(all, stream{mustRead(t, filepath.Join(root, meta.Name, file)), meta, opt})
	}
	unknown := all[1]
	unknown.meta = snapshot.Meta{Name: unknown.meta.Name, Stored: snapshot.Stored{Codec: "gzip"}}
	_, whole = contentOf(t, db)
	return append(all, unknown), whole
}

// FuzzStream changes a stored stream anywhere, cuts it and adds to it, and wants an error or the very same database: no
// panic, no more bytes than there are to be. The digest of the stored bytes, which would notice, is left out.
func FuzzStream(f *testing.F) {
	all, whole := streams(f)
	for kind, s := range all {
		for _, at := range []int{0, 2, 4, 5, 8, 10, 20, 60, 100, len(s.data) / 2, len(s.data) - 30, len(s.data) - 6, len(s.data) - 1} {
			f.Add(uint8(kind), uint32(at), byte(0xff), uint32(len(s.data)), []byte(nil))
			f.Add(uint8(kind), uint32(at), byte(0x01), uint32(len(s.data)), []byte(nil))
			f.Add(uint8(kind), uint32(0), byte(0), uint32(at), []byte(nil))
		}
		f.Add(uint8(kind), uint32(0), byte(0), uint32(len(s.data)), []byte("garbage"))
		f.Add(uint8(kind), uint32(0), byte(0), uint32(len(s.data)), s.data)
		f.Add(uint8(kind), uint32(0), byte(0), uint32(0), []byte{0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}) // a window of exabytes
		f.Add(uint8(kind), uint32(0), byte(0), uint32(0), append([]byte("age-encryption.org/v1\n-> X25519 "), bytes.Repeat([]byte("A"), 4096)...))
		f.Add(uint8(kind), uint32(0), byte(0), uint32(0), append([]byte{0x1f, 0x8b, 8, 0x08, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte("x"), 4096)...)) // an endless name
	}
	path := filepath.Join(f.TempDir(), "db")
	f.Fuzz(func(t *testing.T, kind uint8, at uint32, flip byte, cut uint32, tail []byte) {
		s := all[int(kind)%len(all)]
		b := bytes.Clone(s.data)
		b[int(at)%len(b)] ^= flip
		b = append(b[:min(int(cut), len(b))], tail...)
		file, err := os.Create(path)
		must(t, err)
		defer file.Close()
		meta, err := snapshot.Decode(t.Context(), bytes.NewReader(b), file, s.meta, s.opt)
		got := mustRead(t, path)
		if len(got) > len(whole) {
			t.Errorf("wrote %d bytes, more than %d", len(got), len(whole))
		}
		if err == nil && !bytes.Equal(got, whole) {
			t.Errorf("accepted %d other bytes as %+v", len(got), meta)
		}
	})
}

// TestStreamMemory wants that a stream which says that it needs gigabytes to be decompressed is refused.
func TestStreamMemory(t *testing.T) {
	all, _ := streams(t)
	var b bytes.Buffer
	enc, err := zstd.NewWriter(&b, zstd.WithWindowSize(1<<28), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(false))
	must(t, err)
	_, err = enc.Write(make([]byte, 1<<20))
	must(t, err)
	must(t, enc.Flush())
	must(t, enc.Close())
	file, err := os.Create(filepath.Join(t.TempDir(), "db"))
	must(t, err)
	defer file.Close()
	if _, err := snapshot.Decode(t.Context(), &b, file, all[0].meta, snapshot.Options{}); !errors.Is(err, zstd.ErrWindowSizeExceeded) {
		t.Errorf("window of 256 MiB: want that it is refused, got %v", err)
	}
}
