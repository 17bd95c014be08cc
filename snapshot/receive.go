package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/bbolt"
)

// Receive takes the database of a stream as etcd's Snapshot call sends it, with its SHA-256 at the end, into a scratch
// file, and opens it to be saved. A stream that is cut short is an error. The caller closes the result.
func Receive(ctx context.Context, stream io.Reader, opt Options) (_ Tx, err error) {
	file, err := newScratch(opt.Scratch)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	opt.Rate = 0   // which bounds what goes to the store
	var found Meta // known is only what the stream tells
	background(func() { err = receive(ctx, stream, file, &found, "fetching", opt) })
	if err != nil {
		return nil, fmt.Errorf("receive the database: %w", err)
	}
	db, err := openDatabase(file.File)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	tx, err := db.Begin(false)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", errors.Join(err, db.Close()))
	}
	return &received{tx, io.NewSectionReader(file, 0, found.Content.Size)}, nil
}

// received is a database in a file, as the transaction that a backup is made of. Its bytes are those that etcd sent, so
// that their digest stays what etcd said.
type received struct {
	*bbolt.Tx
	file *io.SectionReader
}

// Size implements [Tx].
func (r *received) Size() int64 { return r.file.Size() }

// WriteTo implements [Tx].
func (r *received) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(r.file, 0, r.Size()))
}

// Close implements [Tx].
func (r *received) Close() error {
	db := r.DB()
	return errors.Join(r.Rollback(), db.Close())
}
