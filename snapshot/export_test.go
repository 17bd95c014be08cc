package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"
	"time"
)

// Internals that external tests forge and fuzz.
var (
	EncodeMeta = encodeMeta
	DecodeMeta = decodeMeta
	FormatName = formatName
	ParseName  = parseName

	EncodeBegin       = encodeBegin
	DecodeBegin       = decodeBegin
	EncodeManagerMeta = encodeManagerMeta
	DecodeManagerMeta = decodeManagerMeta
	CheckBackupName   = checkBackupName
	Find              = find
	ReadMeta          = readMeta
)

// LimitObjects makes a listing of more than n objects too long, until the test ends.
func LimitObjects(t testing.TB, n int) {
	before := maxObjects
	maxObjects = n
	t.Cleanup(func() { maxObjects = before })
}

// RawOf returns the part of a sidecar that its checksum covers, and EncodeRaw makes a sidecar of one.
func RawOf(text []byte) string {
	var file struct{ Meta json.RawMessage }
	if err := json.Unmarshal(text, &file); err != nil {
		panic(err)
	}
	return string(file.Meta)
}

func EncodeRaw(meta string) []byte {
	return fmt.Appendf(nil, sidecar, sha256.Sum256([]byte(meta)), meta)
}

// Begin is the object that reserves a name.
type Begin = begin

// Decode writes the database that a Verify has fetched to f, and returns meta, completed for a legacy backup.
func Decode(ctx context.Context, r io.Reader, f *os.File, meta Meta, opt Options) (Meta, error) {
	err := decode(ctx, r, &target{File: f, path: f.Name()}, &meta, opt)
	return meta, err
}

// CheckFile checks the database in a file, whatever its content.
func CheckFile(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = Examine(ctx, f, info.Size())
	return err
}

// Made returns the backup from which the schedule counts, and Held the newest one, for drills and the status.
func Made(ctx context.Context, store Store, id Identity, now time.Time) (Meta, error) {
	h, err := hold(ctx, store, id, now)
	return h.made, err
}

// Held: see Made.
func Held(ctx context.Context, store Store, id Identity, now time.Time) (Meta, error) {
	h, err := hold(ctx, store, id, now)
	return h.Newest, err
}
