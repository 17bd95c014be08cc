package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Options of Save and Verify.
type Options struct {
	// Scratch is an existing directory with room for the decompressed database; "" is the system's temporary one.
	Scratch string
	// Progress, if set, is told of the progress about a hundred times a phase. It must not block.
	Progress func(Progress)
}

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
	errStalled    = fmt.Errorf("the store accepted nothing for %s", stall)
)

// Save stores what tx sees as a new backup of meta.Cluster, reads it back, and commits it when it is proven. It closes
// tx in any case, as soon as the bytes are read. The result is the sidecar as stored. On an error there is no new
// backup, and what was written is removed again if the store lets us.
func Save(ctx context.Context, store Store, tx Tx, meta Meta, opt Options) (Meta, error) {
	closeTx := sync.OnceValue(tx.Close)
	defer closeTx()
	if err := checkCluster(meta.Cluster); err != nil {
		return Meta{}, fail(reasonSource, err)
	}
	content, err := ContentOf(ctx, tx)
	if err != nil {
		return Meta{}, fail(reasonDatabase, fmt.Errorf("read database: %w", err))
	}
	meta.Content = content
	if err := reserve(ctx, store, &meta); err != nil {
		return Meta{}, fail(reasonStore, err)
	}
	err = upload(ctx, store, tx, closeTx, &meta, opt)
	if err == nil {
		err = verifyData(ctx, store, meta, opt)
	}
	if err == nil {
		err = commit(ctx, store, &meta)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
		defer cancel()
		return Meta{}, errors.Join(err, remove(ctx, store, meta.Cluster, meta.Name))
	}
	return meta, nil
}

// reserve gives meta a time and a name that no other saver has, by writing the first object under that name.
func reserve(ctx context.Context, store Store, meta *Meta) error {
	created := time.Now().UTC().Truncate(time.Microsecond)
	for {
		name := formatName(created)
		text, err := json.Marshal(struct {
			Version int       `json:"version"`
			Node    string    `json:"node"`
			Since   time.Time `json:"since"`
		}{1, meta.Node, created})
		if err != nil {
			return fmt.Errorf("reserve backup %s: %w", name, err)
		}
		err = store.PutIfAbsent(ctx, object(meta.Cluster, name, beginObject), text)
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

// upload streams the database into the store and describes in meta what it sent.
func upload(ctx context.Context, store Store, tx Tx, closeTx func() error, meta *Meta, opt Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pr, pw := io.Pipe()
	// Whatever the store is doing, the end of ctx releases the transaction.
	defer context.AfterFunc(ctx, func() { pr.CloseWithError(context.Cause(ctx)) })()
	put := make(chan error, 1)
	go func() {
		err := store.Put(ctx, object(meta.Cluster, meta.Name, dataObject), pr)
		pr.CloseWithError(errSinkClosed)
		put <- err
	}()

	out := &sink{to: pw, sum: sha256.New(), watchdog: time.AfterFunc(stall, func() { cancel(errStalled) })}
	readErr := encode(out, tx, meta, opt)
	out.watchdog.Stop()
	readErr = errors.Join(readErr, closeTx())
	pw.CloseWithError(readErr)
	putErr := <-put

	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStalled):
		return fail(reasonStore, fmt.Errorf("store backup: %w", cause))
	case cause != nil:
		return fail(reasonInterrupted, fmt.Errorf("store backup: %w", cause))
	case readErr != nil && !out.broken:
		return fail(reasonDatabase, fmt.Errorf("copy database: %w", readErr))
	case putErr != nil:
		return fail(reasonStore, fmt.Errorf("store backup: %w", putErr))
	case readErr != nil: // the store took a part of the data for the whole
		return fail(reasonStore, fmt.Errorf("store backup: %w", errSinkClosed))
	}
	meta.Stored = Stored{Codec: codec, Size: out.size, SHA256: hex.EncodeToString(out.sum.Sum(nil))}
	return nil
}

// encode writes the compressed stream to w: the database, then its SHA-256, as etcd's own Snapshot call sends them
// (server/etcdserver/api/v3rpc/maintenance.go).
func encode(w io.Writer, tx Tx, meta *Meta, opt Options) error {
	// The fastest level and one thread: measured on Kubernetes-shaped data, better levels gain 7 % for twice the CPU,
	// which the member needs itself.
	enc, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	raw := sha256.New()
	n, err := tx.WriteTo(io.MultiWriter(enc, raw, newMeter("copying", meta.Content.Size, opt.Progress)))
	if err != nil {
		return err
	}
	if n != meta.Content.Size {
		return fmt.Errorf("want %d bytes, got %d", meta.Content.Size, n)
	}
	trailer := raw.Sum(nil)
	meta.Trailer = hex.EncodeToString(trailer)
	if _, err := enc.Write(trailer); err != nil {
		return err
	}
	return enc.Close()
}

// commit writes the sidecar: from now on the backup counts.
func commit(ctx context.Context, store Store, meta *Meta) error {
	meta.Verified = time.Now().UTC().Truncate(time.Microsecond)
	text, err := encodeMeta(*meta)
	if err != nil {
		return err
	}
	if err := store.Put(ctx, object(meta.Cluster, meta.Name, metaObject), bytes.NewReader(text)); err != nil {
		return fail(reasonStore, fmt.Errorf("store sidecar: %w", err))
	}
	return nil
}

// sink is the store's end of the stream: it counts and hashes what the store accepts.
type sink struct {
	to       io.Writer
	sum      hash.Hash
	size     int64
	broken   bool // a write failed: whatever error follows, the store is where it began
	watchdog *time.Timer
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.sum.Write(p[:n])
	s.size += int64(n)
	if err != nil {
		s.broken = true
		return n, err
	}
	s.watchdog.Reset(stall)
	return n, nil
}

// meter tells progress of what is written to it.
type meter struct {
	at   Progress
	next int64
	tell func(Progress)
}

func newMeter(phase string, total int64, tell func(Progress)) *meter {
	if tell == nil {
		tell = func(Progress) {}
	}
	return &meter{at: Progress{Phase: phase, Total: total}, tell: tell}
}

func (m *meter) Write(p []byte) (int, error) {
	m.at.Done += int64(len(p))
	if m.at.Done >= m.next {
		m.next = min(m.at.Done+m.at.Total/100+1, m.at.Total)
		m.tell(m.at)
	}
	return len(p), nil
}
