package snapshot

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/volume/device/devicetest"
)

// awaited is a context that ends when it is waited for.
type awaited struct {
	context.Context
	cancel func()
}

func (a awaited) Done() <-chan struct{} {
	a.cancel()
	return a.Context.Done()
}

func await(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	return awaited{ctx, cancel}
}

// hanging is a file on a disk that hangs until goOn is closed.
type hanging struct{ goOn, over chan struct{} }

func (h hanging) Read(p []byte) (int, error) {
	defer close(h.over)
	<-h.goOn
	return copy(p, "late"), nil
}

func (h hanging) Close() error { return nil }

// A store whose file system hangs lets its caller go soon after the context ends, and names itself. What is left behind
// touches nothing that is the caller's.
func TestDirWhoseFileSystemHangs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none") // in which nothing can be written in the end
	d := NewDir(dir)
	d.mu.Lock() // every call waits here, as for a disk
	defer d.mu.Unlock()
	source := strings.NewReader("all of it")
	f := hanging{make(chan struct{}), make(chan struct{})}
	buffer := []byte("mine")
	var calls sync.WaitGroup
	for name, call := range map[string]func(ctx context.Context) error{
		"put":           func(ctx context.Context) error { return d.Put(ctx, "a", source) },
		"put if absent": func(ctx context.Context) error { return d.PutIfAbsent(ctx, "a", []byte("x")) },
		"get":           func(ctx context.Context) error { _, err := d.Get(ctx, "a"); return err },
		"list":          func(ctx context.Context) error { _, err := d.List(ctx, ""); return err },
		"delete":        func(ctx context.Context) error { return d.Delete(ctx, "a") },
		"read": func(ctx context.Context) error {
			_, err := (&patient{ctx: ctx, p: &d.patience, f: f}).Read(buffer)
			return err
		},
	} {
		calls.Go(func() {
			err := call(await(t))
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the store "+dir+" does not answer") {
				t.Errorf("%s: got %v, want that the store does not answer", name, err)
			}
		})
	}
	calls.Wait()
	close(f.goOn)
	<-f.over
	if source.Len() != len("all of it") || string(buffer) != "mine" {
		t.Errorf("what was left behind has read of the source, or written %q", buffer)
	}
}

// No more calls are begun while many that were left behind have not ended.
func TestAnsweredIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, goOn, begun := &patience{what: "store", path: "/dead"}, make(chan struct{}), new(atomic.Int32)
		call := func() error {
			_, err := answered(await(t), p, func() (int, error) { begun.Add(1); <-goOn; return 0, nil })
			return err
		}
		for range mostBehind {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		if err := call(); err == nil || err.Error() != "the store /dead does not answer: 16 calls have not ended" {
			t.Errorf("got %v", err)
		}
		close(goOn)
		synctest.Wait()
		if err := call(); err != nil || begun.Load() != mostBehind+1 {
			t.Errorf("when it answers again: got %v, and %d calls in all", err, begun.Load())
		}
	})
}

// What was lent is not read after it was taken back.
func TestLentIsTakenBack(t *testing.T) {
	l := &lent{r: strings.NewReader("x")}
	l.takeBack()
	if n, err := l.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("got %d bytes and %v", n, err)
	}
}

// A scratch directory whose file system hangs lets its caller go as well.
func TestScratchThatHangs(t *testing.T) {
	t.Parallel()
	dead := devicetest.Dead(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := newScratch(ctx, dead)
	if !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "the disk of "+dead+" does not answer") {
		t.Errorf("got %v", err)
	}
}

// So does one whose disk hangs in mid-write. Nothing is said against the backup.
func TestScratchThatHangsInAWrite(t *testing.T) {
	for _, size := range []int64{chunkSize / 2, 2 * fanChunks * chunkSize} { // hangs in Close, and in Write
		synctest.Test(t, func(t *testing.T) {
			f, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			disk, hung := io.Pipe() // nobody reads
			defer synctest.Wait()
			defer disk.Close()
			meta := Meta{Trailer: "00", Content: Content{Size: size}}
			scratch := &target{File: f, path: "scratch file", to: hung}
			err = receive(t.Context(), io.LimitReader(zeros{}, size+trailerSize), scratch, &meta, "verifying", Options{})
			const want = "write scratch file: the disk does not answer: no answer within 1m"
			if err == nil || !strings.Contains(err.Error(), want) ||
				reasonOf(t.Context(), err) != reasonScratch || Damaged(err) {
				t.Errorf("%d bytes: got %v", size, err)
			}
		})
	}
}

// zeros is a stream of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
