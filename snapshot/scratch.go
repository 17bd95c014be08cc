package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/durable"
)

// target is a file that a database is written to and checked in.
type target struct {
	*os.File
	path   string          // for errors
	advice string          // what to do if there is no room
	keep   bool            // it has a name and must stay
	to     io.Writer       // the file, written in the way that suits its size
	size   int64           // of the database, once known
	hangs  func(err error) // is called if the disk hangs in a write
}

// newScratch makes a temporary file without a name, so that nothing is left of it when this process ends.
func newScratch(ctx context.Context, dir string) (*target, error) {
	disk := &patience{what: "disk of", path: cmp.Or(dir, os.TempDir())}
	f, err := answeredSoon(ctx, disk, func() (*os.File, error) {
		f, err := os.CreateTemp(dir, "holdfast-verify-")
		if err != nil {
			return nil, err
		}
		if err := os.Remove(f.Name()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	})
	if err != nil {
		return nil, fail(reasonScratch, fmt.Errorf("create scratch file: %w", err))
	}
	return &target{File: f, path: "scratch file " + f.Name(),
		advice: "set snapshot.scratch to a directory with more room"}, nil
}

func newTarget(ctx context.Context, path string) (*target, error) {
	f, err := answeredSoon(ctx, &patience{what: "disk of", path: path}, func() (*os.File, error) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	})
	if err != nil {
		return nil, fail(reasonScratch, fmt.Errorf("create database: %w", err))
	}
	return &target{File: f, path: path, advice: "choose a directory with more room", keep: true, to: &steady{f: f}}, nil
}

// spare is how much stays free, in bytes, or an eighth of a small disk. A member's log on the same disk grows in pieces
// of 64 MB, and the member ends if there is no room.
const spare = 128 << 20

// reserve checks that size bytes fit, before the file fills a disk that others share.
func (t *target) reserve(size int64) error {
	t.size = size
	if t.to == nil { // a scratch file
		t.to = t.File
		if size > cacheable() {
			t.to = &steady{f: t.File}
		}
	}
	var free unix.Statfs_t
	if err := unix.Fstatfs(int(t.Fd()), &free); err != nil {
		return t.explain(err)
	}
	block := int64(free.Bsize)
	left := min(spare/block, int64(free.Blocks)/8)
	if int64(free.Bavail)-left < size/block {
		return t.explain(fmt.Errorf("%d bytes are free, of which %d stay so: %w", int64(free.Bavail)*block, left*block,
			syscall.ENOSPC))
	}
	return nil
}

// Write implements io.Writer. A disk that hangs cannot be interrupted: then hangs is called beside it.
func (t *target) Write(p []byte) (int, error) {
	late := time.AfterFunc(answerTime, func() {
		t.hangs(t.explain(fmt.Errorf("the disk does not answer: %w", unanswered(answerTime))))
	})
	defer late.Stop()
	n, err := t.to.Write(p)
	if err != nil {
		return n, t.explain(err)
	}
	return n, nil
}

// explain adds to an error of the file what to do about it.
func (t *target) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%d bytes are needed there: %s: %w", t.size, t.advice, err)
	}
	return fail(reasonScratch, fmt.Errorf("write %s: %w", t.path, err))
}

// durable makes a file that must stay durable, including its name.
func (t *target) durable(ctx context.Context) error {
	if !t.keep {
		return nil
	}
	ctx, cancel := Within(ctx, unmoved)
	defer cancel()
	_, err := answered(ctx, &patience{what: "disk of", path: t.path}, func() (none struct{}, err error) {
		if err = t.Sync(); err == nil {
			err = durable.SyncDir(filepath.Dir(t.path))
		}
		return none, err
	})
	if err != nil {
		return t.explain(err)
	}
	return nil
}

// piece is how much of a file is written, in bytes, before it is sent to the disk.
const piece = 1 << 20

// steady writes a file in pieces. Each piece is sent to the disk at once, and the one before it is waited for, so that
// at most two are in progress. The member's log is usually on the same disk, and its fsync waits for everything that
// the kernel has collected from this file. Measured on a virtio disk with 192 MB at 50 MB/s, and 4 kB written and
// synced every 2 ms beside it: p99 0.4-0.7 ms alone, 3 ms with pieces of 8 MiB, 1.0-1.2 ms with pieces of 1 MiB, which
// take no longer, and up to 55 ms with a single fsync at the end. fdatasync(2) instead, which commits the journal each
// time, was no better. The final sync makes the file durable, and has little left to do.
type steady struct {
	f                *os.File
	before, from, at int64 // the start of the last piece, the start of this one, and its end
}

func (s *steady) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	s.at += int64(n)
	if err != nil || s.at-s.from < piece {
		return n, err
	}
	if err := durable.WriteOut(s.f, s.before, s.from, s.at); err != nil {
		return n, err
	}
	s.before, s.from = s.from, s.at
	return n, nil
}

// cacheable is the size up to which a temporary file never gets to the disk: half of what the kernel collects before it
// starts to write, or 0 if that is not known.
func cacheable() int64 {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(text, []byte("nr_dirty_background_threshold "))
	number, _, _ := bytes.Cut(after, []byte("\n"))
	pages, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize()) / 2
}
