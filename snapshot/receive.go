package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.etcd.io/bbolt"
)

// Receive reads a database from a stream of etcd's Snapshot call, which ends with its SHA-256, into a scratch file, and
// opens it to be saved. A truncated stream is an error. The caller closes the result.
func Receive(ctx context.Context, stream io.Reader, opt Options) (_ Tx, err error) {
	file, err := newScratch(ctx, opt.Scratch)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	opt.Rate = 0   // Rate limits writing to the store
	var found Meta // only the stream tells what is known
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

// received is a database in a file, as the transaction for a backup. Its bytes are those that etcd sent, so that their
// digest stays the one that etcd sent.
type received struct {
	*bbolt.Tx
	file *io.SectionReader
}

func (r *received) Size() int64 { return r.file.Size() }

func (r *received) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(r.file, 0, r.Size()))
}

func (r *received) Close() error {
	db := r.DB()
	return errors.Join(r.Rollback(), db.Close())
}
