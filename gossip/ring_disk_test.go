package gossip

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A disk that takes nothing, or has lost what it had, parts nobody from the others, and ends no process: a member serves
// beside.
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
			for !strings.Contains(strings.Join(m.Problems(), ""), "derived anew") {
				time.Sleep(time.Millisecond)
			}
			_ = os.Remove(damaged)
		}()
	})
	await(t, "c sees a", 10*time.Second, sees(c, "a"))
}
