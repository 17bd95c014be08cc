package snapshottest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"holdfast/snapshot"
)

// Run tests a store against the contract of snapshot.Store. open returns a new, empty store each time.
func Run(t *testing.T, open func(t *testing.T) snapshot.Store) {
	for name, test := range map[string]func(*testing.T, snapshot.Store){
		"PutGet":             putGet,
		"Absent":             absentObjects,
		"PutReplaces":        putReplaces,
		"PutIsAtomic":        putIsAtomic,
		"AbortedPut":         abortedPut,
		"PutIfAbsent":        putIfAbsent,
		"PutIfAbsentRace":    putIfAbsentRace,
		"PutBesideDelete":    putBesideDelete,
		"List":               list,
		"Delete":             deleteObjects,
		"Names":              names,
		"EndedContext":       endedContext,
		"ContextEndsMidway":  contextEndsMidway,
		"StoreID":            storeID,
		"ConditionalIsReal":  conditionalIsReal,
		"ManyWritersOneName": manyWriters,
		"LargeObjects":       largeObjects,
		"SameDataRace":       sameDataRace,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func put(t *testing.T, s snapshot.Store, name, text string) {
	t.Helper()
	if err := s.Put(t.Context(), name, strings.NewReader(text)); err != nil {
		t.Fatalf("Put(%s): %v", name, err)
	}
}

func read(ctx context.Context, s snapshot.Store, name string) (string, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

func wantObject(t *testing.T, s snapshot.Store, name, want string) {
	t.Helper()
	if got, err := read(t.Context(), s, name); err != nil || got != want {
		t.Errorf("Get(%s): want %.40q, got %.40q, %v", name, want, got, err)
	}
}

func wantNames(t *testing.T, s snapshot.Store, prefix string, want ...string) {
	t.Helper()
	objects, err := s.List(t.Context(), prefix)
	if err != nil {
		t.Fatalf("List(%q): %v", prefix, err)
	}
	got := make([]string, 0, len(objects))
	for _, o := range objects {
		got = append(got, o.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("List(%q): want %q, got %q", prefix, want, got)
	}
}

func putGet(t *testing.T, s snapshot.Store) {
	big := strings.Repeat("0123456789abcdef", 1<<16)
	put(t, s, "c/2026-07-01T00:15:03Z-000042/etcd.backup.zst", big)
	put(t, s, "top", "")
	wantObject(t, s, "c/2026-07-01T00:15:03Z-000042/etcd.backup.zst", big)
	wantObject(t, s, "top", "")
}

func absentObjects(t *testing.T, s snapshot.Store) {
	put(t, s, "c/there", "x")
	for _, name := range []string{"gone", "c/gone", "gone/gone", "c", "c/there/below"} {
		if _, err := s.Get(t.Context(), name); !errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Get(%s): want ErrNotFound, got %v", name, err)
		}
		if err := s.Delete(t.Context(), name); err != nil {
			t.Errorf("Delete(%s): want no error, got %v", name, err)
		}
	}
	wantNames(t, s, "gone/")
	wantObject(t, s, "c/there", "x")
}

func putReplaces(t *testing.T, s snapshot.Store) {
	put(t, s, "a/b", "a longer first text")
	put(t, s, "a/b", "second")
	wantObject(t, s, "a/b", "second")
	wantNames(t, s, "", "a/b")
}

// putIsAtomic replaces an object while others read it. No reader may see a mixture.
func putIsAtomic(t *testing.T, s snapshot.Store) {
	texts := []string{strings.Repeat("a", 1<<17), strings.Repeat("b", 1<<16)}
	put(t, s, "a/b", texts[0])
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for {
				got, err := read(t.Context(), s, "a/b")
				if err != nil || !slices.Contains(texts, got) {
					t.Errorf("Get during Put: got %d bytes that were never put, %v", len(got), err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range 20 {
		put(t, s, "a/b", texts[i%2])
	}
	close(stop)
	readers.Wait()
}

func abortedPut(t *testing.T, s snapshot.Store) {
	broken := errors.New("broken source")
	source := func() io.Reader {
		return io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<17)), failing{broken})
	}
	if err := s.Put(t.Context(), "a/new", source()); !errors.Is(err, broken) {
		t.Errorf("Put from a broken reader: want its error, got %v", err)
	}
	wantNames(t, s, "")
	put(t, s, "a/old", "old")
	if err := s.Put(t.Context(), "a/old", source()); !errors.Is(err, broken) {
		t.Errorf("Put from a broken reader: want its error, got %v", err)
	}
	wantObject(t, s, "a/old", "old")
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func putIfAbsent(t *testing.T, s snapshot.Store) {
	if err := s.PutIfAbsent(t.Context(), "c/control/record-1.json", []byte("first")); err != nil {
		t.Fatalf("PutIfAbsent of a free name: %v", err)
	}
	if err := s.PutIfAbsent(t.Context(), "c/control/record-1.json", []byte("second")); !errors.Is(err,
		snapshot.ErrExists) {
		t.Errorf("PutIfAbsent of a taken name: want ErrExists, got %v", err)
	}
	wantObject(t, s, "c/control/record-1.json", "first")
	put(t, s, "d/e", "put")
	if err := s.PutIfAbsent(t.Context(), "d/e", []byte("second")); !errors.Is(err, snapshot.ErrExists) {
		t.Errorf("PutIfAbsent of a name that Put took: want ErrExists, got %v", err)
	}
	if err := s.Delete(t.Context(), "d/e"); err != nil {
		t.Fatal(err)
	}
	if err := s.PutIfAbsent(t.Context(), "d/e", []byte("again")); err != nil {
		t.Errorf("PutIfAbsent of a deleted name: %v", err)
	}
}

func putIfAbsentRace(t *testing.T, s snapshot.Store) {
	const callers = 20
	var wg sync.WaitGroup
	won := make([]bool, callers)
	start := make(chan struct{})
	for i := range callers {
		wg.Go(func() {
			<-start
			err := s.PutIfAbsent(t.Context(), "c/control/record-2.json", fmt.Append(nil, i))
			won[i] = err == nil
			if err != nil && !errors.Is(err, snapshot.ErrExists) {
				t.Errorf("caller %d: want ErrExists, got %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	winner := slices.Index(won, true)
	if winner < 0 || slices.Contains(won[winner+1:], true) {
		t.Fatalf("want exactly one winner, got %v", won)
	}
	wantObject(t, s, "c/control/record-2.json", fmt.Sprint(winner))
}

// putBesideDelete puts into a directory that a concurrent Delete empties again and again.
func putBesideDelete(t *testing.T, s snapshot.Store) {
	var wg sync.WaitGroup
	for _, name := range []string{"a/b/1", "a/b/2"} {
		wg.Go(func() {
			for range 50 {
				if err := s.Put(t.Context(), name, strings.NewReader("x")); err != nil {
					t.Errorf("Put(%s): %v", name, err)
				}
				if err := s.Delete(t.Context(), name); err != nil {
					t.Errorf("Delete(%s): %v", name, err)
				}
			}
		})
	}
	wg.Wait()
	wantNames(t, s, "")
}

func list(t *testing.T, s snapshot.Store) {
	wantNames(t, s, "")
	wantNames(t, s, "a/")
	all := []string{"a-b/x", "a.b", "a/1/x", "a/1/y", "a/10/x", "a/2/x", "ab/x"}
	for i := range all {
		put(t, s, all[(i*3)%len(all)], "123")
	}
	wantNames(t, s, "", all...)
	wantNames(t, s, "a", all...)
	wantNames(t, s, "a/", "a/1/x", "a/1/y", "a/10/x", "a/2/x")
	wantNames(t, s, "a/1", "a/1/x", "a/1/y", "a/10/x")
	wantNames(t, s, "a/1/y", "a/1/y")
	for _, none := range []string{"b", "a/1/z", "a.b/", "../", "/", "a//", "a/1/x/", "a b", "a%2F1", "a+", "ä", "*", "?"} {
		wantNames(t, s, none)
	}
	objects, err := s.List(t.Context(), "a.b")
	if err != nil || len(objects) != 1 || objects[0].Size != 3 || objects[0].Modified.IsZero() {
		t.Errorf("List(a.b): want size 3 and a time, got %+v, %v", objects, err)
	}
}

func deleteObjects(t *testing.T, s snapshot.Store) {
	put(t, s, "a/b/c", "x")
	put(t, s, "a/b/d", "x")
	for range 2 {
		if err := s.Delete(t.Context(), "a/b/c"); err != nil {
			t.Fatal(err)
		}
	}
	wantNames(t, s, "", "a/b/d")
	if err := s.Delete(t.Context(), "a/b/d"); err != nil {
		t.Fatal(err)
	}
	wantNames(t, s, "")
	put(t, s, "a", "a name that was a directory")
	wantNames(t, s, "", "a")
}

func names(t *testing.T, s snapshot.Store) {
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/..", "./a", ".hidden", "a/.hidden", ".holdfast/x",
		"a b", "a\\b", "a\x00b", "a\nb", "ä", "a*b", "a?b", strings.Repeat("a", 201), strings.Repeat("a/", 450) + "b",
	} {
		if err := s.Put(t.Context(), name, strings.NewReader("x")); err == nil {
			t.Errorf("Put(%.20q): want an error", name)
		}
		if err := s.PutIfAbsent(t.Context(), name, []byte("x")); err == nil || errors.Is(err, snapshot.ErrExists) {
			t.Errorf("PutIfAbsent(%.20q): want an error, got %v", name, err)
		}
		if _, err := s.Get(t.Context(), name); err == nil || errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Get(%.20q): want an error, got %v", name, err)
		}
		if err := s.Delete(t.Context(), name); err == nil {
			t.Errorf("Delete(%.20q): want an error", name)
		}
	}
	wantNames(t, s, "")
	long := strings.Repeat("a", 200) + "/" + strings.Repeat("b", 200) + "/c"
	put(t, s, long, "x")
	wantNames(t, s, "", long)
}

func endedContext(t *testing.T, s snapshot.Store) {
	put(t, s, "there", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Put(ctx, "a", strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Put: want Canceled, got %v", err)
	}
	if err := s.PutIfAbsent(ctx, "b", []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("PutIfAbsent: want Canceled, got %v", err)
	}
	if _, err := read(ctx, s, "there"); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: want Canceled, got %v", err)
	}
	if _, err := s.List(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("List: want Canceled, got %v", err)
	}
	if err := s.Delete(ctx, "there"); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: want Canceled, got %v", err)
	}
	wantNames(t, s, "", "there")
}

// contextEndsMidway ends the context after the first bytes of an object were written or read.
func contextEndsMidway(t *testing.T, s snapshot.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Put(ctx, "a", readerFunc(func(p []byte) (int, error) {
		cancel()
		return copy(p, "endless"), nil
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Put: want Canceled, got %v", err)
	}
	wantNames(t, s, "")
	put(t, s, "b", strings.Repeat("x", 1<<20))
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	r, err := s.Get(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(r); !errors.Is(err, context.Canceled) {
		t.Errorf("reading on: want Canceled, got %v", err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func storeID(t *testing.T, s snapshot.Store) {
	const callers = 8
	ids := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			id, err := snapshot.StoreID(t.Context(), s)
			if err != nil {
				t.Errorf("StoreID: %v", err)
			}
			ids[i] = id
		})
	}
	wg.Wait()
	if len(ids[0]) != 32 || len(slices.Compact(ids)) != 1 {
		t.Errorf("StoreID: want one id of 32 digits, got %q", ids)
	}
}

func conditionalIsReal(t *testing.T, s snapshot.Store) {
	if err := snapshot.Probe(t.Context(), s); err != nil {
		t.Errorf("Probe: %v", err)
	}
	wantNames(t, s, "")
}

// manyWriters lets all put one name: the final object is whole, and is one of those that were put.
func manyWriters(t *testing.T, s snapshot.Store) {
	var wg sync.WaitGroup
	var texts []string
	for i := range 8 {
		text := strings.Repeat(fmt.Sprint(i), 1<<15)
		texts = append(texts, text)
		wg.Go(func() {
			if err := s.Put(t.Context(), "a", strings.NewReader(text)); err != nil {
				t.Errorf("Put: %v", err)
			}
		})
	}
	wg.Wait()
	if got, err := read(t.Context(), s, "a"); err != nil || !slices.Contains(texts, got) {
		t.Errorf("Get: got %d bytes that were never put, %v", len(got), err)
	}
}
