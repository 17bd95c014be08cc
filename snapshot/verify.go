package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"syscall"

	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Verify proves that a backup is whole: that the stored bytes are those that were written, that they decompress to
// the database and its SHA-256, that every page of the database is sound, and that it holds what the sidecar says.
// The error names what differs. It is ErrNotFound if there is no such backup. The result is the sidecar.
func Verify(ctx context.Context, store Store, cluster, name string, opt Options) (Meta, error) {
	meta, err := readMeta(ctx, store, cluster, name)
	if err != nil {
		return Meta{}, err
	}
	return meta, verifyData(ctx, store, meta, opt)
}

// verifyData does the work of Verify for a sidecar that may not be stored yet.
func verifyData(ctx context.Context, store Store, meta Meta, opt Options) error {
	err := func() error {
		scratch, err := newScratch(opt.Scratch, meta.Content.Size)
		if err != nil {
			return err
		}
		defer scratch.Close()
		if err := download(ctx, store, meta, scratch, opt); err != nil {
			return err
		}
		return checkDatabase(ctx, scratch.File, meta.Content)
	}()
	if err != nil {
		return fmt.Errorf("verify backup %s: %w", meta.Name, err)
	}
	return nil
}

// download fetches and decompresses the data into scratch and compares it with what meta says of the bytes. It never
// reads nor writes more than meta says there are.
func download(ctx context.Context, store Store, meta Meta, scratch io.Writer, opt Options) error {
	object, err := store.Get(ctx, object(meta.Cluster, meta.Name, dataObject))
	if err != nil {
		return fail(reasonStore, err)
	}
	defer object.Close()
	stored := &source{from: io.LimitReader(ctxReader{ctx, object}, meta.Stored.Size+1), sum: sha256.New()}
	raw := sha256.New()
	decErr := decode(stored, io.MultiWriter(scratch, raw, newMeter("verifying", meta.Content.Size, opt.Progress)), raw, meta)
	if f := (*failure)(nil); errors.As(decErr, &f) && f.reason == reasonScratch {
		return decErr
	}
	if stored.err != nil {
		return fail(reasonStore, fmt.Errorf("read stored bytes: %w", stored.err))
	}
	// The rest is read even when decoding has failed, because a changed byte explains that better than the decoder.
	if _, err := io.Copy(io.Discard, stored); err != nil {
		return fail(reasonStore, fmt.Errorf("read stored bytes: %w", err))
	}
	if stored.size != meta.Stored.Size {
		return fail(reasonMismatch, fmt.Errorf("stored size: want %d bytes, got %s%d", meta.Stored.Size, atLeast(stored.size > meta.Stored.Size), stored.size))
	}
	if got := hex.EncodeToString(stored.sum.Sum(nil)); got != meta.Stored.SHA256 {
		return fail(reasonMismatch, fmt.Errorf("stored bytes: want sha256 %s, got %s", meta.Stored.SHA256, got))
	}
	return decErr
}

func atLeast(yes bool) string {
	if yes {
		return "at least "
	}
	return ""
}

// decode decompresses r into w, which also feeds raw, and compares the trailer.
func decode(r io.Reader, w io.Writer, raw hash.Hash, meta Meta) error {
	// Save's encoder uses a window of 4 MiB. The bound keeps a forged header from asking for more memory.
	dec, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return fail(reasonMismatch, fmt.Errorf("decompress: %w", err))
	}
	defer dec.Close()
	if n, err := io.CopyN(w, dec, meta.Content.Size); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("want %d bytes, got %d", meta.Content.Size+sha256.Size, n)
		}
		return fail(reasonMismatch, fmt.Errorf("decompress: %w", err))
	}
	sum := hex.EncodeToString(raw.Sum(nil))
	trailer := make([]byte, sha256.Size)
	if _, err := io.ReadFull(dec, trailer); err != nil {
		return fail(reasonMismatch, fmt.Errorf("decompress trailer: %w", err))
	}
	if n, err := io.CopyN(io.Discard, dec, 1); n > 0 || !errors.Is(err, io.EOF) {
		return fail(reasonMismatch, fmt.Errorf("decompress: more than %d bytes: %w", meta.Content.Size+sha256.Size, err))
	}
	if got := hex.EncodeToString(trailer); got != meta.Trailer {
		return fail(reasonMismatch, fmt.Errorf("trailer: want %s, got %s", meta.Trailer, got))
	}
	if sum != meta.Trailer {
		return fail(reasonMismatch, fmt.Errorf("database: want sha256 %s, got %s", meta.Trailer, sum))
	}
	return nil
}

// checkDatabase checks the database in f and compares what it holds with want.
func checkDatabase(ctx context.Context, f *os.File, want Content) error {
	got, err := openDatabase(ctx, f, want.Size)
	if err == nil {
		err = want.differ(got)
	}
	if err != nil {
		return fail(reasonMismatch, fmt.Errorf("check database: %w", err))
	}
	return nil
}

// openDatabase opens the database of size bytes in f read-only, checks all its pages and returns what it holds.
func openDatabase(ctx context.Context, f *os.File, size int64) (c Content, err error) {
	err = guard(func() error {
		db, err := bbolt.Open(f.Name(), 0, &bbolt.Options{
			ReadOnly: true,
			// The file has no name any more, and bbolt opens it only once.
			OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f, nil },
		})
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(func(tx *bbolt.Tx) error {
			if tx.Size() != size {
				return fmt.Errorf("size by its own account: want %d bytes, got %d", size, tx.Size())
			}
			root := uint64(tx.Cursor().Bucket().Root())
			if err := checkPages(f, size, db.Info().PageSize, root); err != nil {
				return err
			}
			c, err = ContentOf(ctx, tx)
			return err
		})
	})
	return c, err
}

// source counts and hashes what is read through it.
type source struct {
	from io.Reader
	sum  hash.Hash
	size int64
	err  error // of from, if not EOF: then nothing can be said about the bytes
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.sum.Write(p[:n])
	s.size += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// scratch is a temporary file without a name: nothing is left of it, however this process ends.
type scratch struct {
	*os.File
	size int64
}

// newScratch makes a scratch file in dir and checks that size bytes fit there, before it fills a disk others share.
func newScratch(dir string, size int64) (*scratch, error) {
	f, err := os.CreateTemp(dir, "holdfast-verify-")
	if err != nil {
		return nil, fail(reasonScratch, fmt.Errorf("create scratch file: %w", err))
	}
	s := &scratch{f, size}
	var free unix.Statfs_t
	if err = os.Remove(f.Name()); err == nil {
		err = unix.Fstatfs(int(f.Fd()), &free)
	}
	if err == nil && int64(free.Bavail) < size/int64(free.Bsize) {
		err = syscall.ENOSPC
	}
	if err != nil {
		f.Close()
		return nil, s.explain(err)
	}
	return s, nil
}

func (s *scratch) Write(p []byte) (int, error) {
	n, err := s.File.Write(p)
	if err != nil {
		return n, s.explain(err)
	}
	return n, nil
}

// explain tells what to do about an error of the scratch file.
func (s *scratch) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("verification needs %d bytes there: set snapshot.scratch to a directory with more room: %w", s.size, err)
	}
	return fail(reasonScratch, fmt.Errorf("write scratch file %s: %w", s.Name(), err))
}
