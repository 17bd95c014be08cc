package snapshot

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"
)

// What tests forge and fuzz from outside.
var (
	EncodeMeta = encodeMeta
	DecodeMeta = decodeMeta
	FormatName = formatName
	ParseName  = parseName
)

// Decode decompresses what a Verify has fetched.
func Decode(r io.Reader, w io.Writer, meta Meta) error { return decode(r, w, sha256.New(), meta) }

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
	_, err = openDatabase(ctx, f, info.Size())
	return err
}

// Due tells when a keeper that knows a backup made at created, and saves every so often, makes the next attempt.
func Due(created time.Time, every time.Duration, now time.Time) time.Time {
	s := state{every: every, known: true, newest: Meta{Created: created}}
	return s.due(now)
}
