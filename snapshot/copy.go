package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Copy copies a backup under its name from one store to another: the data first, and the sidecar last, after the data
// was read back from the other store and its digest equals the sidecar's. A pin and a proof that stands against the
// backup are copied too. If the same backup is already there and its data is intact, nothing is written. If another
// backup of that name is there, Copy returns an error and leaves it alone. On an error no new backup counts; what was
// written stays for the next Copy to complete, and for Prune after a day. The result is the sidecar, or what is known
// of a legacy backup.
//
// The progress counts the bytes of the stored object, once while "copying" and once while "verifying".
func Copy(ctx context.Context, from, to Store, name string, opt Options) (Meta, error) {
	t := transfer{name: name, from: from, to: to, opt: opt}
	done, err := false, t.prepare(ctx)
	if err == nil {
		done, err = t.reserve(ctx)
	}
	if err == nil && !done {
		if err = t.send(ctx); err == nil {
			err = t.commit(ctx)
		}
	}
	if err != nil {
		return Meta{}, fmt.Errorf("copy backup %s: %w", name, err)
	}
	return t.source.Meta, nil
}

// transfer is one Copy.
type transfer struct {
	name     string
	from, to Store
	opt      Options

	source Backup
	data   string // the object with the data, within the backup's directory
	size   int64
	sha256 string
	// The texts of the small objects, nil if there is none. They are copied unchanged, because a sidecar may have fields
	// that this program does not know.
	pin, failed, sidecar, mark []byte
}

// prepare reads everything to copy except the data. Only the digest of a legacy backup needs the data.
func (t *transfer) prepare(ctx context.Context) error {
	e, err := lookup(ctx, t.from, t.name)
	if err != nil {
		return err
	}
	if len(e.files) == 0 {
		return ErrNotFound
	}
	if t.source, err = e.read(ctx, t.from, Identity{}, time.Now()); err != nil {
		return err
	}
	if t.source.Problem != "" {
		return errors.New(t.source.Problem)
	}
	for file, text := range map[string]*[]byte{pinObject: &t.pin, metaObject: &t.sidecar, managerObject: &t.mark} {
		if !e.has(file) {
			continue
		}
		if *text, err = e.readPart(ctx, t.from, file); err != nil {
			return err
		}
	}
	if p := t.source.Failed; p != nil {
		if t.failed, err = e.readPart(ctx, t.from, proofObject(p.Kind)); err != nil {
			return err
		}
	}
	if t.source.Unmarked {
		if t.mark, err = encodeManagerMeta(t.source.Meta); err != nil {
			return err
		}
	}
	t.data, t.size, t.sha256 = t.source.Stored.dataObject(), t.source.Stored.Size, t.source.Stored.SHA256
	if t.source.Legacy {
		t.sha256, err = t.digest(ctx, t.from)
	}
	return err
}

// reserve reserves the name in the other store. done means that the backup is already there.
func (t *transfer) reserve(ctx context.Context) (done bool, err error) {
	text, err := encodeBegin(begin{Cluster: t.source.Cluster, Lineage: t.source.Lineage, Since: time.Now().UTC(),
		SHA256: t.sha256})
	if err != nil {
		return false, err
	}
	for range 3 { // other writers may come and go
		e, err := lookup(ctx, t.to, t.name)
		switch {
		case err != nil:
			return false, err
		case e.has(metaObject):
			return t.compareSidecar(ctx, e)
		case e.has(managerObject):
			return t.compareData(ctx)
		case len(e.files) > 0:
			ours, err := t.takeOver(ctx, e, text)
			if ours || err != nil {
				return false, err
			}
		}
		if err = t.to.PutIfAbsent(ctx, object(t.name, beginObject), text); !errors.Is(err, ErrExists) {
			return false, err
		}
	}
	return false, errors.New("others write to that name in the other store: try again later")
}

// takeOver handles an unfinished backup of that name. If it was begun for the same data, its writer writes the same
// bytes, so it counts as ours. If it is abandoned, it is removed, which frees the name.
func (t *transfer) takeOver(ctx context.Context, e entry, text []byte) (ours bool, err error) {
	var by begin
	if e.has(beginObject) {
		old, err := e.readPart(ctx, t.to, beginObject)
		if ofStore(err) != nil {
			return false, err
		}
		if err == nil {
			by, _ = decodeBegin(old) // one that cannot be read belongs to nobody
		}
	}
	if by.SHA256 == t.sha256 {
		// Rewriting makes it young again, so that no Prune takes it for abandoned.
		return true, t.to.Put(ctx, object(t.name, beginObject), bytes.NewReader(text))
	}
	c, err := scan(ctx, t.to, "")
	if err != nil {
		return false, err
	}
	if !e.abandoned(c.clock(time.Now())) {
		return false, fmt.Errorf("the other store has an unfinished one of that name (cluster %q, node %q, since %s): try "+
			"again when it is finished, or delete it", by.Cluster, by.Node, by.Since.UTC().Format(time.RFC3339))
	}
	return false, e.prune(ctx, t.to)
}

// compareSidecar handles a backup with a sidecar in the other store.
func (t *transfer) compareSidecar(ctx context.Context, e entry) (done bool, err error) {
	text, err := e.readPart(ctx, t.to, metaObject)
	if err != nil {
		return false, err
	}
	if bytes.Equal(text, t.sidecar) {
		if done, err = t.intact(ctx, e); !done || err != nil {
			return false, err // send the data again
		}
		if t.mark != nil && !e.has(managerObject) {
			err = t.to.PutIfAbsent(ctx, object(t.name, managerObject), t.mark)
		}
		return true, err
	}
	m, err := sidecarOf(t.name, text)
	if err != nil {
		return false, fmt.Errorf("the other store has a damaged one (delete it there): %w", err)
	}
	return false, fmt.Errorf("the other store has another backup of that name, %s; the one to copy is %s", describe(m),
		describe(t.source.Meta))
}

// intact reports whether the data in the other store is what the sidecar says. Data that rotted there may keep its
// size, and the spool forgets what was copied.
func (t *transfer) intact(ctx context.Context, e entry) (bool, error) {
	if e.checkData(t.data, t.size) != nil {
		return false, nil
	}
	sum, err := t.digest(ctx, t.to)
	if errors.Is(err, ErrNotFound) { // the listing is outdated
		return false, nil
	}
	return sum == t.sha256, err
}

// describe says whose backup it is.
func describe(m Meta) string {
	if m.Stored.SHA256 == "" {
		return "etcd-manager's"
	}
	return fmt.Sprintf("cluster %s, lineage %q, slot %s, revision %d, sha256 %s", m.Cluster, m.Lineage, m.Slot,
		m.Content.Revision, m.Stored.SHA256)
}

// compareData handles a legacy backup in the other store. Nothing there describes its data, so the data is read.
func (t *transfer) compareData(ctx context.Context) (done bool, err error) {
	if !t.source.Legacy {
		return false, fmt.Errorf("the other store has another backup of that name, etcd-manager's; the one to copy is %s",
			describe(t.source.Meta))
	}
	sum, err := t.digest(ctx, t.to)
	if err != nil {
		return false, fmt.Errorf("compare with the one in the other store: %w", err)
	}
	if sum != t.sha256 {
		return false, fmt.Errorf("the other store has another backup of that name, etcd-manager's, with sha256 %s; the one "+
			"to copy has %s", sum, t.sha256)
	}
	return true, nil
}

// send streams the data and reads it back.
func (t *transfer) send(ctx context.Context) error {
	r, err := t.from.Get(ctx, object(t.name, t.data))
	if err != nil {
		return err
	}
	defer r.Close()
	in := &proven{Reader: io.LimitReader(r, t.size+1), got: newDigest(), size: t.size, want: t.sha256,
		meter: newMeter("copying", t.size, t.opt.Progress)}
	if err := t.to.Put(ctx, object(t.name, t.data), limited(ctx, in, t.opt.Rate)); err != nil {
		return fmt.Errorf("store the data: %w", err)
	}
	sum, err := t.digest(ctx, t.to)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if sum != t.sha256 {
		return fmt.Errorf("read back: want sha256 %s, got %s", t.sha256, sum)
	}
	return nil
}

// commit writes the objects that make it a backup, in the order in which they must appear. Existing objects stay. The
// sidecar is read back, because the spool forgets what was copied.
func (t *transfer) commit(ctx context.Context) error {
	against := ""
	if t.failed != nil {
		against = proofObject(t.source.Failed.Kind)
	}
	for _, o := range []struct {
		file string
		text []byte
	}{{pinObject, t.pin}, {against, t.failed}, {metaObject, t.sidecar}, {managerObject, t.mark}} {
		if o.text == nil {
			continue
		}
		err := t.to.PutIfAbsent(ctx, object(t.name, o.file), o.text)
		if errors.Is(err, ErrExists) {
			err = nil
		}
		if err == nil && o.file == metaObject {
			_, err = t.compareSidecar(ctx, entry{name: t.name})
		}
		if err != nil {
			return fmt.Errorf("store %s: %w", o.file, err)
		}
	}
	return nil
}

// digest reads the data in one of the stores and returns its SHA-256 in hex.
func (t *transfer) digest(ctx context.Context, store Store) (string, error) {
	r, err := store.Get(ctx, object(t.name, t.data))
	if err != nil {
		return "", err
	}
	defer r.Close()
	got := newDigest()
	n, err := io.Copy(io.MultiWriter(got, newMeter("verifying", t.size, t.opt.Progress)),
		ctxReader{ctx, io.LimitReader(r, t.size+1)})
	if err != nil {
		return "", err
	}
	if n != t.size {
		return "", fmt.Errorf("want %d bytes, got %d (or more)", t.size, n)
	}
	return got.hex(), nil
}

// proven reads data of a known size and digest. If the data differs, it ends with an error, so that a Store keeps
// nothing of it.
type proven struct {
	io.Reader
	got   *digest
	size  int64
	want  string
	meter *meter
}

func (p *proven) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.got.Write(b[:n])
	p.meter.Write(b[:n])
	if errors.Is(err, io.EOF) && (p.got.size != p.size || p.got.hex() != p.want) {
		return n, fail(reasonMismatch, fmt.Errorf("the data is not what the sidecar says: want %d bytes with sha256 %s, "+
			"got %d with %s", p.size, p.want, p.got.size, p.got.hex()))
	}
	return n, err
}
