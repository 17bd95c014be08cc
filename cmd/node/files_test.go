package node

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// A standby, and a node that still waits for its certificates, has none: that is no fault. Nor may a file of the
// operator's be missing, or one of holdfast's beside a member.
func TestFilesThatAreNotIssuedYet(t *testing.T) {
	dir := t.TempDir()
	missing := func(text string, member bool) (keys []string) {
		for _, f := range lookAtFiles(loaded(t, text), member) {
			if f.Err != "" {
				keys = append(keys, f.Key)
			}
		}
		slices.Sort(keys)
		return keys
	}
	auto := fmt.Sprintf("{node: {address: 127.9.9.9, data-dir: %s}, tls: {mode: auto}}", dir)
	if got := missing(auto, false); len(got) > 0 {
		t.Errorf("before a member runs: got %q", got)
	}
	if got := missing(auto, true); len(got) == 0 {
		t.Error("beside a member nothing is missed")
	}
	key := filepath.Join(dir, "identity.txt")
	own := fmt.Sprintf("{node: {address: 127.9.9.9, data-dir: %s}, tls: {mode: auto}, snapshot: {identity-file: %s}}", dir, key)
	if got, want := missing(own, false), []string{"snapshot.identity-file"}; !slices.Equal(got, want) {
		t.Errorf("a file of the operator's: got %q, want %q", got, want)
	}
}
