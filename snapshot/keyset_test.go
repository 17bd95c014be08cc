package snapshot

import (
	"testing"

	"pgregory.net/rapid"
)

// TestKeySet compares the set with a map, also while it grows and where hashes collide in the table.
func TestKeySet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, want := newKeySet(rapid.IntRange(0, 20).Draw(t, "room")), map[uint64]bool{}
		for _, n := range rapid.SliceOf(rapid.Uint64Range(0, 300)).Draw(t, "keys") {
			hash := n / 2 << 1 // even: the lowest bit does not count
			if n%3 == 0 {
				hash <<= 56 // of the bits that find a slot, none is left
			}
			set.put(hash, n%2 == 0)
			want[max(hash, 2)] = n%2 == 0
		}
		live := false
		for hash, lives := range want {
			live = live || lives
			if !set.has(hash) || !set.has(hash|1) || set.has(hash+1<<40) {
				t.Errorf("%#x: not the only one with its upper bits", hash)
			}
			if got := *set.find(hash)&1 != 0; got != lives {
				t.Errorf("%#x lives: want %t, got %t", hash, lives, got)
			}
		}
		if set.used != len(want) || set.live() != live {
			t.Errorf("want %d keys, any alive: %t, got %d, %t", len(want), live, set.used, set.live())
		}
	})
}
