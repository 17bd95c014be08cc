package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"holdfast/snapshot"
)

// TestFan gives three writers all bytes, in pieces of all sizes, more than are under way at a time.
func TestFan(t *testing.T) {
	want := make([]byte, 9<<20+17)
	rand.NewChaCha8([32]byte{}).Read(want)
	for name, give := range map[string]func(w io.Writer) error{
		"written": func(w io.Writer) error {
			for rest, n := want, 1; len(rest) > 0; n = n*3%700_001 + 1 {
				n = min(n, len(rest))
				if _, err := w.Write(rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
			return nil
		},
		"read": func(w io.Writer) error {
			_, err := io.Copy(w, iotest.HalfReader(struct{ io.Reader }{bytes.NewReader(want)}))
			return err
		},
	} {
		var got [3]bytes.Buffer
		f := snapshot.NewFan(&got[0], &got[1], &got[2])
		must(t, give(f))
		must(t, f.Close())
		for i := range got {
			if !bytes.Equal(got[i].Bytes(), want) {
				t.Errorf("%s: writer %d: want %d bytes, got %d or others", name, i, len(want), got[i].Len())
			}
		}
		must(t, f.Close())
	}
}

// TestFanFails lets one writer fail: anyone who writes is told, soon, and the other gets no more.
func TestFanFails(t *testing.T) {
	boom := errors.New("boom")
	var got atomic.Int64
	fails := writerFunc(func(p []byte) (int, error) {
		if got.Add(int64(len(p))) > 1<<20 {
			return 0, boom
		}
		return len(p), nil
	})
	f := snapshot.NewFan(fails, io.Discard)
	n, err := io.Copy(f, io.LimitReader(zeros{}, 1<<30))
	if !errors.Is(err, boom) || n > 16<<20 {
		t.Errorf("want boom within 16 MiB, got %d bytes, %v", n, err)
	}
	if err := f.Close(); !errors.Is(err, boom) {
		t.Errorf("Close: want boom, got %v", err)
	}
	if _, err := io.Copy(snapshot.NewFan(), iotest.ErrReader(boom)); !errors.Is(err, boom) {
		t.Errorf("reader that fails: want boom, got %v", err)
	}
}

// TestEncoder compresses pieces of which every other one takes much longer, and wants them in their order.
func TestEncoder(t *testing.T) {
	want := make([]byte, 9<<20+17)
	for i := 0; i < len(want); i += 1 << 20 {
		rand.NewChaCha8([32]byte{byte(i >> 20)}).Read(want[i:min(len(want), i+512<<10)])
	}
	for _, codec := range []string{"zstd", "gzip"} {
		var stored bytes.Buffer
		lanes, finish, err := snapshot.NewEncoder(&stored, codec)
		must(t, err)
		f := snapshot.NewFan(lanes...)
		_, err = f.Write(want)
		must(t, errors.Join(err, f.Close()))
		must(t, finish([]byte("end")))
		dec, err := snapshot.NewDecoder(&stored, codec)
		must(t, err)
		got, err := io.ReadAll(dec)
		must(t, errors.Join(err, dec.Close()))
		if !bytes.Equal(got, append(bytes.Clone(want), "end"...)) {
			t.Errorf("%s: want %d bytes, got %d or others", codec, len(want)+3, len(got))
		}
		boom := errors.New("boom")
		lanes, _, err = snapshot.NewEncoder(writerFunc(func([]byte) (int, error) { return 0, boom }), codec)
		must(t, err)
		f = snapshot.NewFan(lanes...)
		_, _ = f.Write(want)
		if err := f.Close(); !errors.Is(err, boom) {
			t.Errorf("%s: writer that fails: want boom, got %v", codec, err)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestLimited reads 10 MiB at 2 MiB a second, of which one may come at once.
func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		n, err := io.Copy(io.Discard, snapshot.Limited(t.Context(), io.LimitReader(zeros{}, 10<<20), 2<<20))
		if took := time.Since(start).Round(time.Millisecond); err != nil || n != 10<<20 || took != 4500*time.Millisecond {
			t.Errorf("want 10 MiB in 4.5 s, got %d bytes in %s, %v", n, took, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := io.Copy(io.Discard, snapshot.Limited(ctx, zeros{}, 100)); err == nil {
			t.Error("want that it ends with its context")
		}
		r := snapshot.Limited(t.Context(), io.LimitReader(zeros{}, 10<<20), 0)
		start = time.Now()
		if _, err := io.Copy(io.Discard, r); err != nil || time.Since(start) != 0 {
			t.Errorf("no bound: took %s, %v", time.Since(start), err)
		}
	})
}
