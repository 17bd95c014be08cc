package cmd

import (
	"strings"
	"testing"
	"time"

	"holdfast/gossip"
)

// An operator is told what is forgotten, by whom, what it knew, and who could not be told.
func TestForgottenIsTold(t *testing.T) {
	r := gossip.Forgetting{Node: "stray", Since: time.Unix(1, 0).UTC(), Told: []string{"n1", "n2"},
		Witness: gossip.Witness{Slot: "a", Disk: "d1", Record: "main@1-abc"},
		Untold:  map[string]string{"n3": "no answer"}}
	for _, tt := range []struct {
		dry  bool
		want []string
	}{
		{false, []string{"forgot"}},
		{true, []string{"would forget", "nothing was changed"}},
	} {
		r.Dry = tt.dry
		got := forgottenText(r)
		for _, want := range append(tt.want, "stray", "1970-01-01T00:00:01Z", "n1, n2", "slot a", "disk d1", "main@1-abc", "blank disks may found", "not confirmed by n3") {
			if !strings.Contains(got, want) {
				t.Errorf("it does not say %q:\n%s", want, got)
			}
		}
	}
}
