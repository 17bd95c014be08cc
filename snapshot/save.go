package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"filippo.io/age"
)

// Options of Save, Verify, Fetch and Copy.
type Options struct {
	// Scratch is an existing directory with room for the decompressed database; "" is the system's temporary one.
	Scratch string
	// Progress, if set, is told of the progress about a hundred times a phase, by one goroutine at a time, not always
	// the caller's. It must not block.
	Progress func(Progress)
	// Rate bounds what Save and Copy send to the store, compressed, and what Fetch writes, in bytes a second; 0 is no
	// bound. The scratch file of a verification is not under it: it seldom gets to a disk at all.
	Rate int64

	// Format and Level say how Save writes: FormatNative ("" as well) or FormatManager, and one of Levels or "".
	Format string
	Level  string
	// Recipients, if any, are whom Save encrypts to; FormatManager allows none.
	Recipients []age.Recipient
	// Identities decrypt. Without the right one an encrypted backup is verified by the digest of its bytes only, and
	// cannot be fetched. Save needs none: it reads back with a key of its own that it then forgets.
	Identities []age.Identity
	// Examine, if set, stands in for the function Examine in Verify and Fetch: one that calls it in a process of its
	// own that may crash. Its error speaks against the database unless it is ErrNotExamined. It leaves f open.
	Examine func(ctx context.Context, f *os.File, size int64) (Content, error)
	// By is who verifies and drills: a node, or a person on a machine. Proofs tell it.
	By string
}

// The formats of a backup.
const (
	FormatNative  = "native"       // zstd, our sidecar
	FormatManager = "etcd-manager" // gzip and etcd-manager's metadata, our sidecar beside them
)

// Levels of compression, from the least CPU to the smallest backup.
var Levels = []string{"fastest", "default", "better", "best"}

// Progress is how far a Save or a Verify has come.
type Progress struct {
	// Phase is "copying" or "verifying".
	Phase string `json:"phase"`
	// Done and Total count bytes of the database.
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

const (
	// stall is how long a store may accept nothing while the transaction is open: held open, it keeps the pages it
	// sees from being reused and blocks a defragmentation.
	stall = time.Minute
	// cleanup is how long a failed Save tries to remove what it wrote, also when its context has ended.
	cleanup = 10 * time.Second
)

var (
	errSinkClosed = errors.New("the store stopped reading")
	errStalled    = fail(reasonStore, fmt.Errorf("store backup: the store accepted nothing for %s", stall))
	errAborted    = fail(reasonSource, errors.New("copy database: the member is about to stop"))
)

// Save stores what tx sees as a new backup of meta.Cluster, reads it back, and commits it when it is proven. It closes
// tx in any case, as soon as the bytes are read. The result is the sidecar as stored. On an error there is no new
// backup, and what was written is removed again if the store lets us.
func Save(ctx context.Context, store Store, tx Tx, meta Meta, opt Options) (saved Meta, err error) {
	background(func() { saved, err = save(ctx, store, tx, meta, opt) })
	return saved, err
}

func save(ctx context.Context, store Store, tx Tx, meta Meta, opt Options) (Meta, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	closed := make(chan struct{})
	closeTx := sync.OnceValue(func() error { close(closed); return tx.Close() })
	defer closeTx()
	if member, ok := tx.(Abortable); ok {
		go func() {
			select {
			case <-member.Aborted():
				cancel(errAborted)
			case <-closed: // from now on the member's end does not matter
			}
		}()
	}
	if err := checkOrder(&meta, opt); err != nil {
		return Meta{}, fail(reasonSource, err)
	}
	var err error
	if meta.StorageVersion, err = storageVersionOf(tx); err != nil {
		return Meta{}, fail(reasonDatabase, fmt.Errorf("read database: %w", err))
	}
	// Before the copy, not beside it, which made the p99 of puts three times as long: and while no store waits.
	if err = load(ctx, tx); err == nil {
		meta.Content, err = ContentOf(ctx, tx)
	}
	if err != nil {
		return Meta{}, cmp.Or(endOf(ctx), fail(reasonDatabase, fmt.Errorf("read database: %w", err)))
	}
	// A store may hang here, too, and etcd does not close under an open transaction.
	hold := context.AfterFunc(ctx, func() { _ = closeTx() })
	if err := reserve(ctx, store, &meta); err != nil {
		return Meta{}, cmp.Or(endOf(ctx), fail(reasonStore, err))
	}
	if !hold() {
		return Meta{}, errors.Join(endOf(ctx), withdraw(ctx, store, meta.Name))
	}
	key, err := upload(ctx, store, tx, closeTx, &meta, opt)
	if err == nil {
		opt.Identities = []age.Identity{key}
		err = readBack(ctx, store, meta, opt)
	}
	if err == nil {
		err = commit(ctx, store, &meta)
	}
	if err != nil {
		return Meta{}, errors.Join(err, withdraw(ctx, store, meta.Name))
	}
	return meta, nil
}

// endOf is the failure that has ended ctx, or that the caller did, and nil while it has not ended.
func endOf(ctx context.Context) error {
	err := context.Cause(ctx)
	if err != nil && !errors.As(err, new(*failure)) {
		err = fail(reasonInterrupted, fmt.Errorf("store backup: %w", err))
	}
	return err
}

// withdraw removes what a failed save has written, also when its context has ended.
func withdraw(ctx context.Context, store Store, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	return remove(ctx, store, name)
}

// checkOrder checks what the caller wants of Save before anything is done, and tells in meta how it will be stored.
func checkOrder(meta *Meta, opt Options) error {
	if err := meta.checkOrigin(); err != nil {
		return err
	}
	codec, _, err := codecOf(opt)
	if err != nil {
		return err
	}
	meta.Stored = Stored{Codec: codec, Encrypted: len(opt.Recipients) > 0}
	if meta.Stored.forManager() {
		_, err = encodeManagerMeta(*meta)
	}
	return err
}

// readBack verifies what has been stored. Nothing less than all will do.
func readBack(ctx context.Context, store Store, meta Meta, opt Options) error {
	opt.Examine = nil // nothing is opened but the very bytes of our own database: their digest is compared before
	v, err := verify(ctx, store, meta, opt)
	if err == nil && !v.Full {
		err = fail(reasonMismatch, fmt.Errorf("verify backup %s: %w", meta.Name, errNoIdentity))
	}
	return err
}

// reserve gives meta a time and a name that no other saver has, by writing the first object under that name.
func reserve(ctx context.Context, store Store, meta *Meta) error {
	created := time.Now().UTC().Truncate(time.Microsecond)
	for {
		name := formatName(created)
		text, err := encodeBegin(begin{Cluster: meta.Cluster, Lineage: meta.Lineage, Node: meta.Node, Since: created})
		if err != nil {
			return fmt.Errorf("reserve backup %s: %w", name, err)
		}
		err = store.PutIfAbsent(ctx, object(name, beginObject), text)
		if err == nil {
			meta.Name, meta.Created = name, created
			return nil
		}
		if !errors.Is(err, ErrExists) {
			return fmt.Errorf("reserve backup %s: %w", name, err)
		}
		created = created.Add(time.Microsecond) // another saver had the same thought
	}
}

// upload streams the database into the store and describes in meta what it sent. The identity decrypts it, nil if it is
// not encrypted. Copying and storing end together: the first that fails ends ctx for both, and its failure is the
// error.
func upload(ctx context.Context, store Store, tx Tx, closeTx func() error, meta *Meta,
	opt Options) (age.Identity, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pr, pw := io.Pipe()
	// Whatever the store is doing, the end of ctx releases the transaction.
	defer context.AfterFunc(ctx, func() { pr.CloseWithError(context.Cause(ctx)) })()
	watchdog := time.AfterFunc(stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	put := make(chan error, 1)
	go func() {
		err := store.Put(ctx, object(meta.Name, meta.Stored.dataObject()), watched{limited(ctx, pr, opt.Rate), watchdog})
		// A store that took a part of the data for the whole has failed as well.
		cancel(fail(reasonStore, fmt.Errorf("store backup: %w", cmp.Or(err, errSinkClosed))))
		put <- err
	}()

	sent := newDigest()
	out := newFan(sent, pw)
	key, err := encode(out, tx, closeTx, meta, opt)
	err = errors.Join(err, out.Close())
	watchdog.Stop()
	if err != nil {
		cancel(fail(reasonDatabase, fmt.Errorf("copy database: %w", err)))
	}
	pw.CloseWithError(err)
	if err = errors.Join(err, <-put); err != nil {
		return nil, endOf(ctx)
	}
	meta.Stored.Size, meta.Stored.SHA256 = sent.size, sent.hex()
	return key, nil
}

// encode writes the compressed stream to w, encrypted if need be: the database, then its SHA-256, as etcd's own
// Snapshot call sends them (server/etcdserver/api/v3rpc/maintenance.go). It closes tx when all is read.
func encode(w io.Writer, tx Tx, closeTx func() error, meta *Meta, opt Options) (key age.Identity, err error) {
	codec, level, err := codecOf(opt)
	if err != nil {
		return nil, err
	}
	sealed := io.WriteCloser(nopCloser{w})
	if meta.Stored.Encrypted {
		if sealed, key, err = encrypt(w, opt.Recipients); err != nil {
			return nil, err
		}
	}
	lanes, finish, err := newEncoder(sealed, codec, level)
	if err != nil {
		return nil, err
	}

	size, raw := tx.Size(), newDigest()
	in := newFan(append(lanes, io.MultiWriter(raw, newMeter("copying", size, opt.Progress)))...)
	_, err = tx.WriteTo(in)
	err = errors.Join(err, closeTx())
	if closeErr := in.Close(); err == nil {
		err = closeErr
	}
	if err == nil && raw.size != size {
		err = fmt.Errorf("want %d bytes, got %d", size, raw.size)
	}
	if err != nil {
		return nil, err
	}
	meta.Trailer = raw.hex()
	return key, errors.Join(finish(raw.sum.Sum(nil)), sealed.Close())
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// commit writes the sidecar and reads it back: from now on the backup counts. etcd-manager counts it when its own mark
// is there.
func commit(ctx context.Context, store Store, meta *Meta) error {
	meta.Verified = time.Now().UTC().Truncate(time.Microsecond)
	text, err := encodeMeta(*meta)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, object(meta.Name, metaObject), bytes.NewReader(text)); err != nil {
		return fail(reasonStore, fmt.Errorf("store sidecar: %w", err))
	}
	got, err := readSmall(ctx, store, object(meta.Name, metaObject))
	if err == nil && !bytes.Equal(got, text) {
		err = errors.New("the store has another one")
	}
	if err != nil {
		return fail(reasonStore, fmt.Errorf("read the sidecar back: %w", err))
	}
	if !meta.Stored.forManager() {
		return nil
	}
	mark, err := encodeManagerMeta(*meta)
	if err != nil {
		return fail(reasonSource, err)
	}
	if err := store.Put(ctx, object(meta.Name, managerObject), bytes.NewReader(mark)); err != nil {
		return fail(reasonStore, fmt.Errorf("store %s: %w", managerObject, err))
	}
	return nil
}
