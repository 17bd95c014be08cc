package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/snapshot"
)

// two returns a store to copy from and one to copy to.
func two(t testing.TB) (from, to *observed, root string) {
	root = t.TempDir()
	return &observed{Store: snapshot.NewDir(t.TempDir())}, &observed{Store: snapshot.NewDir(root)}, root
}

func wantSame(t *testing.T, from, to snapshot.Store, name string) {
	t.Helper()
	for _, object := range objects(t, from, name+"/") {
		if strings.HasSuffix(object, "/holdfast.begin.json") {
			continue
		}
		want, err := read(t.Context(), from, object)
		must(t, err)
		if got, err := read(t.Context(), to, object); err != nil || got != want {
			t.Errorf("%s: want %.40q, got %.40q, %v", object, want, got, err)
		}
	}
}

func TestCopy(t *testing.T) {
	data := strings.Repeat("data ", 1<<16)
	for name, test := range map[string]struct {
		put  func(from snapshot.Store) string
		want []string // what is written, in this order
	}{
		"native": {
			func(from snapshot.Store) string { return forge(t, from, forged(midday, data), data).Name },
			[]string{"create holdfast.begin.json", "put etcd.backup.zst", "create holdfast.meta.json"},
		},
		"pinned, for etcd-manager": {
			func(from snapshot.Store) string {
				m := forge(t, from, gzipped(forged(midday, data)), data)
				must(t, snapshot.Pin(t.Context(), from, m.Name, "why"))
				return m.Name
			},
			[]string{"create holdfast.begin.json", "put etcd.backup.gz", "create holdfast.pin.json", "create holdfast.meta.json", "create _etcd_backup.meta"},
		},
		"unmarked": {
			func(from snapshot.Store) string {
				m := forge(t, from, gzipped(forged(midday, data)), data)
				must(t, from.Delete(t.Context(), m.Name+"/_etcd_backup.meta"))
				return m.Name
			},
			[]string{"create holdfast.begin.json", "put etcd.backup.gz", "create holdfast.meta.json", "create _etcd_backup.meta"},
		},
		"legacy": {
			func(from snapshot.Store) string { legacy(t, from, "by-hand", midday, data); return "by-hand" },
			[]string{"create holdfast.begin.json", "put etcd.backup.gz", "create _etcd_backup.meta"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, _ := two(t)
			name := test.put(from)
			before, err := snapshot.Find(t.Context(), from, ours, name)
			must(t, err)
			from.did()
			phases := map[string]snapshot.Progress{}
			opt := snapshot.Options{Progress: func(p snapshot.Progress) { phases[p.Phase] = p }}
			got, err := snapshot.Copy(t.Context(), from, to, name, opt)
			if err != nil || got != before.Meta {
				t.Fatalf("Copy: want %+v, got %+v, %v", before.Meta, got, err)
			}
			want := test.want
			for i, w := range want {
				op, file, _ := strings.Cut(w, " ")
				want[i] = op + " " + name + "/" + file
			}
			if did := to.did(); !slices.Equal(did, want) {
				t.Errorf("want %q, got %q", want, did)
			}
			wantSame(t, from, to, name)
			after, err := snapshot.Find(t.Context(), to, ours, name)
			before.Unmarked = false
			if err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("in the other store: want %+v, got %+v, %v", before, after, err)
			}
			n := int64(len(data))
			for _, phase := range []string{"copying", "verifying"} {
				if p := phases[phase]; p != (snapshot.Progress{Phase: phase, Done: n, Total: n}) {
					t.Errorf("progress of %s: want %d, got %+v", phase, n, p)
				}
			}

			if _, err := snapshot.Copy(t.Context(), from, to, name, snapshot.Options{}); err != nil {
				t.Errorf("again: %v", err)
			}
			if did := append(to.did(), from.did()...); len(did) != 0 {
				t.Errorf("again: want nothing written, got %q", did)
			}
		})
	}
}

func TestCopyMends(t *testing.T) {
	from, to, _ := two(t)
	m := forge(t, from, gzipped(forged(midday, "data")), "data")
	copied := func() {
		t.Helper()
		if _, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{}); err != nil {
			t.Fatal(err)
		}
		wantSame(t, from, to, m.Name)
	}
	copied()
	must(t, to.Delete(t.Context(), m.Name+"/etcd.backup.gz"))
	copied()
	put(t, to, m.Name+"/etcd.backup.gz", "dat")
	copied()
	must(t, to.Delete(t.Context(), m.Name+"/_etcd_backup.meta"))
	copied()
}

// TestCopyRefuses checks that after an error nothing that counts is written or replaced.
// The copy in the other store has rotted, and its size is as before. Copying the good one again must not call it equal.
func TestCopyMendsRot(t *testing.T) {
	data := strings.Repeat("data ", 1<<16)
	from, to, _ := two(t)
	name := forge(t, from, forged(midday, data), data).Name
	_, err := snapshot.Copy(t.Context(), from, to, name, snapshot.Options{})
	must(t, err)
	must(t, to.Put(t.Context(), name+"/etcd.backup.zst", strings.NewReader(strings.Repeat("rot! ", 1<<16))))
	_, err = snapshot.Copy(t.Context(), from, to, name, snapshot.Options{})
	must(t, err)
	wantSame(t, from, to, name)
}

func TestCopyRefuses(t *testing.T) {
	m := forged(midday, "data")
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		prepare func(t *testing.T, from, to *observed, root string)
		want    string
	}{
		"absent": {func(t *testing.T, from, to *observed, _ string) { must(t, snapshot.Delete(t.Context(), from, m.Name)) }, "object not found"},
		"incomplete": {func(t *testing.T, from, to *observed, _ string) {
			must(t, from.Delete(t.Context(), m.Name+"/holdfast.meta.json"))
		}, "incomplete"},
		"damaged source":   {func(t *testing.T, from, to *observed, _ string) { put(t, from, m.Name+"/etcd.backup.zst", "dada") }, "the data is not what the sidecar says"},
		"truncated source": {func(t *testing.T, from, to *observed, _ string) { put(t, from, m.Name+"/etcd.backup.zst", "dat") }, "the data has 3 bytes, want 4"},
		"written wrong": {func(t *testing.T, from, to *observed, _ string) {
			to.alter = func(_ string, b []byte) []byte { return []byte(strings.ToUpper(string(b))) }
		}, "read back: want sha256 " + m.Stored.SHA256},
		"written short": {func(t *testing.T, from, to *observed, _ string) {
			to.alter = func(_ string, b []byte) []byte { return b[:2] }
		}, "read back: want 4 bytes, got 2"},
		"no sidecar written": {func(t *testing.T, from, to *observed, _ string) {
			to.refuse = func(op, name string) error {
				if op == "create" && strings.HasSuffix(name, "meta.json") {
					return broken
				}
				return nil
			}
		}, "broken"},
		"another of that name": {func(t *testing.T, from, to *observed, _ string) {
			other := forged(midday, "other")
			other.Cluster = "test"
			forge(t, to, other, "other")
		}, "another backup of that name, cluster test, lineage \"l-1\", slot a, revision 7, sha256 " + forged(midday, "other").Stored.SHA256 + "; the one to copy is cluster prod"},
		"etcd-manager's": {func(t *testing.T, from, to *observed, _ string) { legacy(t, to, m.Name, midday, "data") }, "another backup of that name, etcd-manager's"},
		"a damaged sidecar": {func(t *testing.T, from, to *observed, _ string) {
			forge(t, to, m, "data")
			put(t, to, m.Name+"/holdfast.meta.json", "{}")
		}, "the other store has a damaged one (delete it there)"},
		"a save under way": {func(t *testing.T, from, to *observed, _ string) { begun(t, to, m) }, `an unfinished one of that name (cluster "prod", node "n1", since 2026-07-01T12:00:00Z)`},
		"an abandoned one of a store that nobody wrote to since": {func(t *testing.T, from, to *observed, root string) {
			begun(t, to, m)
			written(t, root, time.Now().Add(-25*time.Hour))
		}, "an unfinished one of that name"},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, root := two(t)
			forge(t, from, m, "data")
			test.prepare(t, from, to, root)
			good := func() (good []string) {
				list, err := snapshot.List(t.Context(), to.Store, ours)
				must(t, err)
				for _, b := range list {
					if b.Problem == "" {
						good = append(good, fmt.Sprintf("%+v", b))
					}
				}
				return good
			}
			before := good()
			got, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) || got != (snapshot.Meta{}) {
				t.Errorf("want an error with %q, got %+v, %v", test.want, got, err)
			}
			if after := good(); !slices.Equal(after, before) {
				t.Errorf("good in the other store: before %q, after %q", before, after)
			}
		})
	}
	for _, name := range []string{"", "..", "control", "a/b"} {
		from, to, _ := two(t)
		if _, err := snapshot.Copy(t.Context(), from, to, name, snapshot.Options{}); err == nil || errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("Copy(%q): want that it is no name, got %v", name, err)
		}
	}
}

// TestCopyLegacyRefuses copies over a different backup of etcd-manager.
func TestCopyLegacyRefuses(t *testing.T) {
	from, to, _ := two(t)
	legacy(t, from, "by-hand", midday, "data")
	legacy(t, to, "by-hand", midday, "dada")
	if _, err := snapshot.Copy(t.Context(), from, to, "by-hand", snapshot.Options{}); err == nil || !strings.Contains(err.Error(), "another backup of that name") {
		t.Errorf("want that another is there, got %v", err)
	}
}

// TestCopyTakesOver completes what an earlier Copy, or a save long ago, has left behind.
func TestCopyTakesOver(t *testing.T) {
	for _, step := range []string{"etcd.backup.zst", "holdfast.meta.json"} {
		from, to, _ := two(t)
		m := forge(t, from, forged(midday, "data"), "data")
		to.refuse = func(_, name string) error {
			if strings.HasSuffix(name, step) {
				return errors.New("refused")
			}
			return nil
		}
		if _, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{}); err == nil {
			t.Errorf("without %s: want an error", step)
		}
		to.refuse = nil
		if _, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{}); err != nil {
			t.Errorf("completing after %s: %v", step, err)
		}
		wantSame(t, from, to, m.Name)
	}

	from, to, root := two(t)
	m := forge(t, from, forged(midday, "data"), "data")
	left := gzipped(forged(midday, "left"))
	forge(t, to, left, "left")
	for _, file := range []string{"holdfast.meta.json", "_etcd_backup.meta"} {
		must(t, to.Delete(t.Context(), m.Name+"/"+file))
	}
	written(t, filepath.Join(root, m.Name), time.Now().Add(-25*time.Hour))
	forge(t, to, forged(midday.Add(time.Hour), "x"), "x") // now the store's clock is known
	if _, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{}); err != nil {
		t.Fatal(err)
	}
	wantSame(t, from, to, m.Name)
	if got := objects(t, to, m.Name+"/"); len(got) != 3 {
		t.Errorf("want nothing left of the abandoned one, got %q", got)
	}
}

// TestCopyRaces copies one backup from many goroutines at once, and two different backups of one name.
func TestCopyRaces(t *testing.T) {
	from, to, _ := two(t)
	m := forge(t, from, forged(midday, strings.Repeat("a", 1<<18)), strings.Repeat("a", 1<<18))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{}); err != nil || got != m {
				t.Errorf("want that all succeed, got %+v, %v", got, err)
			}
		})
	}
	wg.Wait()
	wantList(t, to, ours, m.Name)

	for range 20 {
		_, to, _ := two(t)
		var mu sync.Mutex
		var won []string
		for _, slot := range []string{"a", "b"} {
			from, _, _ := two(t)
			m := forged(midday, slot)
			m.Slot = slot
			forge(t, from, m, slot)
			wg.Go(func() {
				if _, err := snapshot.Copy(t.Context(), from, to, m.Name, snapshot.Options{}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, slot)
				}
			})
		}
		wg.Wait()
		list, err := snapshot.List(t.Context(), to, ours)
		if err != nil || len(won) != 1 || len(list) != 1 || list[0].Slot != won[0] || list[0].Problem != "" {
			t.Fatalf("want one winner, and its backup, got %q, %+v, %v", won, list, err)
		}
	}
}

// TestCopyStops ends the context while the data flows.
func TestCopyStops(t *testing.T) {
	from, to, _ := two(t)
	data := strings.Repeat("x", 1<<20)
	m := forge(t, from, forged(midday, data), data)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := snapshot.Copy(ctx, from, to, m.Name, snapshot.Options{Progress: func(p snapshot.Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("want Canceled, got %v", err)
	}
	if got := objects(t, to, m.Name+"/"); len(got) != 1 {
		t.Errorf("want only the reservation, got %q", got)
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
