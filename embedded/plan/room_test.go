package plan

import "testing"

func TestReserve(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct{ size, want int64 }{
		{256 * mib, 64 * mib}, {512 * mib, 128 * mib}, {1 * gib, 128 * mib}, {6 * gib, 128 * mib}, {20 * gib, 20 * gib / 50}, {1000 * gib, 1 * gib},
	} {
		if got := (Room{Size: c.size}).Reserve(); got != c.want {
			t.Errorf("reserve of %d MiB: got %d MiB, want %d", c.size/mib, got/mib, c.want/mib)
		}
	}
	for _, c := range []struct {
		free, size   int64 // MiB
		before, want bool
	}{
		{127, 4096, false, true}, {128, 4096, false, false}, {191, 4096, true, true}, {192, 4096, true, false}, {0, 0, false, false}, {0, 0, true, true},
	} {
		if got := (Room{Free: c.free * mib, Size: c.size * mib}).Short(c.before); got != c.want {
			t.Errorf("%d of %d MiB free, short before: %t: got %t", c.free, c.size, c.before, got)
		}
	}
}
