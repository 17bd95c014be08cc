package generations

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"holdfast/embedded/plan"
)

// What is known of objects that no longer exist is forgotten. Of more processes than there can be, only some are read.
func TestWhatIsKnownIsBounded(t *testing.T) {
	dir, r, founding := shelf(t)
	at := filepath.Join(dir, "holdfast/main")
	p := proposal(founding, 0)
	p.Lasts = 1 << 40
	if err := r.Propose(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	known(t, r)
	if len(r.cache.known) < 2 || len(r.ages.first) != 1 {
		t.Fatalf("known are %d objects and %d ages", len(r.cache.known), len(r.ages.first))
	}
	if _, err := r.Abort(t.Context(), p, plan.Abort{ID: p.ID, Why: "no"}); err != nil {
		t.Fatal(err)
	}
	known(t, r)
	if len(r.ages.first) != 0 {
		t.Errorf("the age of what is over is kept: %v", r.ages.first)
	}
	for _, name := range []string{"restore-000002-01.json", "outcome-000002-01.json"} {
		if err := os.Remove(filepath.Join(at, name)); err != nil {
			t.Fatal(err)
		}
	}
	known(t, r)
	if len(r.cache.known) != 1 {
		t.Errorf("%d objects are known, and one is there", len(r.cache.known))
	}
	if err := os.MkdirAll(filepath.Join(at, hereDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range maxHere + 5 {
		name := filepath.Join(dir, filepath.FromSlash(r.HereName(fmt.Sprint(i))))
		if err := os.WriteFile(name, fmt.Appendf(nil, `{"node":"%d","nonce":"n%d"}`, i, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Meet(t.Context(), "us", "ours"); err != nil {
		t.Fatal(err)
	}
	if known(t, r); len(r.Nonces()) > maxHere {
		t.Errorf("%d processes were looked for", len(r.Nonces()))
	}
}
