package snapshot

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"unsafe"

	"go.etcd.io/bbolt"

	"holdfast/durable"
)

// Verification is what Verify has found out.
type Verification struct {
	// Meta is the sidecar; of a legacy backup, which has none, what the data says.
	Meta
	// Full says that all was proven. Otherwise the backup is encrypted, there was no identity to decrypt it, and only
	// the stored bytes were compared with their digest.
	Full bool `json:"full"`
}

// Verify proves that a backup is whole: that the stored bytes are those that were written, that they decrypt and
// decompress to the database and its SHA-256, that every page of the database is sound, and that it holds what the
// sidecar says. Of a legacy backup, which has no sidecar, it proves all but the first and the last. The error names
// what differs. It is ErrNotFound if there is no such backup.
func Verify(ctx context.Context, store Store, name string, opt Options) (v Verification, err error) {
	meta, err := readMeta(ctx, store, name)
	if err != nil {
		return Verification{}, err
	}
	background(func() { v, err = verify(ctx, store, meta, opt) })
	return v, err
}

// verify does the work of Verify for a sidecar that may not be stored yet.
func verify(ctx context.Context, store Store, meta Meta, opt Options) (v Verification, err error) {
	scratch, err := newScratch(ctx, opt.Scratch)
	if err == nil {
		defer scratch.Close()
		opt.Rate = 0 // what is read back is not sent, and the scratch file is written to stay in memory
		meta, err = prove(ctx, store, meta, scratch, opt)
	}
	switch {
	case errors.Is(err, errNoIdentity): // and the stored bytes are those that were written
		return Verification{Meta: meta}, nil
	case err != nil:
		return Verification{Meta: meta}, fmt.Errorf("verify backup %s: %w", meta.Name, err)
	}
	return Verification{Meta: meta, Full: true}, nil
}

// legacy says that nothing is known of the data but the data itself.
func (m Meta) legacy() bool { return m.Trailer == "" }

// Recorded says that a sidecar tells what was saved. Otherwise etcd-manager alone wrote the backup, and what Fetch and
// Verify tell of its content is what they found in the data.
func (m Meta) Recorded() bool { return m.Cluster != "" }

// prove fetches the database of a backup into file, which it closes when all goes well, and proves all that Verify
// promises. The result is meta; of a legacy backup it is completed.
func prove(ctx context.Context, store Store, meta Meta, file *target, opt Options) (Meta, error) {
	found := meta
	if err := unpack(ctx, store, &found, file, opt); err != nil {
		return meta, err
	}
	if err := file.durable(ctx); err != nil {
		return meta, err
	}
	got, err := opt.examine(ctx, file.File, found.Content.Size)
	switch {
	case err == nil && meta.legacy():
		found.Content = got
		return found, nil
	case err == nil:
		err = meta.Content.differ(got)
	case ctx.Err() != nil: // nothing is known
		return meta, context.Cause(ctx)
	case errors.Is(err, ErrNotExamined):
		return meta, fail(reasonScratch, err)
	}
	if err != nil {
		return meta, fail(reasonMismatch, fmt.Errorf("check database: %w", err))
	}
	return meta, nil
}

// ErrNotExamined is the error of an [Options].Examine, or of a drill, that could not do its work: it says nothing of
// the database.
var ErrNotExamined = errors.New("the database was not examined")

// examine does what Examine does, where opt wants it done, and closes f.
func (opt Options) examine(ctx context.Context, f *os.File, size int64) (Content, error) {
	if opt.Examine == nil {
		return Examine(ctx, f, size)
	}
	c, err := opt.Examine(ctx, f, size)
	return c, errors.Join(err, f.Close())
}

// unpack fetches the data, decrypts and decompresses it into file, and compares it with what meta says of the bytes. It
// never reads nor writes more than meta says there are. What meta does not know of a legacy backup, it fills in.
func unpack(ctx context.Context, store Store, meta *Meta, file *target, opt Options) error {
	object, err := store.Get(ctx, object(meta.Name, meta.Stored.dataObject()))
	if errors.Is(err, ErrNotFound) {
		return missing(ctx, store, meta, err)
	}
	if err != nil {
		return fail(reasonStore, err)
	}
	defer object.Close()
	most := int64(math.MaxInt64)
	if !meta.legacy() {
		most = meta.Stored.Size + 1
	}
	pr, pw := io.Pipe()
	stored := newDigest()
	fetched := make(chan error, 1)
	go func() {
		out := newFan(stored, pw)
		_, err := io.Copy(out, io.LimitReader(ctxReader{ctx, object}, most))
		err = cmp.Or(err, out.Close())
		pw.CloseWithError(err)
		fetched <- err
	}()

	// A pipe wakes its writer for each read, and the decoder reads the head of each block alone.
	decErr := decode(ctx, bufio.NewReaderSize(pr, chunkSize), file, meta, opt)
	if f, ok := errors.AsType[*failure](decErr); ok && f.reason == reasonScratch {
		pr.CloseWithError(decErr)
		<-fetched
		return decErr
	}
	// The rest is read even when decoding has failed, because a changed byte explains that better than the decoder.
	io.Copy(io.Discard, pr) // its error is fetched
	if err := <-fetched; err != nil {
		return fail(reasonStore, fmt.Errorf("read stored bytes: %w", err))
	}
	if err := compareStored(meta, stored); err != nil {
		return err
	}
	return decErr
}

// missing returns the failure to get data that the store says is not there. It speaks against the backup only if the
// store does not list the data either: such a verdict is recorded, and stands when the store has the data again.
func missing(ctx context.Context, store Store, meta *Meta, err error) error {
	switch e, listErr := lookup(ctx, store, meta.Name); {
	case listErr != nil:
		return fail(reasonStore, errors.Join(errors.New(err.Error()), listErr)) // ErrNotFound is for the whole backup
	case e.has(meta.Stored.dataObject()):
		return fail(reasonStore, fmt.Errorf("the store lists the data, and does not give it: %v", err))
	}
	return fail(reasonMismatch, fmt.Errorf("the data is missing: %v", err))
}

// compareStored compares what was read with what was written, or takes it down for a legacy backup.
func compareStored(meta *Meta, got *digest) error {
	want := meta.Stored
	switch {
	case want.SHA256 == "":
		meta.Stored.Size, meta.Stored.SHA256 = got.size, got.hex()
	case got.size > want.Size:
		return fail(reasonMismatch, fmt.Errorf("stored size: want %d bytes, got at least %d", want.Size, got.size))
	case got.size < want.Size:
		return fail(reasonMismatch, fmt.Errorf("stored size: want %d bytes, got %d", want.Size, got.size))
	case got.hex() != want.SHA256:
		return fail(reasonMismatch, fmt.Errorf("stored bytes: want sha256 %s, got %s", want.SHA256, got.hex()))
	}
	return nil
}

// decode turns the stored stream r into the database and compares its trailer.
func decode(ctx context.Context, r io.Reader, file *target, meta *Meta, opt Options) (err error) {
	if meta.Stored.Encrypted {
		if r, err = decrypt(r, opt.Identities); err != nil {
			return fail(reasonMismatch, err)
		}
	}
	dec, err := newDecoder(r, meta.Stored.Codec)
	if err != nil {
		return fail(reasonMismatch, fmt.Errorf("decompress: %w", err))
	}
	defer dec.Close()
	return receive(ctx, dec, file, meta, "verifying", opt)
}

// receive writes the database of a stream into file and compares its trailer. Of a legacy backup it fills in what the
// stream tells.
func receive(ctx context.Context, r io.Reader, file *target, meta *Meta, phase string, opt Options) (err error) {
	data := bufio.NewReader(r)
	size := meta.Content.Size
	if meta.legacy() {
		if size, err = databaseSize(data); err != nil {
			return fail(reasonMismatch, fmt.Errorf("decompress: %w", err))
		}
		meta.Content.Size = size
	}
	if err := file.reserve(size); err != nil {
		return err
	}

	raw := newDigest()
	var out *fan
	file.hangs = func(err error) { out.leave(err) }
	out = newFan(file, io.MultiWriter(raw, newMeter(phase, size, opt.Progress)))
	_, err = io.CopyN(out, limited(ctx, data, opt.Rate), size)
	if closeErr := out.Close(); closeErr != nil { // the file's, which explains itself
		return closeErr
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("want %d bytes, got %d", size+trailerSize, raw.size)
	}
	if err != nil {
		return fail(reasonMismatch, fmt.Errorf("decompress: %w", err))
	}
	return checkTrailer(data, raw, meta)
}

// trailerSize is the number of bytes after the database in the decompressed stream: its SHA-256.
const trailerSize = sha256.Size

// checkTrailer reads the trailer from r, compares it with what meta says and with the database, whose digest is raw,
// and wants nothing to follow.
func checkTrailer(r io.Reader, raw *digest, meta *Meta) error {
	trailer := make([]byte, trailerSize)
	if _, err := io.ReadFull(r, trailer); err != nil {
		return fail(reasonMismatch, fmt.Errorf("decompress trailer: %w", err))
	}
	if n, err := r.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return fail(reasonMismatch, fmt.Errorf("decompress: more than %d bytes: %w", raw.size+trailerSize, err))
	}
	got := hex.EncodeToString(trailer)
	if meta.legacy() {
		meta.Trailer = got
	}
	if got != meta.Trailer {
		return fail(reasonMismatch, fmt.Errorf("trailer: want %s, got %s", meta.Trailer, got))
	}
	if sum := raw.hex(); sum != meta.Trailer {
		return fail(reasonMismatch, fmt.Errorf("database: want sha256 %s, got %s", meta.Trailer, sum))
	}
	return nil
}

// Examine opens the database of size bytes in f read-only, checks all its pages, returns what it holds, and closes f.
// The time is bounded by the size and the memory is small, no matter who has made the database; see the dangers above
// for what is guarded against nevertheless. f needs no name.
func Examine(ctx context.Context, f *os.File, size int64) (c Content, err error) {
	err = guard(func() error {
		db, err := openDatabase(f)
		if err != nil {
			return err
		}
		defer db.Close()
		return db.View(func(tx *bbolt.Tx) error {
			if tx.Size() != size {
				return fmt.Errorf("size by its own account: want %d bytes, got %d", size, tx.Size())
			}
			if info, err := f.Stat(); err != nil || info.Size() < size { // bbolt has mapped the file, not what it says
				return cmp.Or(err, fmt.Errorf("the file has fewer than %d bytes", size))
			}
			data := mapped(db, size)
			readAhead(data)
			if err := checkPages(data, db.Info().PageSize, uint64(tx.Cursor().Bucket().Root())); err != nil {
				return err
			}
			c, err = ContentOf(ctx, tx)
			return err
		})
	})
	return c, err
}

// mapped returns the first size bytes of a database as they are mapped, while a transaction is open.
func mapped(db *bbolt.DB, size int64) []byte {
	at := db.Info().Data
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size)
}

// openDatabase opens a database read-only, which is closed with f.
func openDatabase(f *os.File) (*bbolt.DB, error) {
	return bbolt.Open(f.Name(), 0, &bbolt.Options{
		ReadOnly: true,
		// It may have no name any more, and bbolt opens it only once.
		OpenFile: func(string, int, os.FileMode) (*os.File, error) { return f, nil },
	})
}

// Fetch writes the database of a backup, decompressed and without the trailer, to a new file at path, and proves on the
// way all that Verify proves. If it returns nil, the file is durable; after an error it is gone. The result is the
// sidecar, or what is known of a legacy backup. An encrypted backup needs an identity in opt. opt.Rate limits the
// writing to the file.
func Fetch(ctx context.Context, store Store, name, path string, opt Options) (meta Meta, err error) {
	meta, err = readMeta(ctx, store, name)
	if err != nil {
		return Meta{}, err
	}
	file, err := newTarget(ctx, path)
	if err != nil {
		return Meta{}, fmt.Errorf("fetch backup %s: %w", name, err)
	}
	defer func() {
		file.Close()
		if err != nil {
			left, _ := durable.Soon(answerTime, func() error { return os.Remove(path) }) // its disk may hang
			err = errors.Join(fmt.Errorf("fetch backup %s: %w", name, err), left)
			meta = Meta{}
		}
	}()
	background(func() { meta, err = prove(ctx, store, meta, file, opt) })
	return meta, err
}
