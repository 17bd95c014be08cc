package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"holdfast/durable"
)

const (
	// prewriteEvery is how often prewrite looks whether etcd lacks a file.
	prewriteEvery = 2 * time.Second
	// prewriteChunk bytes are written at once, with prewritePause after each, so that a file takes some 3 s. Clients'
	// writes need the disk more.
	prewriteChunk, prewritePause = 256 << 10, 10 * time.Millisecond
	// prewriteRoom is how many bytes must be free on the volume. A file takes 64 MB.
	prewriteRoom = 1 << 30
)

// prewriter writes the files that etcd's log will continue in, before etcd has them, for as long as etcd runs.
//
// etcd allocates a file of its log at once (64 MB), but until a block is first written, ext4 and xfs only note that it
// reads as zeros. So each of etcd's writes to the log changes the file system's own records, too, and then fdatasync
// waits for the journal, and for whatever else is in there. Where the block was written before, it only waits for the
// data. (PostgreSQL fills its log with zeros for the same reason: wal_init_zero.)
//
// etcd has its next file ready as 0.tmp or 1.tmp, in turn, and takes what it finds there (wal/file_pipeline.go). So the
// prewriter makes the one after the next, full of zeros, under a name of its own, and gives it its name only if nobody
// has taken that meanwhile. It never writes to a file that etcd may have open.
type prewriter struct {
	dir  string // of the log
	room int64  // prewriteRoom
	size int64  // of a file
}

// prewrite does this for a data directory until ctx ends. Where it cannot, etcd is only slower.
func prewrite(ctx context.Context, dataDir string, lg *zap.Logger) {
	p := prewriter{datadir.ToWALDir(dataDir), prewriteRoom, wal.SegmentSizeBytes}
	os.Remove(p.ours()) // of a process that was killed: etcd may not lack a file for long
	var disk unix.Statfs_t
	err := unix.Statfs(p.dir, &disk)
	if err != nil || disk.Type != unix.EXT4_SUPER_MAGIC && disk.Type != unix.XFS_SUPER_MAGIC {
		return // it would not help
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(prewriteEvery):
		}
		if err := p.look(ctx); err != nil && ctx.Err() == nil {
			lg.Debug("the next file of the log was not written ahead", zap.Error(err))
		}
	}
}

// look makes a file if etcd lacks one and the disk has room.
func (p prewriter) look(ctx context.Context) error {
	missing, err := p.missing()
	if err != nil || missing == "" {
		return err
	}
	if free, err := freeSpace(p.dir); err != nil || free < p.room {
		return err
	}
	ours := p.ours()
	if err = p.fill(ctx, ours); err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, ours, unix.AT_FDCWD, missing, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		os.Remove(ours)
		return fmt.Errorf("make %s: %w", missing, err)
	}
	return nil
}

// ours is the path of a file that is not finished. etcd passes over its ending.
func (p prewriter) ours() string { return filepath.Join(p.dir, "prewritten.tmp") }

// missing returns the name for the file that etcd will make after its next one, and "" if that is there already, or if
// etcd has no next one at the moment.
func (p prewriter) missing() (string, error) {
	missing, there := "", 0
	for _, name := range []string{"0.tmp", "1.tmp"} {
		path := filepath.Join(p.dir, name)
		switch _, err := os.Lstat(path); {
		case err == nil:
			there++
		case errors.Is(err, fs.ErrNotExist):
			missing = path
		default:
			return "", err
		}
	}
	if there != 1 {
		return "", nil
	}
	return missing, nil
}

// fill makes a file of zeros at path, slowly. No block of it is only allocated.
func (p prewriter) fill(ctx context.Context, path string) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, p.size); err != nil { // in one piece
		return fmt.Errorf("fallocate: %w", err)
	}
	zeros := make([]byte, prewriteChunk)
	for at := int64(0); at < p.size; at += prewriteChunk {
		if _, err := f.WriteAt(zeros[:min(prewriteChunk, p.size-at)], at); err != nil {
			return err
		}
		// Otherwise the kernel would write all at once, and others' writes would wait for that.
		if err := durable.WriteOut(f, max(0, at-prewriteChunk), at, at+prewriteChunk); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(prewritePause):
		}
	}
	return unix.Fdatasync(int(f.Fd()))
}
