package snapshottest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"holdfast/snapshot"
)

// large is more than a store sends in one piece, and not a multiple of any part size.
const large = 20<<20 + 12345

// randomData returns a reader of n bytes that do not repeat.
func randomData(n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), n)
}

// largeObjects puts objects that are sent in pieces: whole, failing midway, and with a context that ends midway.
func largeObjects(t *testing.T, s snapshot.Store) {
	check := func() {
		t.Helper()
		r, err := s.Get(t.Context(), "a/large")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		want, _ := io.ReadAll(randomData(large))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("Get: want the %d bytes that were put, got %d others, %v", len(want), len(got), err)
		}
	}
	if err := s.Put(t.Context(), "a/large", randomData(large)); err != nil {
		t.Fatalf("Put: %v", err)
	}
	check()
	broken := errors.New("broken source")
	for _, name := range []string{"a/large", "a/new"} {
		if err := s.Put(t.Context(), name, io.MultiReader(randomData(large), failing{broken})); !errors.Is(err, broken) {
			t.Errorf("Put from a broken reader: want its error, got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ends := readerFunc(func([]byte) (int, error) { cancel(); return 0, nil })
		if err := s.Put(ctx, name, io.MultiReader(randomData(large), ends)); !errors.Is(err, context.Canceled) {
			t.Errorf("Put with a context that ends: want Canceled, got %v", err)
		}
	}
	wantNames(t, s, "", "a/large")
	check()
}

// sameDataRace lets all callers put the same bytes: a store must not recognise its own object by the content.
func sameDataRace(t *testing.T, s snapshot.Store) {
	var wg sync.WaitGroup
	var won atomic.Int32
	start := make(chan struct{})
	for range 20 {
		wg.Go(func() {
			<-start
			switch err := s.PutIfAbsent(t.Context(), "c/control/record-3.json", []byte("all the same")); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, snapshot.ErrExists):
				t.Errorf("PutIfAbsent: want ErrExists, got %v", err)
			}
		})
	}
	close(start)
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("PutIfAbsent of the same data: want one winner, got %d", won.Load())
	}
}
