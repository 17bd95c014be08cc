package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"testing"
	"testing/iotest"

	"holdfast/snapshot"
	"holdfast/snapshot/snapshottest"
)

// A truncated snapshot stream is refused, however it is split into pieces.
func TestReceive(t *testing.T) {
	source := snapshottest.NewDB(t)
	source.Fill(100, 1000)
	var b bytes.Buffer
	tx := source.Begin()
	if _, err := tx.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	tx.Close()
	db := b.Bytes()
	sum := sha256.Sum256(db)
	whole := append(bytes.Clone(db), sum[:]...)
	flipped := bytes.Clone(whole)
	flipped[len(db)/2] ^= 1
	for name, tt := range map[string]struct {
		stream io.Reader
		ok     bool
	}{
		"whole":           {bytes.NewReader(whole), true},
		"in halves":       {iotest.HalfReader(bytes.NewReader(whole)), true},
		"EOF with data":   {iotest.DataErrReader(bytes.NewReader(whole)), true},
		"byte by byte":    {iotest.OneByteReader(bytes.NewReader(whole)), true},
		"no trailer":      {bytes.NewReader(db), false},
		"cut":             {bytes.NewReader(whole[:len(whole)-512]), false},
		"cut in trailer":  {bytes.NewReader(whole[:len(whole)-1]), false},
		"a bit is wrong":  {bytes.NewReader(flipped), false},
		"nothing":         {bytes.NewReader(nil), false},
		"trailer alone":   {bytes.NewReader(sum[:]), false},
		"the server died": {io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), iotest.ErrReader(io.ErrUnexpectedEOF)), false},
	} {
		got, err := snapshot.Receive(t.Context(), tt.stream, snapshot.Options{Scratch: t.TempDir()})
		if (err == nil) != tt.ok {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil {
			continue
		}
		var copied bytes.Buffer
		_, err = got.WriteTo(&copied)
		if err != nil || got.Size() != int64(len(db)) || !bytes.Equal(copied.Bytes(), db) {
			t.Errorf("%s: got %d bytes, %v, want those of the database", name, copied.Len(), err)
		}
		if _, err := snapshot.ContentOf(t.Context(), got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := got.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
