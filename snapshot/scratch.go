package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"holdfast/durable"
)

// target is the file that a database is written to, and in which it is checked.
type target struct {
	*os.File
	path   string    // for errors
	advice string    // what to do when there is no room
	keep   bool      // it has a name and is to stay
	to     io.Writer // the file, in the way that suits its size
	size   int64     // of the database, once it is known
}

// newScratch makes a temporary file without a name: nothing is left of it, however this process ends.
func newScratch(dir string) (*target, error) {
	f, err := os.CreateTemp(dir, "holdfast-verify-")
	if err != nil {
		return nil, fail(reasonScratch, fmt.Errorf("create scratch file: %w", err))
	}
	t := &target{File: f, path: "scratch file " + f.Name(), advice: "set snapshot.scratch to a directory with more room"}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, t.explain(err)
	}
	return t, nil
}

// newTarget makes the file at path, which must not exist.
func newTarget(path string) (*target, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fail(reasonScratch, fmt.Errorf("create database: %w", err))
	}
	return &target{File: f, path: path, advice: "choose a directory with more room", keep: true, to: &steady{f: f}}, nil
}

// spare is what stays free, in bytes, or an eighth of a disk that is small: a member's log on the same disk grows by
// pieces of 64 MB, and ends the member when there is no room. How large a database is, the backup itself says.
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

// Write implements io.Writer.
func (t *target) Write(p []byte) (int, error) {
	n, err := t.to.Write(p)
	if err != nil {
		return n, t.explain(err)
	}
	return n, nil
}

// explain tells what to do about an error of the file.
func (t *target) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%d bytes are needed there: %s: %w", t.size, t.advice, err)
	}
	return fail(reasonScratch, fmt.Errorf("write %s: %w", t.path, err))
}

// durable makes a file that is to stay durable, and its name.
func (t *target) durable() error {
	if !t.keep {
		return nil
	}
	err := t.Sync()
	if err == nil {
		err = durable.SyncDir(filepath.Dir(t.path))
	}
	if err != nil {
		return t.explain(err)
	}
	return nil
}

// piece is how much of a file is written before it is sent to the disk.
const piece = 1 << 20

// steady writes a file in pieces: each is sent to the disk at once, and the one before it waited for, so that no more
// than two are under way. The member's log is on the same disk more often than not, and its fsync waits behind what the
// kernel has collected of ours. Measured on a virtio disk with 192 MB at 50 MB/s, and 4 kB written and synced every 2
// ms beside it: p99 0.4-0.7 ms alone, 3 ms in pieces of 8 MiB, 1.0-1.2 ms in pieces of 1 MiB, which take no longer, and
// up to 55 ms where one fsync at the end has all to do. fdatasync(2) instead, which commits the journal each time, was
// no better. The file is durable when it is synced at the end, which has little left to do.
type steady struct {
	f                *os.File
	before, from, at int64 // where the last piece began, where this one did, and where it ends
}

func (s *steady) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	s.at += int64(n)
	if err != nil || s.at-s.from < piece {
		return n, err
	}
	if err := writeOut(s.f, s.before, s.from, s.at); err != nil {
		return n, err
	}
	s.before, s.from = s.from, s.at
	return n, nil
}

// cacheable is how large a file may be that is soon removed again, so that it never gets to the disk: half of what the
// kernel collects before it starts to write by itself, 0 where that is not known.
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
