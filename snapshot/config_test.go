package snapshot_test

import (
	"strings"
	"testing"
	"time"

	"holdfast/snapshot"
)

func TestConfig(t *testing.T) {
	must(t, snapshot.Default().Validate())
	must(t, snapshot.Config{Store: "/backup", Scratch: "/var/tmp", Every: 0, Retry: time.Second}.Validate())
	err := snapshot.Config{Store: "backup", Scratch: "tmp", Every: time.Millisecond, Retry: 0}.Validate()
	for _, want := range []string{
		`snapshot.store: must be an absolute path, got "backup"`,
		`snapshot.scratch: must be an absolute path, got "tmp"`,
		"snapshot.every: must be 0 (off) or at least 1s, got 1ms",
		"snapshot.retry: must be at least 1s, got 0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: want %q, got %v", want, err)
		}
	}
}
