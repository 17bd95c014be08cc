package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The clock of a machine was a year ahead when a process began, and is right for the next ones.
func TestBootRises(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	last := uint64(0)
	for _, clock := range []time.Time{now, now.AddDate(1, 0, 0), now, now.Add(-time.Hour), now.AddDate(1, 0, 1)} {
		boot, err := nextBoot(dir, clock)
		if err != nil || boot <= last || boot < uint64(clock.UnixNano()) {
			t.Errorf("at %s: got %d, %v, want more than %d", clock, boot, err, last)
		}
		last = boot
	}
	for _, text := range []string{"", "-1", "x", "18446744073709551615", "9223372036854775807"} {
		must(t, os.WriteFile(filepath.Join(dir, bootName), []byte(text), 0o600))
		if boot, err := nextBoot(dir, now); boot != uint64(now.UnixNano()) || err != nil {
			t.Errorf("after %q: got %d, %v, want the time", text, boot, err)
		}
	}
	if boot, err := nextBoot(filepath.Join(dir, "gone"), now); boot != uint64(now.UnixNano()) || err == nil {
		t.Errorf("without a directory: got %d, %v, want the time and an error", boot, err)
	}
}
