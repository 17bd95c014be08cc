package etcdclient

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"go.etcd.io/bbolt"

	"holdfast/snapshot"
)

// receive writes the database of a snapshot stream into f and returns its size in bytes. The stream ends with the
// SHA-256 of the database (etcd, server/etcdserver/api/v3rpc/maintenance.go), which tells a whole one from one cut
// short. expected is about how many bytes will come, for progress.
func receive(f *os.File, stream io.Reader, expected int64, progress func(snapshot.Progress)) (int64, error) {
	const step = 4 << 20
	sum, buf, held, size := sha256.New(), make([]byte, 256<<10), 0, int64(0)
	for told := int64(0); ; {
		// The last 32 bytes read are held back: they may be the trailer.
		n, err := stream.Read(buf[held:])
		if n += held; n > sha256.Size {
			sum.Write(buf[:n-sha256.Size])
			if _, err := f.Write(buf[:n-sha256.Size]); err != nil {
				if errors.Is(err, syscall.ENOSPC) {
					err = fmt.Errorf("set snapshot.scratch to a directory with room for %d bytes: %w", expected, err)
				}
				return 0, fmt.Errorf("write scratch file: %w", err)
			}
			size += int64(n - sha256.Size)
			n = copy(buf, buf[n-sha256.Size:n])
		}
		held = n
		if size-told >= step {
			told = size
			progress(snapshot.Progress{Phase: "fetching", Done: size, Total: max(size, expected)})
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if held < sha256.Size || size%512 != 0 || !bytes.Equal(sum.Sum(nil), buf[:held]) {
		return 0, fmt.Errorf("the stream ended after %d bytes without the digest of what it sent: "+
			"it was cut short, try again", size)
	}
	return size, nil
}

// fetched is a database in a file, as the transaction that a backup is made of.
type fetched struct {
	file *os.File
	size int64
	db   *bbolt.DB
	tx   *bbolt.Tx
}

var _ snapshot.Tx = (*fetched)(nil)

// openFetched opens the database of size bytes in f, which is closed with it, and on an error too.
func openFetched(f *os.File, size int64) (*fetched, error) {
	db, err := bbolt.Open(f.Name(), 0, &bbolt.Options{
		ReadOnly: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f, nil }, // it has no name any more
	})
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	tx, err := db.Begin(false)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", err), db.Close())
	}
	return &fetched{f, size, db, tx}, nil
}

// Size implements [snapshot.Tx].
func (t *fetched) Size() int64 { return t.size }

// WriteTo implements [snapshot.Tx]. The bytes are those that etcd sent, so that their digest stays what etcd said.
func (t *fetched) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, io.NewSectionReader(t.file, 0, t.size))
}

// Bucket implements [snapshot.Tx].
func (t *fetched) Bucket(name []byte) *bbolt.Bucket { return t.tx.Bucket(name) }

// Close implements [snapshot.Tx].
func (t *fetched) Close() error { return errors.Join(t.tx.Rollback(), t.db.Close()) }
