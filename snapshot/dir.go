package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Dir is a Store in a directory, which may be on a file system that several machines mount.
//
// Objects are files of mode 0600, because a backup holds every secret of the cluster. Each is written below a hidden
// directory and moved into place, so that it appears whole or not at all. What root writes belongs to the owner of that
// directory.
type Dir struct {
	patience

	mu    sync.Mutex
	seen  bool // the mark was seen: if it is now absent, the store is gone
	swept bool // unfinished files of crashed writers were removed
}

// mark is the hidden directory for unfinished files. It also shows that the root is the store, and not the empty mount
// point of an unmounted file system.
const mark = ".holdfast"

// NewDir returns the store in the directory path, which must exist when the store is used: it is never created,
// because a missing directory may be a missing mount.
func NewDir(path string) *Dir { return &Dir{patience: patience{what: "store", path: path}} }

// open returns the root of the store, or an error if it is not there.
func (d *Dir) open(write bool) (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, fmt.Errorf("open store %s (create the directory or mount it): %w", d.path, err)
	}
	if err := d.prepare(root, write); err != nil {
		root.Close()
		return nil, fmt.Errorf("open store %s: %w", d.path, err)
	}
	return root, nil
}

// prepare checks the mark. The first write creates it, and removes unfinished files of crashed writers. A read does not
// create it: a listing must not turn an empty mount point into a store while others wait for the mount, and it must
// work where nothing can be written.
func (d *Dir) prepare(root *os.Root, write bool) error {
	if d.seen || !write {
		_, err := root.Stat(mark)
		if d.seen = d.seen || err == nil; d.seen && err != nil {
			return fmt.Errorf("the directory is no longer the store it was (is it still mounted?): %w", err)
		}
		if !write && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if !write || d.swept || err != nil {
			return err
		}
	}
	if err := makeDir(root, mark); err != nil {
		return err
	}
	if err := sweep(root, AbandonedAfter); err != nil {
		return fmt.Errorf("remove what a crashed writer left: %w", err)
	}
	d.seen, d.swept = true, true
	return nil
}

// sweepAll removes all unfinished files. It is for a store whose only writer is the caller, who must not be writing.
func (d *Dir) sweepAll(ctx context.Context) error {
	_, err := answeredSoon(ctx, &d.patience, func() (struct{}, error) {
		root, err := d.open(true)
		if err != nil {
			return struct{}{}, err
		}
		defer root.Close()
		return struct{}{}, sweep(root, math.MinInt64) // even those from the future
	})
	return err
}

// sweep removes the unfinished files that are older than age.
func sweep(root *os.Root, age time.Duration) error {
	left, err := fs.ReadDir(root.FS(), mark)
	if err != nil {
		return err
	}
	for _, e := range left {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > age {
			err = root.Remove(path.Join(mark, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Put implements Store.
func (d *Dir) Put(ctx context.Context, name string, r io.Reader) error {
	return d.write(ctx, name, r, (*os.Root).Rename)
}

// PutIfAbsent implements Store. link(2) decides: only one caller succeeds, even on NFS.
func (d *Dir) PutIfAbsent(ctx context.Context, name string, data []byte) error {
	return d.write(ctx, name, bytes.NewReader(data), func(root *os.Root, temp, name string) error {
		err := root.Link(temp, name)
		if errors.Is(err, fs.ErrExist) {
			// An NFS server may repeat a link whose answer was lost: then the existing file is ours.
			ours, err1 := root.Lstat(temp)
			there, err2 := root.Lstat(name)
			if err1 == nil && err2 == nil && os.SameFile(ours, there) {
				return nil
			}
			return ErrExists
		}
		return err
	})
}

// placing moves an unfinished file to its name.
type placing func(root *os.Root, temp, name string) error

// write writes r durably to an unfinished file, and calls place to give the file its name. After it has returned, r is
// no longer read.
func (d *Dir) write(ctx context.Context, name string, r io.Reader, place placing) error {
	source := &lent{r: r}
	defer source.takeBack()
	_, err := answered(ctx, &d.patience, func() (struct{}, error) {
		return struct{}{}, d.writeNow(ctx, name, source, place)
	})
	return err
}

// writeNow does the work of write, and may hang.
func (d *Dir) writeNow(ctx context.Context, name string, r io.Reader, place placing) error {
	if err := CheckName(name); err != nil {
		return err
	}
	root, err := d.open(true)
	if err != nil {
		return err
	}
	defer root.Close()
	temp := path.Join(mark, rand.Text())
	defer root.Remove(temp) // fails if place has renamed it
	if err := writeFile(root, temp, ctxReader{ctx, r}); err != nil {
		return fmt.Errorf("write object %s: %w", name, err)
	}
	parent := path.Dir(name)
	for {
		if err = makeDirs(root, parent); err == nil {
			err = place(root, temp, name)
		}
		// If a concurrent Delete has just removed the empty directory, create it again. If the unfinished file is missing
		// too, the store was emptied.
		if !errors.Is(err, fs.ErrNotExist) || ctx.Err() != nil {
			break
		}
		if _, gone := root.Stat(temp); gone != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("place object %s: %w", name, err)
	}
	if err := syncDir(root, parent); err != nil && !absent(err) { // absent: a concurrent Delete removed it again
		return err
	}
	return nil
}

// Get implements Store.
func (d *Dir) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	f, err := answered(ctx, &d.patience, func() (*os.File, error) { return d.get(name) })
	if err != nil {
		return nil, err
	}
	return &patient{ctx: ctx, p: &d.patience, f: f}, nil
}

// get opens the file of an object.
func (d *Dir) get(name string) (*os.File, error) {
	root, err := d.open(false)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(name)
	if absent(err) {
		return nil, fmt.Errorf("open object %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", name, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("open object %s: %w", name, cmp.Or(err, ErrNotFound))
	}
	return f, nil
}

// List implements Store.
func (d *Dir) List(ctx context.Context, prefix string) ([]Object, error) {
	return answered(ctx, &d.patience, func() ([]Object, error) { return d.list(ctx, prefix) })
}

func (d *Dir) list(ctx context.Context, prefix string) ([]Object, error) {
	root, err := d.open(false)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	top := "." // the deepest directory that contains every name with this prefix
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		top = prefix[:i]
		if CheckName(top) != nil {
			return nil, nil // no object can have such a name
		}
	}
	var objects []Object
	err = fs.WalkDir(root.FS(), top, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case absent(err):
			return nil // there is no such directory, or it was just deleted
		case err != nil:
			return err
		case name == ".":
			return nil
		case !isSegment(e.Name()): // lost+found, or the mark
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !e.Type().IsRegular() || !strings.HasPrefix(name, prefix):
			return nil
		}
		info, err := e.Info()
		if absent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		objects = append(objects, Object{Name: name, Size: info.Size(), Modified: info.ModTime()})
		return CheckCount(len(objects))
	})
	if err != nil {
		return nil, fmt.Errorf("list store %s: %w", d.path, err)
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// Delete implements Store. It also removes the directories that become empty.
func (d *Dir) Delete(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	_, err := answered(ctx, &d.patience, func() (struct{}, error) { return struct{}{}, d.remove(name) })
	return err
}

func (d *Dir) remove(name string) error {
	root, err := d.open(true)
	if err != nil {
		return err
	}
	defer root.Close()
	if info, err := root.Lstat(name); absent(err) || err == nil && info.IsDir() {
		return nil
	}
	if err := root.Remove(name); err != nil && !absent(err) {
		return fmt.Errorf("delete object %s: %w", name, err)
	}
	dir := path.Dir(name)
	for dir != "." && root.Remove(dir) == nil { // fails if it is not empty
		dir = path.Dir(dir)
	}
	if err := syncDir(root, dir); err != nil && !absent(err) {
		return err
	}
	return nil
}

// absent reports whether err says that a file, or a directory on its path, does not exist.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// writeFile writes r to a new file. If it returns nil, the file is durable.
func writeFile(root *os.Root, name string, r io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	give(root, name, mark)
	c := chunks.Get().(*chunk)
	defer chunks.Put(c)
	if _, err := io.CopyBuffer(&steady{f: f}, r, c.data[:chunkSize]); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// Reading back must come from the disk. Dropping the file from the cache also keeps the member's database in it.
	forget(f)
	return f.Close()
}

// makeDirs makes a directory and its parents durably.
func makeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if err := makeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	return makeDir(root, name)
}

// makeDir makes one directory durably, if it does not exist. It also syncs an existing one, because the process that
// made it may have crashed before the sync, or may not have synced yet.
func makeDir(root *os.Root, name string) error {
	switch err := root.Mkdir(name, 0o700); {
	case err == nil && name != mark:
		give(root, name, mark)
	case err == nil:
		if top, err := root.Stat("."); err == nil && top.Mode().Perm()&0o077 == 0 { // prepared for its owner alone
			give(root, name, ".")
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	return syncDir(root, path.Dir(name))
}

// give gives what root has just made to the owner of another file of the store. A node that runs as a user of its own
// could otherwise not read what an operator's command wrote. Where this process may not do that, as without CAP_CHOWN
// or on NFS, it stays root's.
func give(root *os.Root, name, like string) {
	if os.Geteuid() != 0 {
		return
	}
	if of, err := root.Stat(like); err == nil {
		if owner, ok := of.Sys().(*syscall.Stat_t); ok {
			_ = root.Lchown(name, int(owner.Uid), int(owner.Gid))
		}
	}
}

// syncDir makes the entries of a directory durable.
func syncDir(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return fmt.Errorf("sync directory %s: %w", name, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", name, err)
	}
	return nil
}
