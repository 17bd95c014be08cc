package gossip

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A disk that takes nothing, or has lost what it had, parts nobody from the others, and ends no process: a member
// serves beside.
func TestDerivedKeysOnABadDisk(t *testing.T) {
	t.Parallel()
	shared := func() [][]byte { return [][]byte{[]byte("of the authority")} }
	a := startRing(t, node("a"), DerivedRing(filepath.Join(t.TempDir(), "keys.json"), shared))
	dir := filepath.Join(t.TempDir(), "not", "there")
	b := startRing(t, node("b"), DerivedRing(filepath.Join(dir, "keys.json"), shared), a)
	await(t, "b sees a", 10*time.Second, sees(b, "a"))
	await(t, "b says that it cannot keep its keys", 10*time.Second, complains(b, "kept in memory alone"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	await(t, "b has kept them", 10*time.Second, func() bool { return !complains(b, "kept in memory alone")() })

	damaged := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := launch(t, "main", node("c"), seeded(a), func(m *Mesh) {
		m.UseRing(DerivedRing(damaged, shared))
		go func() { // what Run says until then, and what it tells an operator to do
			for t.Context().Err() == nil && !strings.Contains(fmt.Sprint(m.Problems()), damaged) {
				time.Sleep(time.Millisecond)
			}
			_ = os.Remove(damaged)
		}()
	})
	await(t, "c sees a", 10*time.Second, sees(c, "a"))
}

// Who loses the file while he runs does not go back to a key that a rotation has removed.
func TestDerivedKeysAreNotDerivedAnewWhileTheyAreKnown(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tls", "keys.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := []byte("s")
	r := DerivedRing(path, func() [][]byte { return [][]byte{secret} })
	next := derive(secret, 1)
	for _, o := range []KeyOrder{
		{Do: KeyInstall, Key: next.Key}, {Do: KeyUse, Key: next.Key}, {Do: KeyRemove, Old: []string{derive(secret, 0).Fingerprint}},
	} {
		if _, err := r.Obey(o); err != nil {
			t.Fatal(err)
		}
	}
	known := func(when string) {
		t.Helper()
		if _, err := r.Refresh(); err != nil || len(r.Keys().Keys) != 1 || r.Keys().Primary() != next.Key {
			t.Errorf("%s: %v, %+v, want only %+v", when, err, r.Keys().Keys, next.Key)
		}
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if known("without the directory"); !strings.Contains(r.Problem(), "in memory alone") {
		t.Errorf("problem: %q", r.Problem())
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if known("written anew"); r.Problem() != "" {
		t.Errorf("problem: %q", r.Problem())
	}
	if keys, err := readDerived(path); err != nil || len(keys) != 1 || keys[0].Key != next.Key {
		t.Errorf("kept: %+v, %v", keys, err)
	}
}
